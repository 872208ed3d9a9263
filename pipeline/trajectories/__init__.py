"""Stage 2: cohorts, factual runs, trunks."""
