"""Engine configuration: what vLLM and SGLang load and how to check it."""
