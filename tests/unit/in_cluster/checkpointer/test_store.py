"""Generations and manifests on a real disk, whatever interrupts their writing."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, Contents, made, pod
from tests.unit.in_cluster.checkpointer.power import PowerCut, power_for
from upgrader.in_cluster.checkpointer.checkpointer_errors import StoreError
from upgrader.in_cluster.checkpointer.static_pods.sanitise import Candidate
from upgrader.in_cluster.checkpointer.storage import files
from upgrader.in_cluster.checkpointer.storage.store import Store
from upgrader.onhost.node.generation import Origin
from upgrader.onhost.node.workload_policy import Policy, Workload

ORIGIN = Origin("kube-apiserver-abc-x1", "uid-1", "controller-1", "abc", "4", "2026-01-01T00:00:00Z")


def with_secret(value: bytes = b"secret") -> Candidate:
    """A candidate with one Secret in a sub-folder."""
    volume = {"name": "tls", "secret": {"secretName": "tls", "items": [{"key": "key", "path": "sub/key"}]}}
    return made(pod(volumes=[volume]), Contents({("Secret", "tls"): {"key": value}}))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty node."""
    store = Store(tmp_path)
    store.prepare()
    return store


def capture(store: Store, candidate: Candidate | None = None) -> int:
    """Write a generation."""
    return store.capture(candidate or with_secret(), Policy.API_AWAY, "", ORIGIN)


def folder(store: Store, number: int) -> Path:
    """Where a generation lies."""
    return store.folder / "workloads" / "kube-system.kube-apiserver" / "generations" / str(number)


def test_a_generation_is_read_back_as_written(store: Store) -> None:
    """Number, digest, origin, images and lease survive a restart of the process."""
    assert capture(store) == 1
    stored = Store(store.root).read()[API]
    assert stored.newest is not None
    assert (stored.newest.number, stored.newest.digest) == (1, with_secret().digest)
    assert stored.newest.origin == ORIGIN
    assert stored.newest.images == {"main": "sha256:aa"}
    assert (stored.active, stored.damaged) == (False, {})


