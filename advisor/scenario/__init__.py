"""What the user chose: the scenario, its file and its examples."""
