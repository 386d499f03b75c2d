"""Charts as pure builders: values in, figure with its finding and its numbers out. Pages and reports draw the same."""
