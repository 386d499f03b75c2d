"""Configuration for vLLM and SGLang."""
