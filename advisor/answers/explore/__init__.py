"""Many scenarios: sweeps, leaderboard, context map, next steps, comparison."""
