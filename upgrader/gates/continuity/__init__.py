"""The continuity gates: what worked before the first step of a run works after each."""