def test_nothing_on_disk_is_readable_by_others(store: Store) -> None:
    """Folders 0700, files 0600, the active manifest included."""
    capture(store)
    store.activate(API, 1)
    modes = {p.stat().st_mode & 0o777 for p in store.root.rglob("*") if p.is_file()}
    folders = {p.stat().st_mode & 0o777 for p in store.folder.rglob("*") if p.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_files_belong_to_their_reader(store: Store) -> None:
    """A container's user reads its files by ownership, not by wider permissions."""
    mounts = [{"name": "tls", "mountPath": "/tls"}]
    container = {"name": "main", "image": "x", "volumeMounts": mounts, "securityContext": {"runAsUser": 99}}
    volume = {"name": "tls", "secret": {"secretName": "tls"}}
    contents = Contents({("Secret", "tls"): {"key": b"v"}})
    capture(store, made(pod(volumes=[volume], containers=[container]), contents))
    for path in (folder(store, 1) / "volumes/tls", folder(store, 1) / "volumes/tls/key"):
        assert path.stat().st_uid == 99
    assert Store(store.root).read()[API].damaged == {}


def test_activate_and_withdraw_are_level_triggered(store: Store) -> None:
    """Doing what is done already changes nothing; a changed manifest is put right."""
    capture(store)
    assert store.activate(API, 1)
    assert not store.activate(API, 1)
    assert store.read()[API].active_number == 1
    store.manifest_path(API).write_text("garbage")
    assert (store.read()[API].active, store.read()[API].active_number) == (True, None)
    assert store.activate(API, 1)
    assert store.deactivate(API)
    assert not store.deactivate(API)


def test_the_manifest_points_into_its_own_generation(store: Store) -> None:
    """The kubelet mounts exactly the files that were captured with the manifest."""
    capture(store)
    capture(store, with_secret(b"other"))
    store.activate(API, 1)
    spec = json.loads(store.manifest_path(API).read_bytes())["spec"]
    path = Path(spec["volumes"][0]["hostPath"]["path"])
    assert (path / "sub/key").read_bytes() == b"secret"


def test_a_file_of_somebody_else_is_never_touched(store: Store) -> None:
    """A manifest under our name without our label stays, and the error names the remedy."""
    capture(store)
    store.manifest_path(API).write_text('{"metadata": {"name": "mine"}}')
    with pytest.raises(StoreError, match="move it out of the folder"):
        store.activate(API, 1)
    with pytest.raises(StoreError, match="not the label"):
        store.deactivate(API)
    assert "mine" in store.manifest_path(API).read_text()


def _flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-2] + bytes([data[-2] ^ 1]) + data[-1:])


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (lambda g: _flip(g / "manifest.json"), "manifest.json was changed"),
        (lambda g: _flip(g / "volumes/tls/sub/key"), "sub/key was changed"),
        (lambda g: (g / "volumes/tls/sub/key").unlink(), "sub/key is missing"),
        (lambda g: (g / "volumes/tls/extra").write_text("x"), "extra was added"),
        (lambda g: (g / "manifest.json").chmod(0o644), "manifest.json was changed"),
        (lambda g: (g / "generation.json").write_text("{"), "can't be parsed"),
        (lambda g: (g / "generation.json").unlink(), "is missing"),
        (lambda g: (g / "generation.json").write_text('{"schema": 99}'), "unsupported format"),
    ],
)
def test_damage_is_seen_and_the_older_generation_is_the_last_good(
    store: Store, harm: Callable[[Path], object], says: str
) -> None:
    """Any change of a generation's files is noticed, by the running process too, and reported."""
    capture(store)
    capture(store, with_secret(b"newer"))
    assert store.read()[API].damaged == {}
    harm(folder(store, 2))
    stored = store.read()[API]
    assert stored.newest is not None and stored.newest.number == 1
    assert says in stored.damaged[2]
    assert capture(store, with_secret(b"again")) == 3


@pytest.mark.parametrize("action", ["capture", "activate", "deactivate", "prune"])
def test_any_interruption_is_repaired_by_the_next_pass(store: Store, action: str) -> None:
    """Cut off after each file operation in turn, an action is either whole or undone, and then works."""
    capture(store)
    capture(store, with_secret(b"second"))
    if action == "deactivate":
        store.activate(API, 2)
    actions: dict[str, Callable[[], object]] = {
        "capture": lambda: capture(store, with_secret(b"third")),
        "activate": lambda: store.activate(API, 2),
        "deactivate": lambda: store.deactivate(API),
        "prune": lambda: store.prune(API, 1),
    }
    for operations in range(200):
        try:
            with power_for(operations):
                actions[action]()
        except PowerCut:
            finished = False
        else:
            finished = True
        fresh = Store(store.root)
        fresh.prepare()
        stored = fresh.read()[API]
        assert stored.damaged == {}
        assert {1, 2} - set(stored.records) <= ({1} if action == "prune" else set())
        assert not stored.active or stored.active_number == 2
        assert not [p for p in store.root.rglob("*") if p.name.startswith(files.TEMPORARY)]
        if (
            finished
            or (action == "prune" and 1 not in stored.records)
            or (action == "deactivate" and not stored.active)
        ):
            break
    else:
        pytest.fail("the action never finished")


def test_prepare_restores_a_deleted_manifests_folder(store: Store) -> None:
    """A removed manifests/ is made again; the kubelet finds it at its next check."""
    store.manifests.rmdir()
    store.prepare()
    assert store.manifests.is_dir()


