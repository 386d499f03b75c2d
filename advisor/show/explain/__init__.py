"""How a number was made."""
