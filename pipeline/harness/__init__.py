"""The ReAct harness: prompt, parse, conditions, operators, and the episode loop that everything goes through."""
