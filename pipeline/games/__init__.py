"""Stage 1, games: index ALFWorld's, generate new ones in the same layout, translate them once for the engine."""
