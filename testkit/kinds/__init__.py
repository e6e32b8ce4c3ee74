"""Kinds of clusters, and the whole way that each is taken: adopted, broken, upgraded, without power, recovered."""
