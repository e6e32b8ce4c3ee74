"""Sends programs to hosts, and reads what they answer."""
