"""Stage 4: pairs of trunk and branch, what was excluded, and the effects of a recovery (protocol.md sections 1 and 4)."""
