"""Asks the API all the while, as its clients do, and counts what fails.

`probe.py` is the parent's side; `prober.py` a process of its own, on the standard library alone, so that it starts
in a moment and its timing isn't disturbed by whatever else the parent does.
"""
