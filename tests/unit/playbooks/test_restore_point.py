"""What a node had before its upgrade is kept once, and put back whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils import restore_point
from ansible.module_utils.restore_point import DONE, KEPT, RESTORED, SWAPPING, Unusable

OLD, NEW = "v1.36.3", "v1.37.1"


class Node:
    """Three files of a node, and its restore folder."""

    def __init__(self, root: Path) -> None:
        self.folder = str(root / "restore")
        self.files = {name: root / name for name in ("kubelet", "kubectl", "flags.env")}
        for name, file in self.files.items():
            file.write_text(f"{name} {OLD}")
        self.files["kubelet"].chmod(0o755)

    def take(self, target: str = NEW, *, dry: bool = False) -> bool:
        paths = [str(file) for file in self.files.values()]
        return bool(restore_point.take(self.folder, target, paths, {}, dry=dry))

    def swap(self, *names: str, version: str = NEW) -> None:
        self.mark(SWAPPING)
        for name in names or tuple(self.files):
            self.files[name].write_text(f"{name} {version}")

    def put_back(self, *, dry: bool = False) -> list[str]:
        point = restore_point.read(self.folder)
        assert point is not None
        return [Path(path).name for path in restore_point.put_back(self.folder, point, dry=dry)]

    def mark(self, state: str) -> bool:
        return bool(restore_point.mark(self.folder, state, dry=False))

    def point(self) -> Mapping[str, Any]:
        point: Mapping[str, Any] | None = restore_point.read(self.folder)
        assert point is not None
        return point

    def texts(self) -> list[str]:
        return [file.read_text() for file in self.files.values()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node at the old version."""
    return Node(tmp_path)


def test_everything_comes_back(node: Node) -> None:
    """Content and mode are as before, once; a second time there is nothing to put back."""
    before = node.texts()
    assert node.take()
    node.swap()
    node.files["kubelet"].chmod(0o700)
    assert sorted(node.put_back()) == ["flags.env", "kubectl", "kubelet"]
    assert node.texts() == before
    assert node.files["kubelet"].stat().st_mode & 0o777 == 0o755
    assert node.put_back() == []


def test_half_new_files_are_never_kept(node: Node) -> None:
    """An upgrade that is run again, to the same or another version, keeps the point of the one that was interrupted."""
    before = node.texts()
    node.take()
    assert not node.take()
    node.swap("kubectl")
    assert not node.take()
    assert node.take("v1.38.0")
    assert node.point()["target"] == "v1.38.0"
    node.put_back()
    assert node.texts() == before


@pytest.mark.parametrize("state", [DONE, RESTORED])
def test_a_whole_node_gets_a_new_point(node: Node, state: str) -> None:
    """After an upgrade that ended well, or was undone, the next one can be undone to what is in place then."""
    node.take()
    node.swap()
    node.mark(state)
    assert node.take("v1.38.0")
    assert node.point()["state"] == KEPT
    node.swap(version="v1.38.0")
    node.put_back()
    assert node.texts() == [f"{name} {NEW}" for name in node.files]
    kept = list(Path(node.folder, "content").iterdir())
    assert len(kept) == len(node.files), "the content of the earlier point is gone"


def test_an_attempt_that_changed_nothing_gets_a_new_point(node: Node) -> None:
    """What an administrator changes between two attempts isn't undone with the second."""
    node.take()
    node.files["flags.env"].write_text("mended")
    assert node.take()
    node.swap()
    node.put_back()
    assert node.files["flags.env"].read_text() == "mended"


def test_a_file_that_was_not_there_is_removed(node: Node) -> None:
    """What an upgrade has added doesn't stay."""
    node.files["kubectl"].unlink()
    node.take()
    node.swap()
    node.put_back()
    assert not node.files["kubectl"].exists()


def test_a_link_comes_back_as_a_link(node: Node, tmp_path: Path) -> None:
    """A program that is a link into a folder of its version is one again."""
    (tmp_path / "kubelet-old").write_text("old")
    node.files["kubelet"].unlink()
    node.files["kubelet"].symlink_to("kubelet-old")
    node.take()
    node.files["kubelet"].unlink()
    node.swap("kubelet")
    node.put_back()
    assert node.files["kubelet"].readlink() == Path("kubelet-old")


