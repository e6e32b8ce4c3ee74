"""What `bundle.json` says of a bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from upgrader.model.version import KubernetesVersion

__all__ = ["FORMAT_VERSION", "BundleIndex", "BundledChart", "BundledImages"]

FORMAT_VERSION: Literal["1.0"] = "1.0"


@dataclass(frozen=True)
class BundledImages:
    """One image archive, and the full names of its images."""

    file: str
    """`images/NAME.tar`"""
    sha256: str
    size: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class BundledChart:
    """One file of a release's chart."""

    file: str
    """`charts/RELEASE/…`"""
    sha256: str
    size: int


@dataclass(frozen=True)
class BundleIndex:
    """The whole bundle."""

    kubernetes_version: KubernetesVersion
    upgrader: str
    """The version that made it."""
    images: tuple[BundledImages, ...]
    charts: tuple[BundledChart, ...]
    format_version: Literal["1.0"] = FORMAT_VERSION

    @property
    def files(self) -> tuple[BundledImages | BundledChart, ...]:
        """All files but the two that describe them."""
        return (*self.images, *self.charts)
