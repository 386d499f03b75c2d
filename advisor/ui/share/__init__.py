"""The page Share."""
