"""The programs that are measured: guard, or others that take the same requests and objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from testkit.guard_process import guard_process

__all__ = [
    "ADMISSION",
    "AGGREGATOR",
    "AS_IT_IS",
    "CROWDED",
    "GENERATOR",
    "PROTECTOR",
    "ROLLER",
    "Guard",
    "Programs",
    "Replica",
]

AS_IT_IS: Mapping[str, str] = MappingProxyType({})
"""Nothing besides this process's own environment."""

ADMISSION = "admission"
"""Answers `/admission/…`."""
ROLLER = "roller"
"""Rolls groups in `shop`."""
CROWDED = "crowded"
"""Both, and asks zone-aware budgets: as the chart runs it."""
PROTECTOR = "protector"
"""Answers `/protector/one`."""
AGGREGATOR = "aggregator"
"""Counts the pods of the cell `one`."""
GENERATOR = "generator"
"""Makes PodProtectors of Deployments."""

_GUARD = {
    ADMISSION: ("-roles=webhook", "-kubernetes.namespace=shop"),
    ROLLER: ("-roles=rollout", "-kubernetes.namespace=shop"),
    CROWDED: ("-roles=rollout,webhook", "-kubernetes.namespace=shop"),
    PROTECTOR: ("-protector.cells=one",),
    AGGREGATOR: ("-roles=aggregator", "-protector.cell=one"),
    GENERATOR: ("-roles=generator",),
}


class Replica(Protocol):
    """A process that runs."""

    @property
    def pid(self) -> int:
        """To measure it by."""

    def url(self, path: str) -> str:
        """Of a webhook; over TLS."""

    def get(self, path: str) -> tuple[int, str]:
        """(status, text) of its HTTP port; status 0: nothing answers."""

    def kill(self) -> None:
        """At once, as by the kernel."""


class Programs(Protocol):
    """Who can be started in each role."""

    @property
    def dry_runs_are_free(self) -> bool:
        """Whether a deletion's dry run reserves nothing."""

    @property
    def counts(self) -> bool:
        """Whether it has an aggregator, or else pods' counts are written for it."""

    def started(
        self, folder: Path, kubeconfig: Path, role: str, environment: Mapping[str, str] = AS_IT_IS
    ) -> AbstractContextManager[Replica]:
        """A replica, which may not be ready yet; killed at the end of the block, if it lives still.

        `folder` is for its log, `kubeconfig` an administrator's, `role` one of the above; `environment`: what it has
        besides this process's own.
        """


@dataclass(frozen=True)
class Guard:
    """This repository's."""

    flags: tuple[str, ...] = ()
    """Further ones, in each role."""
    counts: bool = True
    dry_runs_are_free: bool = True

    @contextmanager
    def started(
        self, folder: Path, kubeconfig: Path, role: str, environment: Mapping[str, str] = AS_IT_IS
    ) -> Iterator[Replica]:
        """See Programs."""
        with guard_process(folder, kubeconfig, *_GUARD[role], *self.flags, environment=environment) as process:
            yield process
