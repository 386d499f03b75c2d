"""A serving engine measured step by step, with a design's config and random weights."""
