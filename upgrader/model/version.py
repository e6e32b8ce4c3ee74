"""Kubernetes versions, their order and the distance between two of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from upgrader.errors import UsageError

__all__ = ["KUBELET_MINORS", "OLDEST", "KubernetesVersion", "too_old"]

KUBELET_MINORS = 3
"""How many minor versions a kubelet may be behind the API server."""

_PATTERN = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-+_].*)?")
"""An image's tag and a label have `_` in place of `+`, which may be in neither."""


@dataclass(frozen=True, order=True)
class KubernetesVersion:
    """A release such as v1.37.1. Vendor suffixes (`+k3s1`, `-gke.5`) don't affect the order."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> KubernetesVersion:
        """Read `v1.37.1` or `1.37.1`; raises UsageError for anything else."""
        match = _PATTERN.fullmatch(text.strip())
        if match is None:
            raise UsageError(f"'{text}' is not a Kubernetes version", remedy="Write it as v1.37.1.")
        major, minor, patch = (int(part) for part in match.groups())
        return cls(major, minor, patch)

    @classmethod
    def release(cls, text: str) -> KubernetesVersion:
        """The same for a version that an operator asks for; a pre-release or a vendor's build would become another
        version.

        Raises UsageError for these, too.
        """
        version = cls.parse(text)
        if text.strip().removeprefix("v") != str(version).removeprefix("v"):
            raise UsageError(
                f"'{text}' is not a plain release: pre-releases and vendors' builds are not supported",
                remedy=f"For the plain release, write {version}.",
            )
        return version

    @classmethod
    def known(cls, text: str) -> KubernetesVersion | None:
        """The same; None for anything else."""
        return cls.parse(text) if _PATTERN.fullmatch(text.strip()) else None

    def __str__(self) -> str:
        return f"v{self.major}.{self.minor}.{self.patch}"

    @property
    def without_patch(self) -> str:
        """`v1.37`."""
        return f"v{self.major}.{self.minor}"

    def minors_after(self, other: KubernetesVersion) -> int:
        """How many minor versions this one is ahead of `other`; negative when it is behind."""
        return (self.major - other.major) * 1000 + self.minor - other.minor


OLDEST = KubernetesVersion(1, 32, 0)
"""The oldest version that upgrader and its charts are made for, also of the controllers' kubelets."""


def too_old(version: KubernetesVersion) -> str:
    """What is wrong with a version that came before, in words that follow its name; "" for the others."""
    return f"is older than {OLDEST.without_patch}, the oldest that the charts support" if version < OLDEST else ""