def test_more_files_join_a_point_that_has_begun(node: Node) -> None:
    """A second attempt that also upgrades kubectl can be undone whole."""
    kubectl = node.files.pop("kubectl")
    node.take()
    node.swap()
    node.files["kubectl"] = kubectl
    assert node.take()
    node.swap()
    node.put_back()
    assert kubectl.read_text() == f"kubectl {OLD}"


def test_damaged_content_is_refused_before_anything_changes(node: Node) -> None:
    """One flipped byte in the restore folder: the node keeps what it has, all of it."""
    node.take()
    node.swap()
    damaged = next(entry for entry in node.point()["files"] if entry["path"].endswith("kubectl"))
    Path(node.folder, "content", damaged["sha256"]).write_text("something else")
    with pytest.raises(Unusable, match="kubectl is damaged"):
        node.put_back()
    assert node.texts() == [f"{name} {NEW}" for name in node.files]


def test_check_mode_writes_nothing(node: Node) -> None:
    """Neither keeping nor putting back leaves a trace in check mode; both say what they would change."""
    assert node.take(dry=True)
    assert not Path(node.folder).exists()
    node.take()
    node.swap()
    assert node.put_back(dry=True)
    assert node.texts() == [f"{name} {NEW}" for name in node.files]


def test_others_may_not_write_what_will_be_put_back(node: Node) -> None:
    """A restore folder that others can write is refused: its content would be root's programs."""
    node.take()
    Path(node.folder).chmod(0o777)
    with pytest.raises(Unusable, match="only root"):
        restore_point.read(node.folder)


@pytest.mark.parametrize("text", ["{", json.dumps({"format_version": 2})])
def test_an_unreadable_point_is_an_error(node: Node, text: str) -> None:
    """A restore point that can't be understood isn't taken for none."""
    node.take()
    Path(node.folder, "restore-point.json").write_text(text)
    with pytest.raises(Unusable):
        node.put_back()


@pytest.mark.parametrize("path", ["relative", "/tmp/../etc/passwd"])
def test_only_absolute_paths_are_kept(node: Node, path: str) -> None:
    """A path that leads elsewhere is refused."""
    with pytest.raises(Unusable, match="absolute"):
        restore_point.take(node.folder, NEW, [path], {}, dry=False)


def test_a_full_disk_leaves_the_old_file(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fails in its middle changes nothing, and leaves no part of a file behind."""
    from ansible.module_utils.durable_files import Owner, replace

    def fail(stream: Any) -> None:
        stream.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replace(str(node.files["kubelet"]), fail, Owner(0o755, 0, 0))
    assert node.files["kubelet"].read_text() == f"kubelet {OLD}"
    assert sorted(file.name for file in node.files["kubelet"].parent.iterdir()) == sorted(node.files)


def test_facts_of_an_interrupted_upgrade_stay_and_are_added_to(node: Node) -> None:
    """The next upgrade may change more: packages that were replaced already keep the version to go back to."""
    first = {"packages": {"kubelet": "1.36"}, "held": ["kubelet"]}
    restore_point.take(node.folder, NEW, [], first, dry=False)
    node.mark(SWAPPING)
    more = {
        "packages": {"kubelet": "1.37", "containerd": "1.6"},
        "held": ["containerd", "kubelet"],
        "containerd": {"a": 1},
    }
    restore_point.take(node.folder, NEW, [], more, dry=False)
    point = node.point()
    assert point["packages"] == {"kubelet": "1.36", "containerd": "1.6"}
    assert (point["held"], point["containerd"]) == (["kubelet", "containerd"], {"a": 1})


def test_some_files_come_back_before_others(node: Node) -> None:
    """containerd's configuration, before its package; all others come later, and once."""
    node.take()
    node.swap()
    point = restore_point.read(node.folder)
    assert restore_point.put_back(node.folder, point, [str(node.files["flags.env"])], dry=False)
    assert node.texts() == [f"kubelet {NEW}", f"kubectl {NEW}", f"flags.env {OLD}"]
    assert sorted(node.put_back()) == ["kubectl", "kubelet"]
