"""What was measured: store, files, fits, points, refits."""
