"""Why a run is slow: by rules, and beside its prediction."""
