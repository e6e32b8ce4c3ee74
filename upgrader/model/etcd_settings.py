"""The image for etcd's members: the section `etcd` of `upgrader.yaml`."""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.model.availability import Limits
from upgrader.model.etcd_version import EtcdVersion

__all__ = ["EtcdSettings"]


_SPARE = 3
"""With this many members, the others continue while one restarts."""
_NO_SPARE = Limits(max_failed=600, max_gap_seconds=60.0)
"""A minute at 10 requests a second: the API has no etcd while its only member restarts, and the plan says so."""


@dataclass(frozen=True)
class EtcdSettings:
    """The image that the manifests get, and the version of etcd in it."""

    image: str
    version: EtcdVersion
    ready_seconds: float = 180.0
    """How long a member may take to become healthy with its new image."""
    max_failed: int | None = None
    max_gap_seconds: float | None = None
    """How much the step may disturb the API's clients; None: like any other step, unless there are only one or two
    members.
    """

    def limits(self, members: int, others: Limits) -> Limits:
        """The limits of the step with this many members; `others` are those of other steps."""
        usual = others if members >= _SPARE else _NO_SPARE
        failed, gap = self.max_failed, self.max_gap_seconds
        return Limits(usual.max_failed if failed is None else failed, gap or usual.max_gap_seconds)
