"""The page Serve."""
