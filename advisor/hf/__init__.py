"""Hugging Face configurations read into an architecture."""
