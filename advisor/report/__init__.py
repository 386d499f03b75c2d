"""What leaves the advisor: reports and engine configuration.

Nothing is imported here: the command line uses single modules of this package where heavy libraries are missing.
"""