def test_a_full_disk_is_told_and_harms_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A generation that can't be written doesn't change the ones before."""
    capture(store)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left"):
            capture(store, with_secret(b"new"))
    store.prepare()
    assert set(store.read()[API].records) == {1}


def test_one_unreadable_workload_leaves_the_others_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that the disk doesn't give back is named; other workloads are read as ever."""
    capture(store)
    other = made(pod(owner=("DaemonSet", "other")), workload=Workload("kube-system", "other"))
    capture(store, other)
    real = os.scandir

    def broken(path: str | Path = ".") -> Iterator[os.DirEntry[str]]:
        if "kube-apiserver/generations" in str(path):
            raise OSError(errno.EIO, "Input/output error")
        return real(path)

    monkeypatch.setattr(os, "scandir", broken)
    monkeypatch.setattr(os, "listdir", lambda path=".": [e.name for e in broken(path)])
    troubles = store.prepare()
    disk_after = store.read()
    assert len(troubles) == 1 and "Input/output error" in troubles[0]
    assert "Input/output error" in disk_after[API].trouble
    assert disk_after[API].records == {}
    assert set(disk_after[other.workload].records) == {1}


def test_one_unreadable_generation_leaves_the_older_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that can't be read counts as damage of its generation only."""
    capture(store)
    capture(store, with_secret(b"newer"))
    real = Path.read_bytes

    def broken(path: Path) -> bytes:
        if path == folder(store, 2) / "generation.json":
            raise OSError(errno.EIO, "Input/output error")
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", broken)
    stored = store.read()[API]
    assert set(stored.records) == {1}
    assert "Input/output error" in stored.damaged[2]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(mounted)], check=True, capture_output=True)
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True, capture_output=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_a_really_full_disk_keeps_the_good_and_still_starts_it(small_disk: Path) -> None:
    """With no byte left nothing can be captured, everything good stays, and the standby pod starts nevertheless."""
    store = Store(small_disk)
    store.prepare()
    capture(store)
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 4096):
            pass
    with pytest.raises(StoreError, match="No space left"):
        capture(store, with_secret(b"new" * 9000))
    assert store.activate(API, 1)
    fresh = Store(small_disk)
    fresh.prepare()
    stored = fresh.read()[API]
    assert (set(stored.records), stored.damaged, stored.active_number) == ({1}, {}, 1)
    filler.unlink()
    assert capture(fresh, with_secret(b"new")) == 2


def test_what_failed_is_remembered_and_can_be_forgotten(store: Store) -> None:
    """A mark survives the process, and is removed when an operator asks for another try."""
    capture(store)
    capture(store, with_secret(b"second"))
    store.mark_failed(API, 2, "did not stay up")
    stored = Store(store.root).read()[API]
    assert stored.failed == {2: "did not stay up"}
    assert stored.newest is not None and stored.newest.number == 1
    store.clear_failed(API, 2)
    assert Store(store.root).read()[API].failed == {}


def test_folders_that_cannot_be_made_are_named_and_stop_nothing(store: Store) -> None:
    """Where manifests/ can't be made, generations are still written, and each trouble is returned."""
    store.manifests.rmdir()
    store.manifests.write_text("a file in its place")
    assert any(f"{store.manifests} can't be created" in trouble for trouble in store.prepare())
    assert capture(store) == 1


