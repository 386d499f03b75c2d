"""Measured rows as scenarios and observations, and the one solver behind overheads and refits."""
