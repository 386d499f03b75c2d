"""Values and words as readers, spreadsheets and JSON see them."""
