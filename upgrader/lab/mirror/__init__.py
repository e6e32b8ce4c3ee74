"""Kubernetes' own release from a mirror, instead of what the lab builds. Everything is verified before it is used."""

from upgrader.lab.mirror.address import read_address
from upgrader.lab.mirror.origin import Mirror
from upgrader.lab.mirror.signatures import read_authorities

__all__ = ["Mirror", "read_address", "read_authorities"]
