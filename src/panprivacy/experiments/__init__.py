"""Section 6 of the paper run again, figure by figure, and what it does not show."""
