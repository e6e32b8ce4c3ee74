"""The cluster's lock through a real API server: of two simultaneous rivals exactly one gets it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from testkit.waiting import stretched
from upgrader.adapters.clock import SystemClock
from upgrader.adapters.kube import KubeAdapter
from upgrader.engine.locks.cluster_lock import ClusterLock, acquire, read_lease
from upgrader.engine.locks.heartbeat import kept_alive
from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE, Holder
from upgrader.errors import Locked

ROUNDS = 5


@pytest.fixture
def kubes(bare_kubeconfig: Path) -> Iterator[tuple[KubeAdapter, KubeAdapter]]:
    """Two clients of the same API with separate connections; the lock was never taken."""
    pair = KubeAdapter(bare_kubeconfig), KubeAdapter(bare_kubeconfig)
    pair[0].delete(LEASES, NAME, NAMESPACE)
    yield pair
    for kube in pair:
        kube.close()


@dataclass
class Round:
    """One start of two rivals, and their results."""

    ready: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))
    decided: threading.Event = field(default_factory=threading.Event)
    won: list[ClusterLock] = field(default_factory=list)
    refused: list[Locked] = field(default_factory=list)

    def rival(self, kube: KubeAdapter, name: str) -> None:
        """Try to take the lock at the same instant as the other; hold it until the other is refused."""
        kube.get(LEASES, NAME, NAMESPACE)  # connect before the start
        self.ready.wait(stretched(60))
        try:
            lock = acquire(kube, SystemClock(), Holder(name), take_over=False, note=lambda text: None)
        except Locked as error:
            self.refused.append(error)
            self.decided.set()
            return
        self.won.append(lock)
        with kept_alive(lock, lambda other: None, every_seconds=0.2):
            self.decided.wait(stretched(30))


def test_one_of_two_rivals_has_the_lock(kubes: tuple[KubeAdapter, KubeAdapter]) -> None:
    """Started together repeatedly, without a Lease and with a free one, one gets the lock and the other is refused."""
    for _ in range(ROUNDS):
        this = Round()
        threads = [threading.Thread(target=this.rival, args=pair) for pair in zip(kubes, "ab", strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(stretched(120))
        assert (len(this.won), len(this.refused)) == (1, 1)
        assert this.won[0].release()
        lease = read_lease(kubes[0])
        assert lease is not None and lease.holder is None
