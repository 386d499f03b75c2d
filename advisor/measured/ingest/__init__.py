"""Benchmark files of any known tool as one table."""
