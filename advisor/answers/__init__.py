"""What is asked of the model."""
