"""What a run's records say: every figure of it, as tables in the terminal and as a page."""
