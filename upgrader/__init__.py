"""Upgrades self-hosted Kubernetes control planes, with a way back."""

__version__ = "0.1.0"
