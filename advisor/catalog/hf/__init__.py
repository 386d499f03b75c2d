"""Hugging Face configs: how a config.json becomes an architecture."""
