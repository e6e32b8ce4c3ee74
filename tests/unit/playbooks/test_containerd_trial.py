"""Whether a containerd would start with a configuration: what the module says of programs that answer as containerd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.playbooks.node_role import module, tasks

DUMP = """
root = '/var/lib/containerd'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = 'registry.k8s.io/pause:3.10'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = true
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The file in place."""
    path = tmp_path / "config.toml"
    path.write_text("# in place\n")
    return path


def containerd(folder: Path, name: str, *, refuses: str = "", says: str = "", dump: str = DUMP) -> Path:
    """A program that prints its dump of each file but one that has `refuses` in it: it ends, and says `says`."""
    program = folder / name
    (folder / f"{name}.dump").write_text(dump)
    (folder / f"{name}.says").write_text(says + "\n")
    refuse = f'if grep -q "{refuses}" "$2"; then cat {folder}/{name}.says >&2; exit 1; fi\n' if refuses else ""
    program.write_text(f"#!/bin/sh\n{refuse}cat {folder}/{name}.dump\n")
    program.chmod(0o755)
    return program


def tried(program: Path, running: Path, config: Path, **more: Any) -> dict[str, Any]:
    """The module's answer."""
    return module(
        "containerd_trial", program=str(program), running=str(running), configuration_file=str(config), **more
    )


def test_new_program_has_to_read_the_file_in_place_as_well(tmp_path: Path, config: Path) -> None:
    """A power cut may come between the program and its configuration: the node boots with the new and the old."""
    old, new = containerd(tmp_path, "old"), containerd(tmp_path, "new", refuses="in place", says="containerd: no")
    answer = tried(new, old, config, configuration="# new\n")
    assert answer["failed"] and f"{new} can't use the present {config}" in answer["msg"]
    assert "in a separate upgrade" in answer["msg"]
    assert not tried(containerd(tmp_path, "other"), old, config, configuration="# new\n").get("failed")


def test_new_program_loses_nothing_with_the_file_in_place(tmp_path: Path, config: Path) -> None:
    """For the same moment: the new file may say what the old one left to the program's default."""
    old, new = containerd(tmp_path, "old"), containerd(tmp_path, "new")
    (tmp_path / "without").write_text(DUMP.replace("= true", "= false"))
    new.write_text(f'#!/bin/sh\nif grep -q "in place" "$2"; then cat {tmp_path}/without; else cat {new}.dump; fi\n')
    answer = tried(new, old, config, configuration="# new\n")
    assert answer["failed"] and f"can't use the present {config}" in answer["msg"]
    assert "SystemdCgroup changes from true to false" in answer["msg"]


def test_containerd_with_cri_switched_off_is_refused(tmp_path: Path, config: Path) -> None:
    """As Docker's package has it; what 2.x writes of the plugin's settings doesn't say."""
    old = containerd(tmp_path, "old")
    new = containerd(tmp_path, "new", dump=f"disabled_plugins = ['io.containerd.cri.v1.runtime']\n{DUMP}")
    answer = tried(new, old, config)
    assert answer["failed"] and "without CRI" in answer["msg"]
    assert "io.containerd.cri.v1.runtime in disabled_plugins" in answer["msg"]


def test_programs_are_put_in_place_before_their_configuration() -> None:
    """The state in between is one that was tried, and from which the upgrade goes on; and so it is on the way back."""
    order = [task["name"] for task in tasks("runtime_swap")]
    configured = order.index("Change containerd's configuration")
    assert order.index("Put containerd's programs in place") < configured
    assert order.index("Put containerd's package in place") < configured < order.index("Restart containerd")
    back = [task["name"] for task in tasks("put_back")]
    assert back.index("Restore containerd's files") < back.index("Restore the packages")
    assert back.index("Restore the packages") < back.index("Restore the files that the upgrade has changed")
