"""Versions of etcd, and the version that an image's tag names."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["OLDEST_ETCD", "EtcdVersion"]

_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:[-+_.].*)?")


@dataclass(frozen=True, order=True)
class EtcdVersion:
    """A release such as 3.6.6. A suffix, as in the tag `3.6.6-0`, is ignored."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> EtcdVersion:
        """Read `3.6.6`, `v3.6.6` or `3.6.6-0`. Raises ValueError for anything else."""
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a version of etcd; write it as 3.6.6")
        return cls(*map(int, match.groups()))

    @classmethod
    def of_image(cls, image: str) -> EtcdVersion | None:
        """From the image's tag; None if the tag is no version or the image has only a digest."""
        tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
        try:
            return cls.parse(tag)
        except ValueError:
            return None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"

    def minors_after(self, other: EtcdVersion) -> int:
        """How many minor versions this one is ahead of `other`; negative when it is behind."""
        return (self.major - other.major) * 1000 + self.minor - other.minor


OLDEST_ETCD = EtcdVersion(3, 5, 24)
"""The oldest version that kubeadm supports in the newest patches of v1.33 to v1.37 (`MinExternalEtcdVersion`)."""
