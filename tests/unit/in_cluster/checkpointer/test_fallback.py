"""A standby pod that doesn't come up gives way to an older one: whole passes on a real disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, pod
from tests.unit.in_cluster.checkpointer.cluster import Cluster, instance, own_pod, passes, sandbox, standby_of
from upgrader.in_cluster.checkpointer.checkpointer_errors import ApiAway
from upgrader.in_cluster.checkpointer.loop import Loop

IMAGES = ("example/main:v1", "example/main:v2", "example/main:v3")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A node with three generations, each of an image of its own, whose power was cut."""
    cluster = Cluster(sandboxes=[sandbox()])
    first = instance(tmp_path, cluster)
    for number, image in enumerate(IMAGES):
        cluster.found = [pod(uid=f"u{number}", containers=[{"name": "main", "image": image}])]
        passes(first, cluster, 14)
    first.lock.release()
    cluster.error, cluster.sandboxes = ApiAway("refused"), []
    return cluster


def active(loop: Loop) -> int | None:
    """The generation that is in place."""
    return loop.store.read()[API].active_number


def fails(loop: Loop, cluster: Cluster, number: int, seconds: float = 30) -> None:
    """The kubelet starts the standby pod of a generation, in vain."""
    cluster.sandboxes = [standby_of(number, up=False)]
    passes(loop, cluster, seconds)


def test_a_generation_without_its_image_is_passed_over_at_once(tmp_path: Path, cluster: Cluster) -> None:
    """What the node would have to pull first, with no API and maybe no registry, isn't tried while an older one is
    whole.
    """
    cluster.missing = {IMAGES[2]}
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 2)
    assert active(loop) == 2


def test_without_any_image_the_newest_is_tried(tmp_path: Path, cluster: Cluster) -> None:
    """A registry may be there after all."""
    cluster.missing = set(IMAGES)
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 2)
    assert active(loop) == 3


def test_each_generation_gets_its_time_once_and_then_the_newest_stays(tmp_path: Path, cluster: Cluster) -> None:
    """From the newest to the oldest, one manifest at a time, then back to the newest for good."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 2)
    seen = [active(loop)]
    for _ in range(8):
        fails(loop, cluster, seen[-1] or 0)
        assert len(list(loop.store.manifests.iterdir())) == 1
        passes(loop, cluster, 2)
        seen.append(active(loop))
    assert seen == [3, 2, 1, 3, 3, 3, 3, 3, 3]


def test_a_standby_pod_gets_its_whole_time(tmp_path: Path, cluster: Cluster) -> None:
    """A moment before the crash grace has passed, nothing is switched."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 2)
    fails(loop, cluster, 3, seconds=28)
    assert active(loop) == 3
    assert loop.store.read()[API].failed == {}


@pytest.mark.parametrize("why", ["etcd", "kubelet", "runtime", "up"])
def test_only_a_fault_of_its_own_makes_a_standby_pod_fail(tmp_path: Path, cluster: Cluster, why: str) -> None:
    """While etcd is unreachable, the kubelet doesn't even try, the runtime is unknown, or it runs, no older one is
    tried.
    """
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 2)
    cluster.etcd_is_away = why == "etcd"
    cluster.sandboxes = {"kubelet": [], "runtime": None}.get(why, [standby_of(3, up=why == "up")])
    passes(loop, cluster, 120)
    assert active(loop) == 3
    assert loop.store.read()[API].failed == {}


def test_the_next_outage_begins_with_what_worked(tmp_path: Path, cluster: Cluster) -> None:
    """What failed is remembered on disk, over a restart; a new good capture of that content is the first choice."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 2)
    fails(loop, cluster, 3)
    passes(loop, cluster, 2)
    loop.store.deactivate(API)
    loop.lock.release()
    cluster.sandboxes = []
    second = instance(tmp_path, cluster)
    passes(second, cluster, 2)
    assert active(second) == 2
    cluster.error, cluster.sandboxes = None, [sandbox()]
    passes(second, cluster, 14)
    second.lock.release()
    newest = second.store.read()[API].newest
    assert newest is not None and newest.number == 4
    cluster.error, cluster.sandboxes = ApiAway("refused"), []
    third = instance(tmp_path, cluster)
    passes(third, cluster, 2)
    assert active(third) == 4


def test_a_person_s_choice_gets_its_chance(tmp_path: Path, cluster: Cluster) -> None:
    """A generation that was put in place from outside, though marked as failed, is left there while it stays up."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 2)
    fails(loop, cluster, 3)
    loop.store.activate(API, 3)
    cluster.sandboxes = [standby_of(3)]
    passes(loop, cluster, 120)
    assert active(loop) == 3


def test_a_damaged_generation_is_not_taken_from_under_a_standby_pod_that_runs(tmp_path: Path, cluster: Cluster) -> None:
    """What runs has read its files; only when it no longer does, an intact one takes its place."""
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 2)
    cluster.sandboxes = [standby_of(3)]
    passes(loop, cluster, 2)
    record = loop.store.folder / "workloads/kube-system.kube-apiserver/generations/3/volumes/x"
    record.write_text("added")
    passes(loop, cluster, 60)
    assert active(loop) == 3
    cluster.sandboxes = []
    passes(loop, cluster, 2)
    assert active(loop) == 2


def test_a_standby_pod_of_the_checkpointer_that_does_not_run_makes_the_node_unready(tmp_path: Path) -> None:
    """After a power cut that standby pod is all there is: a rollout that leaves none must not count as good."""
    cluster = Cluster(found=[own_pod()], sandboxes=[])
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 14)
    report = loop.board.get()[0]
    assert report is not None and report.unready() == []
    passes(loop, cluster, 30)
    report = loop.board.get()[0]
    assert report is not None
    assert report.unready() == ["kube-system/pod-checkpointer: its standby pod, generation 1, does not stay up"]
    cluster.sandboxes = [standby_of(1, "pod-checkpointer")]
    passes(loop, cluster, 12)
    report = loop.board.get()[0]
    assert report is not None and report.unready() == []


def test_images_of_which_nothing_is_known_are_not_missing(tmp_path: Path, cluster: Cluster) -> None:
    """A runtime that runs pods but doesn't answer for images keeps no node without an API: the newest is started."""
    cluster.missing, cluster.images_unknown = set(IMAGES), True
    loop = instance(tmp_path, cluster)
    passes(loop, cluster, 2)
    assert active(loop) == 3
