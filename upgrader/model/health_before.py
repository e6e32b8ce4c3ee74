"""The health of a cluster before a run, apart from the control plane's own."""

from __future__ import annotations

import re
from dataclasses import dataclass

from upgrader.errors import UsageError

__all__ = ["NONE", "ONE", "HealthBefore", "IntOrPercent"]


@dataclass(frozen=True)
class HealthBefore:
    """What a run may expect of the rest of the cluster: only what was healthy when it began."""

    workers: tuple[str, ...] = ()
    """The nodes, other than controllers, that were Ready, with a heartbeat."""
    unready: tuple[str, ...] = ()
    """Critical workloads of kube-system that were not Ready, as `DaemonSet cilium`: no gate requires them."""


@dataclass(frozen=True)
class IntOrPercent:
    """A number of nodes, or a percentage of them."""

    count: int = 0
    percent: int = 0

    @classmethod
    def parse(cls, value: int | str) -> IntOrPercent:
        """From `2` or `10%`. Raises UsageError."""
        text = str(value)
        match = re.fullmatch(r"(\d+)(%?)", text)
        if match is None or (match[2] and int(match[1]) > 100):
            raise UsageError(f"'{text}' is neither a number nor a percentage such as 10%")
        return cls(percent=int(match[1])) if match[2] else cls(count=int(match[1]))

    def up(self, total: int) -> int:
        """How many of `total` that is, rounded up, as Kubernetes does with `maxUnavailable` and `maxSurge` of a
        DaemonSet.
        """
        return -(-total * self.percent // 100) if self.percent else self.count

    def of(self, total: int) -> int:
        """The same; never all of them."""
        return max(0, min(self.up(total), total - 1))

    def at_once(self, total: int) -> int:
        """How many of `total` may be changed at once: rounded down, as Kubernetes does, but at least one."""
        return max(1, min(self.down(total), total))

    def down(self, total: int) -> int:
        """How many of `total` that is, rounded down."""
        return total * self.percent // 100 if self.percent else self.count

    def __str__(self) -> str:
        return f"{self.percent}%" if self.percent else str(self.count)


NONE = IntOrPercent()
"""No node at all."""
ONE = IntOrPercent(count=1)
"""One node."""
