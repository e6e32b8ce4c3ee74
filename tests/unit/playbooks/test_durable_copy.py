"""A file that is put in place by the role's module: content, and who may read it."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

import pytest

from tests.unit.playbooks.node_role import module, task, template


def mode(path: Path) -> int:
    """Who may do what with a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("before", "asked", "after"), [(0o644, "0600", 0o600), (0o400, "0600", 0o400), (0o644, None, 0o644)]
)
def test_file_with_passwords_is_not_left_to_everybody(
    tmp_path: Path, before: int, asked: str | None, after: int
) -> None:
    """The distribution's containerd has its file for all to read; one that is narrower, or for which none is asked,
    keeps its mode."""
    path = tmp_path / "config.toml"
    path.write_text("old\n")
    path.chmod(before)
    assert module("durable_copy", dest=str(path), content="auth = 1\n", mode=asked)["changed"]
    assert (path.read_text(), mode(path)) == ("auth = 1\n", after)
    assert not module("durable_copy", dest=str(path), content="auth = 1\n", mode=asked)["changed"]


def test_equal_text_that_everybody_reads_is_changed(tmp_path: Path) -> None:
    """An earlier upgrade may have left it so. Check mode only says it."""
    path = tmp_path / "config.toml"
    path.write_text("auth = 1\n")
    path.chmod(0o644)
    parameters = {"dest": str(path), "content": "auth = 1\n", "mode": "0600"}
    assert module("durable_copy", **parameters, _ansible_check_mode=True)["changed"] and mode(path) == 0o644
    assert module("durable_copy", **parameters)["changed"] and mode(path) == 0o600


@pytest.mark.parametrize(("there", "differs"), [("0644", True), ("0640", True), ("0600", False), ("0400", False)])
def test_role_sees_a_configuration_of_equal_text_that_others_read(tmp_path: Path, there: str, differs: bool) -> None:
    """Its task isn't left out, then."""
    config = tmp_path / "config.toml"
    config.write_text("auth = 1\n")
    facts = {
        "node_container_runtime": {"config": str(config)},
        "node_containerd_read": {"content": "YXV0aCA9IDEK"},
        "node_containerd_file": {"stat": {"exists": True, "mode": there}},
    }
    assert template("{{ node_containerd_reconfigured }}", **facts) is differs
    assert task("runtime_swap", "Change containerd's configuration")["durable_copy"]["mode"] == "0600"


def test_several_files_are_put_in_place_in_the_order_of_their_names(tmp_path: Path) -> None:
    """In one task, as each is a session of SSH. After one that can't be put, none is: the kubelet comes last."""
    staged, programs = tmp_path / "staged", tmp_path / "programs"
    names, sums = ("kubelet", "kubeadm", "kubectl"), dict[str, str]()
    for folder in (staged, programs):
        folder.mkdir()
    for name in names:
        (staged / name).write_text(f"new {name}")
        (programs / name).write_text("old")
        sums[name] = hashlib.sha256(f"new {name}".encode()).hexdigest()
    wanted = {"src": str(staged), "dest": str(programs), "files": sums}
    assert module("durable_copy", **wanted, _ansible_check_mode=True)["changed"]
    (staged / "kubectl").write_text("damaged")
    assert f"{programs / 'kubectl'} could not be written" in module("durable_copy", **wanted)["msg"]
    assert [(programs / name).read_text() for name in names] == ["old", "new kubeadm", "old"]
    (staged / "kubectl").write_text("new kubectl")
    done = module("durable_copy", **wanted)
    assert done["changed"] and [each["after_header"] for each in done["diff"]] == [
        str(programs / name) for name in sorted(names)
    ]
    assert [(programs / name).read_text() for name in names] == [f"new {name}" for name in names]
    assert not module("durable_copy", **wanted)["changed"]
