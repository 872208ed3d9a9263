"""Running many episodes: worker processes, a journal of what is finished, progress."""
