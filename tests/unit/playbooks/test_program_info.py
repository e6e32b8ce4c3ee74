"""What is read of the programs of a node: all of them in one task, and none is started that isn't the wanted one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.node_role import complaint, module, tasks, template

ANSWERS = "#!/bin/sh\necho Kubernetes v1.37.1 $*\n"
WANTED = hashlib.sha256(ANSWERS.encode()).hexdigest()


def program(folder: Path, name: str, text: str = ANSWERS) -> None:
    """A program that can be started."""
    (folder / name).write_text(text)
    (folder / name).chmod(0o700)


def found(folder: Path, *names: str, **parameters: Any) -> list[dict[str, Any]]:
    """What the module answers of each program."""
    programs: list[dict[str, Any]] = module("program_info", folder=str(folder), names=list(names), **parameters)[
        "programs"
    ]
    return programs


def test_programs_are_read_together(tmp_path: Path) -> None:
    """One answer has the SHA-256 of each, in the order of the question; a missing one has none."""
    program(tmp_path, "kubelet")
    assert found(tmp_path, "kubectl", "kubelet") == [
        {"name": "kubectl", "path": f"{tmp_path}/kubectl", "sha256": "", "executable": False},
        {"name": "kubelet", "path": f"{tmp_path}/kubelet", "sha256": WANTED, "executable": True},
    ]


@pytest.mark.parametrize(("sums", "started"), [({"kubelet": WANTED}, True), ({"kubelet": "0" * 64}, False), ({}, True)])
def test_program_with_another_checksum_is_not_started(tmp_path: Path, sums: dict[str, str], started: bool) -> None:
    """What it would do isn't known. apt has verified the programs of packages, whose SHA-256 is unknown."""
    program(tmp_path, "kubelet", ANSWERS)
    (one,) = found(tmp_path, "kubelet", arguments={"kubelet": ["--version"]}, sha256=sums)
    assert one.get("stdout") == ("Kubernetes v1.37.1 --version\n" if started else None)
    said = complaint("verify", "Check the version of each program", item=one, node_kubernetes_version="v1.37.1")
    assert (said == "") is started


def test_program_that_can_not_be_started_says_why(tmp_path: Path) -> None:
    """Such as one for another architecture: the node's kubelet stays."""
    program(tmp_path, "kubelet", "\x7fELF")
    (one,) = found(tmp_path, "kubelet", arguments={"kubelet": ["--version"]})
    said = complaint("verify", "Check the version of each program", item=one, node_kubernetes_version="v1.37.1")
    assert "kubelet is not v1.37.1 for this node: [Errno 8] Exec format error" in said


def test_program_that_can_not_be_read_is_an_error(tmp_path: Path) -> None:
    """Unknown content is not taken for a missing program, which would be replaced."""
    (tmp_path / "kubelet").mkdir()
    said = module("program_info", folder=str(tmp_path), names=["kubelet"])
    assert said["failed"] and "kubelet could not be read" in said["msg"]


@pytest.mark.parametrize(
    ("kind", "check", "staged", "got"),
    [
        ("folder", False, "1" * 64, ["kubectl"]),
        ("url", False, "", ["kubelet", "kubectl"]),
        ("folder", True, "1" * 64, ["kubelet", "kubectl"]),
        ("packages", False, "1" * 64, ["kubelet", "kubectl"]),
    ],
)
def test_what_is_staged_is_not_sent_again(kind: str, check: bool, staged: str, got: list[str]) -> None:
    """A swap finds what `stage-node.yml` has brought. Check mode looks at the source itself, whatever is staged."""
    facts = {
        "node_source": {"kind": kind, "sha256": {"kubelet": "1" * 64, "kubectl": "2" * 64}},
        "node_machine": {"stdout": "x86_64"},
        "node_to_swap": ["kubelet", "kubectl"],
        "node_staged_before": {
            "programs": [
                {"name": "kubelet", "sha256": staged, "executable": True},
                {"name": "kubectl", "sha256": "3" * 64, "executable": True},
            ]
        },
        "ansible_check_mode": check,
    }
    assert template("{{ node_to_get }}", **facts) == got


def test_program_that_was_staged_without_its_mode_is_staged_again(tmp_path: Path) -> None:
    """Ansible moves a file to its place, and sets its mode only then: a node that loses its power in between has the
    whole program, which can't be started. Another run must not fail for that.
    """
    program(tmp_path, "kubelet")
    program(tmp_path, "kubectl")
    (tmp_path / "kubectl").chmod(0o644)
    facts = {
        "node_source": {"kind": "url", "sha256": {"kubelet": WANTED, "kubectl": WANTED}},
        "node_machine": {"stdout": "x86_64"},
        "node_to_swap": ["kubelet", "kubectl"],
        "node_staged_before": {"programs": found(tmp_path, "kubelet", "kubectl")},
        "ansible_check_mode": False,
    }
    assert template("{{ node_to_get }}", **facts) == ["kubectl"]


@pytest.mark.parametrize("name", ["look", "stage_programs", "stage_from_folder", "verify"])
def test_no_task_is_repeated_for_each_program_to_read_it(name: str) -> None:
    """A task takes longer than what it reads: only assertions, which no node is asked for, and copies have a loop."""
    repeated = {key for task in tasks(name) if "loop" in task for key in task if key.startswith("ansible.builtin.")}
    assert repeated <= {"ansible.builtin.assert", "ansible.builtin.copy"}
