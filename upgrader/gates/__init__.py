"""Checks of a cluster's health. Each checks once, returns a verdict, and changes nothing."""
