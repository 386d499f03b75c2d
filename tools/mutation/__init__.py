"""The mutation pass (`make mutants`): each line of the physics is broken in small ways, and a test
has to notice.

docs/testing.md says how it works and what it found. Nothing here is a test.
"""
