"""The page Measure."""
