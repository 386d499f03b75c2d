"""What is known: models, accelerators, engines, fit records, routing presets."""
