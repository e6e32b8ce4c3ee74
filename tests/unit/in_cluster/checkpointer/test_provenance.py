"""What a pod was started with, by the order in which things were seen: clocks that jump don't matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, Json, pod
from tests.unit.in_cluster.checkpointer.cluster import Cluster, instance, passes, sandbox
from upgrader.in_cluster.checkpointer.observation.provenance import Provenance
from upgrader.in_cluster.checkpointer.observed_values import Content

KEY = ("ConfigMap", "kube-system", "c")


def seen(*events: tuple[float, object]) -> bool | None:
    """The verdict on the last pod after a history: (time, pod) or (time, content)."""
    provenance, last = Provenance(), pod()
    for now, what in events:
        if isinstance(what, bytes):
            provenance.see_content(KEY, {"k": what}, now)
        else:
            assert isinstance(what, dict)
            provenance.see_pods([what], now)
            last = what
    return provenance.started_with(last, KEY)


def restarted(source: Json) -> Json:
    """The same pod after its container was started again."""
    status = {"containerStatuses": [{**source["status"]["containerStatuses"][0], "containerID": "containerd://again"}]}
    return {**source, "status": {**source["status"], **status}}


POD = pod()


@pytest.mark.parametrize(
    ("events", "verdict"),
    [
        (((0, POD), (0, b"a")), None),
        (((0, POD), (0, b"a"), (30, b"a")), None),
        (((0, b"a"), (10, POD)), True),
        (((0, POD), (0, b"a"), (30, b"b")), False),
        (((0, POD), (0, b"a"), (30, b"b"), (900, POD), (900, b"b")), False),
        (((0, POD), (0, b"a"), (30, b"b"), (60, restarted(POD))), False),
        (((0, POD), (0, b"a"), (30, b"b"), (150, restarted(POD))), True),
        (((0, b"a"), (20, POD), (30, b"b")), None),
        (((0, b"a"), (30, b"b"), (40, POD)), True),
        (((0, POD), (0, b"a"), (30, b"b"), (60, b"a"), (61, POD)), False),
    ],
)
def test_the_order_of_events_decides(events: tuple[tuple[float, object], ...], verdict: bool | None) -> None:
    """Seen before the pod: yes. Seen to change under it: no, until its containers start with it. Else: not known."""
    assert seen(*events) is verdict


def changing(tmp_path: Path, changed: str) -> int:
    """The newest generation after a ConfigMap was changed under a running pod, by clocks that date it so."""
    cluster = Cluster(found=[pod(volumes=[{"name": "c", "configMap": {"name": "c"}}])], sandboxes=[sandbox()])
    cluster.contents = {KEY: Content({"k": b"good"}, "2025-01-01T00:00:00Z")}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    cluster.contents[KEY] = Content({"k": b"broken"}, changed)
    passes(loop, cluster, 120)
    newest = loop.store.read()[API].newest
    assert newest is not None
    return newest.number


@pytest.mark.parametrize("changed", ["2026-01-01T00:00:30Z", "2025-06-01T00:00:00Z", "2036-01-01T00:00:00Z"])
def test_a_clock_that_jumped_proves_no_changed_content(tmp_path: Path, changed: str) -> None:
    """A change that the clock puts before the pod's start, as it had been set back, is one under a running pod."""
    assert changing(tmp_path, changed) == 1


def test_a_clock_that_was_ahead_keeps_nothing_from_being_kept(tmp_path: Path) -> None:
    """Content from the future by its timestamp, but there before the pod, is what the pod was started with."""
    cluster = Cluster(sandboxes=[sandbox()])
    volumes = [{"name": "c", "configMap": {"name": "c"}}]
    cluster.contents = {KEY: Content({"k": b"good"}, "2036-01-01T00:00:00Z")}
    cluster.found = [pod(volumes=volumes)]
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 12)
    assert loop.store.read() == {}  # this pod may have been there before
    cluster.found = [pod(uid="u2", volumes=volumes)]
    passes(loop, cluster, 12)
    assert loop.store.read()[API].newest is not None


def test_what_was_seen_long_ago_is_forgotten() -> None:
    """A Secret that no pod has referred to for an hour leaves the question to the timestamps."""
    provenance = Provenance()
    provenance.see_content(KEY, {"k": b"a"}, 0)
    provenance.see_content(("ConfigMap", "kube-system", "other"), {}, 3599)
    provenance.see_pods([POD], 3599)
    assert provenance.started_with(POD, KEY) is True
    provenance.see_content(("ConfigMap", "kube-system", "other"), {}, 3600)
    assert provenance.started_with(POD, KEY) is None
