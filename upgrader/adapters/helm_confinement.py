"""Limits for a Helm that renders an untrusted folder.

Helm's settings come from variables and from the user's folders: plugins, which are programs, and registries with their
logins. A CI job may have pointed any of them into the folder. A template can't start programs or open files outside its
chart, but it can use all memory and CPU time.
"""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Confinement", "confined"]

_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")
_LIMITS = (
    (resource.RLIMIT_DATA, 1024**3),  # also what it prints: a release is rendered in memory first
    (resource.RLIMIT_CPU, 30),
)


@dataclass(frozen=True)
class Confinement:
    """The environment of such a Helm, and the limits set right after its start."""

    environment: Mapping[str, str]

    def limit(self, process: int) -> None:
        """Set the process's limits (Linux only)."""
        if hasattr(resource, "prlimit"):
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                for limit, value in _LIMITS:
                    resource.prlimit(process, limit, (value, value))


@contextlib.contextmanager
def confined() -> Iterator[Confinement]:
    """Helm with an empty home directory, and without any variable of this process's environment that would configure
    it.
    """
    kept = {name: value for name in _KEPT if (value := os.environ.get(name)) is not None}
    with tempfile.TemporaryDirectory(prefix="upgrader-helm-") as home:
        folders = {f"HELM_{kind}_HOME": str(Path(home, kind.lower())) for kind in ("CONFIG", "CACHE", "DATA")}
        yield Confinement({**kept, "HOME": home, **folders})
