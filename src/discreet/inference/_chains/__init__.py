"""Chains over the counts of cells that nobody knows, given what was released of them: `release` says which model."""
