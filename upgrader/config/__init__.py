"""Reads the cluster folder's files into frozen values; nothing here connects to a cluster."""
