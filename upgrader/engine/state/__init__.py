"""How far a run got: one fold of its events, and what is shown of it."""
