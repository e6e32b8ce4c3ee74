"""Helm releases."""
