"""Privacy: where randomness comes from, the coins of a bit, how a budget is split and spent, exact arithmetic."""
