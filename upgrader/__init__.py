"""Upgrades self-hosted Kubernetes control planes, and rolls back if a step fails."""

__version__ = "0.1.0"
