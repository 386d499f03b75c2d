"""Which MoE instead: the search over designs, regions, several targets."""
