"""Stage 3: branches forked from every trunk at k + d, one operator each."""
