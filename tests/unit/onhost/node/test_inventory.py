"""What is read of a node's disk, for every reader."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, made
from upgrader.in_cluster.checkpointer.storage.store import Store
from upgrader.onhost.node.disk_inventory import Inventory
from upgrader.onhost.node.disk_layout import Layout, is_foreign
from upgrader.onhost.node.generation import NotUnderstood, Origin, Record, fingerprints
from upgrader.onhost.node.workload_policy import Policy, Workload

ORIGIN = Origin("kube-apiserver-abc-x1", "uid-1", "controller-1", "abc", "4", "2026-01-01T00:00:00Z")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A node with two generations, of which the newer is marked as failed."""
    store = Store(tmp_path)
    store.prepare()
    for _ in range(2):
        store.capture(made(), Policy.API_AWAY, "", ORIGIN)
    store.mark_failed(API, 2, "did not stay up")
    return store


def test_what_was_written_is_read(store: Store) -> None:
    """Records, images and marks of what the checkpointer wrote; nothing is damaged, nothing is active."""
    stored = Inventory(store.root).read()[API]
    assert (list(stored.records), stored.damaged, stored.failed) == ([1, 2], {}, {2: "did not stay up"})
    assert (stored.active, stored.images, stored.marks_unknown) == (False, frozenset({"example/main:v1"}), "")
    assert stored.newest is not None and stored.newest.number == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"two": "x"}', b"\xff"])
def test_marks_that_cannot_be_read_mark_nothing_and_say_so(store: Store, content: bytes) -> None:
    """Neither is what failed taken for good in silence, nor is a generation passed over for half a file."""
    store.failed_path(API).write_bytes(content)
    stored = Inventory(store.root).read()[API]
    assert stored.failed == {}
    assert "failed.json can't be parsed" in stored.marks_unknown
    store.mark_failed(API, 1, "did not stay up either")
    again = Inventory(store.root).read()[API]
    assert (again.failed, again.marks_unknown) == ({1: "did not stay up either"}, "")


def test_missing_marks_are_no_marks(store: Store) -> None:
    """A workload of which nothing ever failed has no such file."""
    store.failed_path(API).unlink()
    stored = Inventory(store.root).read()[API]
    assert (stored.failed, stored.marks_unknown) == ({}, "")


def test_a_glitch_of_the_disk_is_not_remembered(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generation that couldn't be read once is intact again when it can be."""
    disk, real = Inventory(store.root), Path.read_bytes

    def broken(path: Path) -> bytes:
        if path.name == "manifest.json":
            raise OSError(errno.EIO, "Input/output error")
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", broken)
        assert set(disk.read()[API].damaged) == {1, 2}
    assert disk.read()[API].damaged == {}


def test_a_record_is_read_as_written(store: Store) -> None:
    """Encoding and parsing are each other's inverse; a record of another form is not understood."""
    content = (store.generation(API, 1) / "generation.json").read_bytes()
    assert Record.parse(content).encode() == content
    for wrong in (b"[]", b'{"schema": 1}', json.dumps({**json.loads(content), "new": 1}).encode()):
        with pytest.raises(NotUnderstood, match=r"generation\.json can't be parsed"):
            Record.parse(wrong)


@pytest.mark.parametrize(
    ("manifest", "foreign"),
    [
        (b'{"metadata": {"name": "theirs"}}', True),
        (b'{"metadata": {"labels": {"app": "x"}}}', True),
        (b'{"metadata": {"labels": {"checkpointer.upgrader.io/checkpoint-of": "x"}}}', False),
        (b"{half a manif", False),
        (b"[]", False),
    ],
)
def test_whose_a_manifest_is(manifest: bytes, foreign: bool) -> None:
    """One that parses and lacks our label is foreign; one that doesn't parse is ours, damaged."""
    assert is_foreign(manifest) is foreign


def test_the_paths_are_those_that_clusters_have(tmp_path: Path) -> None:
    """Nodes that already keep checkpoints are read: the names of files and folders never change."""
    layout, workload = Layout(), Workload("kube-system", "kube-apiserver")
    folder = "/etc/kubernetes/checkpointer/workloads/kube-system.kube-apiserver"
    assert str(layout.generation(workload, 3)) == f"{folder}/generations/3"
    assert str(layout.failed_path(workload)) == f"{folder}/failed.json"
    assert str(layout.manifest_path(workload)) == "/etc/kubernetes/manifests/checkpoint-kube-system.kube-apiserver.json"
    (tmp_path / "checkpointer/workloads/.tmp-x.y").mkdir(parents=True)
    (tmp_path / "checkpointer/workloads/a.b.c").mkdir()
    assert Layout(tmp_path).workloads() == [Workload("a", "b.c")]


def test_a_generation_under_another_number_is_damaged(store: Store) -> None:
    """A folder that was copied by hand isn't taken for the generation whose number it bears."""
    store.generation(API, 2).rename(store.generation(API, 7))
    assert Inventory(store.root).read()[API].damaged == {7: "its record names generation 2"}


@pytest.mark.parametrize("manifest", [b"{}", b'{"spec": {}}', b'{"spec": []}', b"{"])
def test_a_manifest_that_was_recorded_as_nonsense_is_damaged(store: Store, manifest: bytes) -> None:
    """Even with the checksum that was recorded, a manifest that names no containers is nothing to start."""
    folder = store.generation(API, 1)
    (folder / "manifest.json").write_bytes(manifest)
    record = json.loads((folder / "generation.json").read_bytes())
    record["entries"] = fingerprints(folder)
    (folder / "generation.json").write_text(json.dumps(record))
    assert Inventory(store.root).read()[API].damaged == {1: "manifest.json can't be parsed"}


def test_a_standby_pod_of_a_damaged_generation_is_still_recognised(store: Store) -> None:
    """A manifest in place is known by its bytes, whatever else is damaged; one of no containers expects none."""
    store.activate(API, 1)
    assert Inventory(store.root).read()[API].active_containers == ("main",)
    (store.generation(API, 1) / "generation.json").unlink()
    stored = Inventory(store.root).read()[API]
    assert (stored.active_number, stored.active_containers) == (1, ("main",))
    for path in (store.manifest_path(API), store.generation(API, 1) / "manifest.json"):
        path.write_bytes(b"{}")
    stored = Inventory(store.root).read()[API]
    assert (stored.active, stored.active_number, stored.active_containers) == (True, 1, ())


def test_an_active_manifest_of_no_generation_is_of_none(store: Store) -> None:
    """Where the generation's own manifest is gone, the one in place is ours, and of no known generation."""
    store.activate(API, 1)
    for number in (1, 2):
        (store.generation(API, number) / "manifest.json").unlink()
    stored = Inventory(store.root).read()[API]
    assert (stored.active, stored.active_number) == (True, None)
    assert stored.damaged == {1: "manifest.json is missing", 2: "manifest.json is missing"}
