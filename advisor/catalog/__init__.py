"""What is known about models and accelerators, from profiles or as the user gave it."""
