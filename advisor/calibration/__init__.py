"""Fits of measured kernel tables: named bounded parameters in, storable FitRecords out; `kernel_costs` serves them."""
