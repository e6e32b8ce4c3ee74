"""The commands for an operator on the node."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, made, pod
from tests.unit.in_cluster.checkpointer.cluster import OWN
from upgrader.in_cluster.checkpointer.commands import node_commands
from upgrader.in_cluster.checkpointer.commands.entry import main
from upgrader.in_cluster.checkpointer.storage.node_lock import changing
from upgrader.in_cluster.checkpointer.storage.store import Store
from upgrader.onhost.node.generation import Origin
from upgrader.onhost.node.workload_policy import Policy, Workload


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with two generations, one of them damaged."""
    store = Store(tmp_path)
    store.prepare()
    origin = Origin("kube-apiserver-abc-x1", "u", "controller-1", "abc", "4", "2026-01-01T00:00:00Z")
    for _ in range(2):
        store.capture(made(), Policy.API_AWAY, "", origin)
    store.activate(API, 1)
    (store.folder / "workloads/kube-system.kube-apiserver/generations/2/manifest.json").write_text("{}")
    return tmp_path


def test_status(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each workload with its last-known-good and whether its standby pod is active."""
    assert main(["--root", str(root), "status", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["workload"], row["generation"], row["damaged"]) == ("kube-system/kube-apiserver", 1, 1)
    assert (row["active"], row["active_generation"], row["starts"]) == (True, 1, "api-away")


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Images that the node doesn't have, according to its runtime."""
    missing: set[str] = set()

    def present(socket: str, timeout: float, images: Iterable[str]) -> dict[str, bool]:
        return {image: image not in missing for image in images}

    monkeypatch.setattr(node_commands, "images_present", present)
    return missing


def restore(root: Path, *arguments: str) -> int:
    """`restore kube-apiserver …`."""
    return main(["--root", str(root), "restore", "kube-apiserver", *arguments])


def test_restore_puts_the_last_good_one_in_place_once(
    root: Path, missing: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The kubelet reads the generation's manifest, byte for byte; asked again, nothing changes."""
    store = Store(root)
    store.deactivate(API)
    store.mark_failed(API, 1, "did not stay up")
    assert restore(root) == 0
    assert "generation 1 is put in place" in capsys.readouterr().out
    stored = store.read()[API]
    assert (stored.active_number, stored.failed) == (1, {})
    before = store.manifest_path(API).stat()
    assert restore(root, "--generation", "1") == 0
    assert "was already in place" in capsys.readouterr().out
    assert store.manifest_path(API).stat().st_ino == before.st_ino


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--generation", "2"], "damaged: manifest.json was changed; intact ones: 1"),
        (["--generation", "7"], "has no generation 7"),
        (["--generation", "1"], "images that this node doesn't have: example/main:v1"),
    ],
)
def test_restore_refuses_what_could_not_run(
    root: Path, missing: set[str], capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    """Neither a damaged generation nor one without its images replaces what is there; the error names what could."""
    missing.add("example/main:v1")
    Store(root).deactivate(API)
    assert restore(root, *arguments) == 1
    assert says in capsys.readouterr().err
    assert not Store(root).read()[API].active
    assert restore(root, "--generation", "1", "--missing-images") == 0


def test_restore_waits_for_a_pass(
    root: Path, missing: set[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While another process changes files, nothing is changed, and that is reported."""
    monkeypatch.setattr(node_commands, "_CHANGE_WAIT_SECONDS", 0.0)
    store = Store(root)
    store.deactivate(API)
    with changing(store.change_lock, 0.0) as alone:
        assert alone
        assert restore(root) == 1
    assert "held by another process" in capsys.readouterr().err
    assert not store.read()[API].active


def test_restore_of_an_unknown_workload_says_which_there_are(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error for a wrong name lists the right ones."""
    assert main(["--root", str(root), "restore", "kube-api"]) == 1
    assert "existing ones: kube-system/kube-apiserver" in capsys.readouterr().err


def test_restore_names_a_workload_with_its_namespace_where_two_have_the_name(
    root: Path, missing: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A name alone that two namespaces have starts neither; with its namespace it does."""
    store = Store(root)
    other = Workload("tenant", "kube-apiserver")
    store.capture(made(workload=other), Policy.API_AWAY, "", Origin("p", "u", "n", "", "", "2026-01-01T00:00:00Z"))
    assert restore(root) == 1
    assert "more than one workload on this node is called kube-apiserver" in capsys.readouterr().err
    assert main(["--root", str(root), "restore", "tenant/kube-apiserver"]) == 0
    assert store.read()[other].active


def test_restore_goes_on_while_the_runtime_is_down(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In an outage the runtime may not answer: that is reported, and doesn't keep the API from coming back."""
    Store(root).deactivate(API)
    assert restore(root, f"--runtime-socket={root / 'none'}") == 0
    assert "the container runtime doesn't report its images" in capsys.readouterr().err
    assert Store(root).read()[API].active_number == 1


def test_restore_refuses_a_workload_that_cannot_be_read(
    root: Path, missing: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing is known of what is on disk, nothing is put in place, and the error names the folder."""
    Store(root).deactivate(API)
    Store(root).manifest_path(API).mkdir()
    assert restore(root) == 1
    assert "kube-system.kube-apiserver can't be read" in capsys.readouterr().err


def test_restore_leaves_the_checkpointer_s_choice_of_itself_alone(
    root: Path, missing: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """An older checkpointer would be replaced at the next pass: the error says which one it runs."""
    store = Store(root)
    for image in ("v1", "v2"):
        containers = [{"name": "main", "image": f"example/pod-checkpointer:{image}"}]
        source = pod(owner=("DaemonSet", "pod-checkpointer"), containers=containers)
        store.capture(made(source, workload=OWN), Policy.ALWAYS, "", Origin("p", "u", "n", "", "", "2026"))
    arguments = ["--root", str(root), "restore", "pod-checkpointer", "--generation"]
    assert main([*arguments, "1"]) == 1
    assert "which always runs its newest intact generation, 2" in capsys.readouterr().err
    assert main([*arguments, "2"]) == 0
    assert store.read()[OWN].active_number == 2


def test_generations(root: Path, missing: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Each generation with its origin, or with what is wrong with it."""
    assert main(["--root", str(root), "generations"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["workload", "generation", "state"]
    assert "intact" in lines[1] and "kube-apiserver-abc-x1" in lines[1]
    assert "damaged: manifest.json was changed" in lines[2]


def test_an_empty_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A node without checkpoints is no error."""
    assert main(["--root", str(tmp_path), "status"]) == 0
    assert capsys.readouterr().out == "no checkpoints on this node\n"


@pytest.mark.parametrize(
    "arguments", [[], ["run", "--keep=0"], ["run", "--interval=-1"], ["run", "--port=70000"], ["run", "--grace=x"]]
)
def test_bad_usage_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Values outside their range end in exit code 2 with the option's name."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert (arguments[-1].partition("=")[0] if arguments else "COMMAND") in capsys.readouterr().err


def test_run_needs_to_know_where_it_is(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the chart's environment the process reports what is missing."""
    monkeypatch.delenv("NODE_NAME", raising=False)
    assert main(["run"]) == 1
    assert "NODE_NAME" in capsys.readouterr().err
