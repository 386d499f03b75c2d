"""How many distinct experts a step touches; presets, traces and counts that say so."""
