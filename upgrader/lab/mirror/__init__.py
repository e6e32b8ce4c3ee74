"""Kubernetes' own release, from its hosts or from a mirror. Everything is verified before it is used."""

from upgrader.lab.mirror.address import Address, read_address
from upgrader.lab.mirror.download import Downloads, Unavailable
from upgrader.lab.mirror.origin import Mirror
from upgrader.lab.mirror.signatures import read_authorities

__all__ = ["Address", "Downloads", "Mirror", "Unavailable", "read_address", "read_authorities"]
