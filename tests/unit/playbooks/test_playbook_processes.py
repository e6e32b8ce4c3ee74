"""What an earlier run of the node playbooks has left on a node."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils.playbook_processes import VARIABLE, playbook_processes

OURS = f"PATH=/bin\0{VARIABLE}=upgrade-node\0"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A `/proc` with init, and this module (22) that a task's shell (21) has started."""
    process(tmp_path, 1, 0, "PATH=/bin\0", "/sbin/init")
    process(tmp_path, 21, 1, OURS, "sh -c python3")
    process(tmp_path, 22, 21, OURS, "python3 AnsiballZ_earlier_playbooks.py")
    (tmp_path / "meminfo").write_text("")
    return tmp_path


def process(
    proc: Path, pid: int, parent: int, environment: str, command: str, *, user: int = 0, inside: str = ""
) -> None:
    """A process, whose name is one that breaks naive parsing; `inside`: its number in a container."""
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(f"{pid} (a) b) S {parent} 1 1")
    (proc / str(pid) / "status").write_text(f"Name:\ta) b\nUid:\t1000\t{user}\t0\t0\nNSpid:\t{pid}\t{inside}\n")
    (proc / str(pid) / "environ").write_text(environment)
    (proc / str(pid) / "cmdline").write_text(command.replace(" ", "\0") + "\0")


def test_own_task_is_no_earlier_one(proc: Path) -> None:
    """Nor is what has started it, or anything that isn't of these playbooks."""
    process(proc, 30, 1, f"NOT_{VARIABLE}=x\0", "kubelet")
    assert playbook_processes(str(proc), own=22) == {}


def test_task_that_was_left_is_named(proc: Path) -> None:
    """With what it has started: dpkg goes on where apt-get has ended."""
    process(proc, 31, 1, OURS, "python3 AnsiballZ_durable_copy.py")
    process(proc, 32, 31, OURS, "dpkg --unpack")
    assert playbook_processes(str(proc), own=22) == {31: "python3 AnsiballZ_durable_copy.py", 32: "dpkg --unpack"}


def test_process_that_ends_meanwhile_is_none(proc: Path) -> None:
    """Its files are gone by the time that they are read."""
    (proc / "33").mkdir()
    assert playbook_processes(str(proc), own=22) == {}


def test_pod_or_user_can_not_have_a_node_waited_for(proc: Path) -> None:
    """Whoever may run a pod chooses its environment, and would keep the node from being upgraded, and from being put
    back. So would any user of the machine.
    """
    process(proc, 34, 1, OURS, "sleep inf", inside="1")
    process(proc, 35, 1, OURS, "sleep inf", user=1000)
    process(proc, 36, 1, OURS, "sleep inf", user=1000, inside="1")
    assert playbook_processes(str(proc), own=22) == {}
