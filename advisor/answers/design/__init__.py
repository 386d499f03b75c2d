"""Which MoE instead: the search over designs, and one for several targets."""
