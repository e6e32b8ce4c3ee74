"""Nodes that a pool gets before its upgrade, and loses afterwards."""
