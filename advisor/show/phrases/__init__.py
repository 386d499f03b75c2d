"""Every sentence of the product, one book a family, and the filler that says them."""
