"""Systems' end of updates, and kubelets' requirements, from the table beside this file, `os_support.json`.

The table names its sources, and the day on which it was made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files

from upgrader.model.api_lifecycle import Minor

__all__ = ["OsLifecycle", "known_systems", "leading_numbers"]

_SYSTEM = re.compile(r"(\D+?) (\d+(?:\.\d+)*(?: SP\d+)?)\b.*")
_NUMBERS = re.compile(r"v?(\d+)\.(\d+)")


@dataclass(frozen=True)
class OsLifecycle:
    """`kernels`: minor of the kubelet → the oldest kernel from it on; the others: from which minor on it is refused."""

    made: date
    systems: Mapping[tuple[str, str], date]
    """(Name, release) → the last day with security updates for everyone."""
    kernels: Mapping[Minor, tuple[int, int]]
    containerd: tuple[int, int]
    """The oldest that is supported for longer."""
    containerd_refused: Minor
    cgroup_v1_refused: Minor

    def ends(self, image: str) -> date | None:
        """Of a system as a node reports it (`Debian GNU/Linux 12 (bookworm)`); None for one that isn't in the table."""
        found = _SYSTEM.fullmatch(image)
        if found is None:
            return None
        name, release = found.groups()
        parts = release.split(".")
        candidates = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((self.systems[name, each] for each in candidates if (name, each) in self.systems), None)

    def oldest_kernel(self, kubelet: Minor) -> tuple[int, int]:
        """Which kubeadm of this minor doesn't warn of."""
        return max((kernel for since, kernel in self.kernels.items() if since <= kubelet), default=(0, 0))


@cache
def known_systems() -> OsLifecycle:
    """The table."""
    table = json.loads((files(__package__) / "os_support.json").read_text())
    return OsLifecycle(
        date.fromisoformat(table["made"]),
        {
            (name, release): date.fromisoformat(day)
            for name, releases in table["systems"].items()
            for release, day in releases.items()
        },
        {_minor(since): _minor(kernel) for since, kernel in table["kernels"].items()},
        _minor(table["containerd"]["oldest"]),
        _minor(table["containerd"]["refused_from"]),
        _minor(table["cgroup_v1"]["refused_from"]),
    )


def leading_numbers(version: str) -> tuple[int, int] | None:
    """The first two of a version such as `6.1.0-13-amd64` or `1.6.20~ds1`; None for anything else."""
    found = _NUMBERS.match(version)
    return (int(found[1]), int(found[2])) if found else None


def _minor(text: str) -> Minor:
    found = leading_numbers(text)
    assert found is not None, text
    return found