def test_a_workloads_folder_that_cannot_be_listed_is_a_trouble_in_words(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`prepare` promises words: not even a folder of workloads that fails as a whole ends a pass before it begins."""

    def broken(_: Store) -> list[Workload]:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Store, "workloads", broken)
    assert store.prepare() == (f"{store.workloads_folder} can't be read: [Errno 5] Input/output error",)


def test_all_generations_together_have_a_size(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node's disk isn't filled by many workloads, each within its size; what is there stays."""
    capture(store)
    monkeypatch.setattr("upgrader.in_cluster.checkpointer.storage.store.MOST_BYTES", 1000)
    with pytest.raises(StoreError, match="more than 1000"):
        capture(store)
    assert set(store.read()[API].records) == {1}


def test_a_forgotten_workload_is_gone_with_its_manifest(store: Store) -> None:
    """Nothing of it is left that the kubelet or a later pass could start, not even by an interrupted removal."""
    store.activate(API, capture(store))
    store.forget(API)
    assert not store.manifest_path(API).exists() and store.read() == {}
    gone = store.workloads_folder / f"{files.TEMPORARY}gone-kube-system.web"
    gone.mkdir()
    assert store.prepare() == () and not gone.exists()


def test_leftovers_are_cleared_and_a_bare_folder_is_fine(store: Store) -> None:
    """What an interrupted write left goes, file or folder; a workload's folder without generations is no trouble."""
    capture(store)
    bare = store.folder / "workloads/kube-system.bare"
    bare.mkdir()
    generations = folder(store, 1).parent
    (generations / f"{files.TEMPORARY}2").mkdir()
    (generations / f"{files.TEMPORARY}2/manifest.json").write_text("{")
    (generations.parent / f"{files.TEMPORARY}failed.json").write_text("{")
    assert store.prepare() == ()
    assert not [p for p in store.root.rglob("*") if p.name.startswith(files.TEMPORARY)]
    assert store.read()[Workload("kube-system", "bare")].generations == {}


def test_a_second_prune_is_not_stopped_by_the_first_one_s_rest(store: Store) -> None:
    """A half-removed generation of the same number is cleared away with the next one."""
    capture(store)
    capture(store, with_secret(b"newer"))
    rest = folder(store, 1).with_name(f"{files.TEMPORARY}gone-1")
    rest.mkdir()
    (rest / "manifest.json").write_text("{}")
    store.prune(API, 1)
    assert set(store.read()[API].records) == {2}
    assert not rest.exists()


def _as_file(path: Path) -> None:
    path.rmdir()
    path.write_text("a file in its place")


REFUSALS: dict[str, tuple[Callable[[Store], object], Callable[[Store], object], str]] = {
    "read": (
        lambda s: s.workloads_folder.rename(s.root / "old") and s.workloads_folder.write_text("a file"),
        lambda s: s.read(),
        "workloads can't be read",
    ),
    "activate": (lambda s: _as_file(s.manifests), lambda s: s.activate(API, 1), "can't be written"),
    "activate a generation without manifest": (
        lambda s: (folder(s, 1) / "manifest.json").unlink(),
        lambda s: s.activate(API, 1),
        "1/manifest.json can't be read",
    ),
    "deactivate": (lambda s: s.manifest_path(API).mkdir(), lambda s: s.deactivate(API), "can't be removed"),
    "prune": (lambda s: None, lambda s: s.prune(API, 9), "generations/9 can't be removed"),
    "mark": (
        lambda s: s.failed_path(API).mkdir(),
        lambda s: s.mark_failed(API, 1, "did not stay up"),
        "failed.json can't be written",
    ),
    "static pod": (
        lambda s: (folder(s, 1) / "manifest.json").write_text("{"),
        lambda s: s.static_pod(API, 1),
        "generation 1 of kube-system/kube-apiserver is not JSON",
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_what_the_disk_refuses_is_an_error_that_names_the_file(store: Store, what: str) -> None:
    """Whatever can't be read or written, the operator reads which file it was."""
    capture(store)
    harm, action, says = REFUSALS[what]
    harm(store)
    with pytest.raises(StoreError, match=says):
        action(store)


def test_a_folder_of_the_node_is_no_part_of_a_generation(store: Store) -> None:
    """Only what comes from Secrets and ConfigMaps is kept; the node's own folders are mounted from where they are."""
    volumes = [
        {"name": "logs", "hostPath": {"path": "/var/log/audit"}},
        {"name": "tls", "secret": {"secretName": "tls"}},
    ]
    capture(store, made(pod(volumes=volumes), Contents({("Secret", "tls"): {"key": b"v"}})))
    assert [p.name for p in (folder(store, 1) / "volumes").iterdir()] == ["tls"]
    mounted = {v["name"]: v["hostPath"]["path"] for v in store.static_pod(API, 1)["spec"]["volumes"]}
    assert mounted == {"logs": "/var/log/audit", "tls": str(folder(store, 1) / "volumes/tls")}
