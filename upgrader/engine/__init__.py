"""Carries a pipeline out: the run loop, its journal, its gates and the way back."""
