"""Files that are put in place whole."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from ansible.module_utils import durable_files
from ansible.module_utils.durable_files import Owner


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
