"""Whole passes over arbitrary histories on a real folder, interrupted between any two file operations."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.in_cluster.checkpointer.builders import API, pod
from tests.unit.in_cluster.checkpointer.cluster import Cluster, instance, sandbox, standby_of
from tests.unit.in_cluster.checkpointer.power import PowerCut, power_for
from upgrader.in_cluster.checkpointer.checkpointer_errors import ApiAway, ApiUnknown
from upgrader.in_cluster.checkpointer.loop import Loop
from upgrader.in_cluster.checkpointer.observed_values import Content
from upgrader.in_cluster.checkpointer.storage.store import Store

KEY = ("Secret", "kube-system", "s")
VOLUMES = [{"name": "s", "secret": {"secretName": "s"}}]


class World:
    """A cluster and a node, and an account of its own of which images have been Ready for long enough."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cluster = Cluster(contents={KEY: Content({"k": b"v"}, "2025-01-01T00:00:00Z")})
        self.loop: Loop = instance(root, self.cluster)
        self.proven: set[str] = set()
        self.streak: tuple[str, int] = ("", 0)

    def set(self, api: str, image: str, ready: bool, runtime: bool) -> None:
        """How things are from now on."""
        self.cluster.error = {"away": ApiAway("refused"), "unknown": ApiUnknown("401")}.get(api)
        found = pod(uid=image, image_id=f"sha256:{image}", ready=ready, volumes=VOLUMES)
        self.cluster.found = [found]
        self.image, self.ready, self.runtime = image, ready, runtime

    def look(self, operations: int) -> None:
        """One pass, which a power cut may interrupt; then another process begins."""
        active = self.active()
        standbys = [standby_of(active)] if active else []
        self.cluster.sandboxes = [*standbys, *([sandbox()] if self.ready else [])] if self.runtime else None
        self.cluster.now += 2
        good = self.ready and self.runtime and self.cluster.error is None
        self.streak = (self.image, self.streak[1] + 1 if self.streak[0] == self.image else 1) if good else ("", 0)
        if self.streak[1] >= 6:  # ready_for is 10 s, a pass every 2
            self.proven.add(f"sha256:{self.image}")
        try:
            with power_for(operations):
                self.loop.once()
        except PowerCut:
            self.loop.lock.release()
            self.loop, self.streak = instance(self.root, self.cluster), ("", 0)

    def active(self) -> int | None:
        """The generation in place."""
        stored = Store(self.root).read().get(API)
        return stored.active_number if stored else None


situations = st.tuples(
    st.sampled_from(["answering", "answering", "away", "unknown"]),
    st.sampled_from(["a", "b", "c", "d"]),
    st.booleans(),
    st.sampled_from([True, True, False]),
)
histories = st.lists(
    st.tuples(situations, st.integers(1, 8), st.integers(0, 120)),
    min_size=3,
    max_size=10,
)


@given(histories)
@example([(("answering", image, True, True), 8, 0) for image in ("a", "b", "a")])
@settings(max_examples=25, deadline=None)
def test_no_interruption_loses_or_corrupts_what_is_good(
    history: list[tuple[tuple[str, str, bool, bool], int, int]],
) -> None:
    """Wherever the power is cut: only proven content is ever on disk, whole, at most one standby pod is in place, and
    what was good stays until enough newer good ones are there.
    """
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        before: dict[int, str] = {}
        for situation, looks, operations in history:
            world.set(*situation)
            for look in range(looks):
                world.look(operations if look == looks - 1 else 10_000)
                store = Store(world.root)
                stored = store.read().get(API)
                if stored is None:
                    assert not before
                    continue
                assert stored.damaged == {}
                assert {r.images["main"] for r in stored.records.values()} <= world.proven
                ours = list(store.manifests.glob("checkpoint-*")) if store.manifests.exists() else []
                assert len(ours) <= 1
                assert not stored.active or stored.active_number in stored.records
                after = {number: record.images["main"] for number, record in stored.records.items()}
                # Content that is captured once more replaces its older generation.
                lost = {
                    number for number, image in before.items() if number not in after and image not in after.values()
                }
                assert not lost or (len(after) >= 3 and max(lost) < max(after))
                assert not before or after
                before = after
        world.set("answering", "d", True, True)
        for _ in range(14):
            world.look(10_000)
        newest = Store(world.root).read()[API].newest
        assert newest is not None and newest.images == {"main": "sha256:d"}
        world.loop.lock.release()
