"""The journal: one line for each event, on disk before the next action."""
