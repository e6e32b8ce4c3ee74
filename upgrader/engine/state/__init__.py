"""How far a run got: one fold of its events, and its report."""
