"""Sends data about a run to monitoring systems. Nothing here can fail or delay a run."""
