"""The script that prepares kube-apiserver's pod: its private address, its token, and the shell that starts it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.charts.conftest import Render
from tests.charts.test_kube_apiserver import API, ONE
from upgrader.built_in_files import charts_folder

SCRIPT = charts_folder() / "kube-apiserver" / "files" / "address.sh"


def _prepare(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": "/usr/bin:/bin", "ADDRESS_FILE": str(folder / "address.env"), **environment}
    return subprocess.run(["/bin/sh", str(SCRIPT)], env=given, capture_output=True, text=True, check=False)


def _files(folder: Path) -> dict[str, Any]:
    return {str(p.relative_to(folder)): (p.read_bytes(), p.stat().st_ino) for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """What the script leaves for the pod's containers."""
    done = _prepare(tmp_path, TOKEN_FILE=str(tmp_path / "tokens.csv"))
    assert done.returncode == 0, done
    return tmp_path


def test_the_program_gets_its_flags_as_they_are_and_the_address(prepared: Path, render: Render) -> None:
    """The chart's own command starts kube-apiserver by what the script left, and hands on every other flag unchanged.

    That an image without a shell needs no more than this, the end-to-end tests prove: Kubernetes' images have none.
    """
    program = prepared / "bin" / "kube-apiserver"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    words = render("kube-apiserver", ONE).container(*API)["command"]
    command = [word.replace("/run/kube-apiserver", str(prepared)) for word in words]
    given = ["--a=b c", "$(HOME)", "*", "--c=$PATH"]
    path = {"PATH": str(program.parent)}
    done = subprocess.run([*command, *given], env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    *own, address = done.stdout.splitlines()
    assert own == given
    chosen = (prepared / "address.env").read_text()
    assert chosen == f"PRIVATE_ADDRESS='{address.removeprefix('--bind-address=')}'\n"


def test_no_two_pods_have_one_address(tmp_path: Path) -> None:
    """Ten pods of one template have ten addresses, none of them of 127.0.0.0/16."""
    found = set()
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert _prepare(folder).returncode == 0
        found.add((folder / "address.env").read_text())
    assert len(found) == 10
    assert all(re.fullmatch(r"PRIVATE_ADDRESS='127\.[1-9]\d*\.\d+\.\d+'\n", text) for text in found)


def test_a_second_start_changes_nothing(prepared: Path) -> None:
    """The kubelet may run it again beside the other containers, which may be executing what it wrote."""
    before = _files(prepared)
    assert _prepare(prepared, TOKEN_FILE=str(prepared / "tokens.csv")).returncode == 0
    assert _files(prepared) == before


def test_what_is_left_is_for_root_alone(prepared: Path) -> None:
    """No other user of the node or the pod reads the token, or replaces the shell."""
    assert all(path.stat().st_mode & 0o077 == 0 and path.stat().st_uid == os.getuid() for path in prepared.rglob("*"))


def test_an_interrupted_copy_is_made_again(tmp_path: Path) -> None:
    """What a power cut left incomplete is made again, whether it has its last name already or not."""
    for name in ("files.new", "files"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "sh").write_text("")
    assert _prepare(tmp_path).returncode == 0
    assert not (tmp_path / "files.new").exists()
    assert (tmp_path / "files" / "sh").read_bytes() == Path("/bin/sh").read_bytes()


def test_the_chart_has_all_that_is_copied(prepared: Path, render: Render) -> None:
    """Each file that the script copies from beside itself is in the ConfigMap that pods mount there."""
    files = render("kube-apiserver", ONE).get("ConfigMap", "kube-apiserver-proxy")["data"]
    copied = {path.name for path in (prepared / "files").iterdir() if (SCRIPT.parent / path.name).exists()}
    assert "start.sh" in copied and files.keys() == {*copied, SCRIPT.name}


def test_a_pod_keeps_the_files_that_it_began_with(prepared: Path) -> None:
    """An upgrade changes the ConfigMap before the next pod is ready: the old one's probes mustn't run its files."""
    assert (prepared / "files" / "proxy.sh").read_text() == SCRIPT.with_name("proxy.sh").read_text()
    (prepared / "files" / "proxy.sh").write_text("of before")
    assert _prepare(prepared).returncode == 0
    assert (prepared / "files" / "proxy.sh").read_text() == "of before"


def test_a_shell_that_can_not_be_copied_says_why(tmp_path: Path) -> None:
    """Without `ldd`, or with a shell without a loader, the init container fails and names both possible causes."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("cp", "mv", "rm", "mkdir", "dirname", "grep", "od", "tr", "sync"):
        (programs / name).symlink_to(f"/usr/bin/{name}")
    done = _prepare(tmp_path, PATH=str(programs))
    assert done.returncode == 1
    assert "noexec" in done.stderr and "haproxy.image" in done.stderr
    assert not (tmp_path / "address.env").exists()
