"""Which image etcd's members get: the section `etcd` of `upgrader.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.model.availability import Limits
from upgrader.model.etcd_version import EtcdVersion

__all__ = ["EtcdSettings"]


@dataclass(frozen=True)
class EtcdSettings:
    """The image, as the manifests are to have it, and the version of what is in it."""

    image: str
    version: EtcdVersion
    limits: Limits
    """How much the step may disturb the API's clients."""
    ready_seconds: float = 180.0
    """How long a member may take to be healthy with its new image."""
