"""Kinds of clusters, each tested from end to end: adopted, broken, upgraded, without power, recovered."""
