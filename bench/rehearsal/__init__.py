"""Rehearsals of clusters with one mistake each, and of clusters without any, by real API servers on this machine."""
