"""The kinds of change that a pipeline is made of."""
