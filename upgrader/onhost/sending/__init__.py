"""Sends programs to hosts, and reads their answers."""
