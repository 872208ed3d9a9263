"""Stage 6: policies compared on held-out tasks, by looking their branches up among the recorded forks (protocol.md 3)."""
