"""Files that are put in place whole."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from ansible.module_utils import durable_files
from ansible.module_utils.durable_files import Owner
from ansible.module_utils.executable_label import let_systemd_execute


def test_a_large_file_reaches_the_disk_a_little_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """etcd waits for all that was written before its own few bytes: a kubelet's 80 MB at once stop it for seconds."""
    source, target = tmp_path / "new", tmp_path / "kubelet"
    source.write_bytes(os.urandom(1000) * 20_000)
    flushed = [0]
    flush = os.fdatasync

    def noted(number: int) -> None:
        flushed.append(os.fstat(number).st_size)
        flush(number)

    monkeypatch.setattr(os, "fdatasync", noted)
    durable_files.replace(str(target), durable_files.copier(str(source)), Owner(0o755, os.getuid(), os.getgid()))
    assert target.read_bytes() == source.read_bytes()
    assert flushed[-1] == 20_000_000
    assert max(after - before for before, after in itertools.pairwise(flushed)) <= 4 << 20


@pytest.fixture
def labels(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The labels of SELinux by file, as on RHEL; a file that isn't here has none."""
    found: dict[str, bytes] = {}

    def label(path: str, _: str) -> bytes:
        if str(path) not in found:
            raise OSError("No data available")
        return found[str(path)]

    monkeypatch.setattr(os, "getxattr", label)
    monkeypatch.setattr(os, "setxattr", lambda path, _, value: found.update({str(path): value}))
    return found


def test_a_replaced_program_keeps_its_label(tmp_path: Path, labels: dict[str, bytes]) -> None:
    """systemd gives the kubelet its rights by it; a file that is new gets its folder's."""
    target = tmp_path / "kubelet"
    target.write_bytes(b"old")
    labels[str(target)] = b"system_u:object_r:kubelet_exec_t:s0\0"
    durable_files.replace(str(target), b"new", beside=str(tmp_path / "beside"))
    assert labels[str(tmp_path / "beside")] == labels[str(target)]
    labels.clear()
    durable_files.replace(str(target), b"newer")
    durable_files.replace(str(tmp_path / "other"), b"new")
    assert labels == {} and target.read_bytes() == b"newer"


def test_a_staged_kubelet_may_be_started_by_systemd(labels: dict[str, bytes]) -> None:
    """SELinux lets it start no file that is labelled as data, as those in /var/lib are; others stay as they are."""
    labels |= {"/staged": b"system_u:object_r:var_lib_t:s0\0", "/own": b"system_u:object_r:kubelet_exec_t:s0\0"}
    for program in ("/staged", "/own", "/without"):
        let_systemd_execute(program)
    assert labels == {
        "/staged": b"system_u:object_r:bin_t:s0\0",
        "/own": b"system_u:object_r:kubelet_exec_t:s0\0",
    }
