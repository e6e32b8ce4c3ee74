"""Kernel settings are raised while there are labs, and come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.lab import sysctls


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for /proc/sys."""
    folder = tmp_path / "sys"
    settings = {
        "fs/inotify/max_user_instances": "128",
        "fs/inotify/max_user_watches": "9999999",
        "kernel/keys/root_maxbytes": "1",
        "kernel/keys/root_maxkeys": "2",
        "kernel/panic": "3",
        "kernel/panic_on_oops": "0",
        "vm/overcommit_memory": "0",
        "vm/panic_on_oom": "0",
    }
    for name, value in settings.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{value}\n")
    (tmp_path / "labs").mkdir()
    monkeypatch.setattr(sysctls, "_SYS", folder)
    monkeypatch.setattr(sysctls, "labs_root", lambda: tmp_path / "labs")
    return folder


def test_limits_are_raised_but_never_lowered(kernel: Path) -> None:
    """A limit that is high enough stays as it is."""
    sysctls.prepare_kernel()
    assert (kernel / "fs/inotify/max_user_instances").read_text() == "8192"
    assert (kernel / "fs/inotify/max_user_watches").read_text().strip() == "9999999"


def test_the_first_labs_memory_is_what_comes_back(kernel: Path, tmp_path: Path) -> None:
    """A second lab does not remember what the first one set; what kubelets changed comes back too."""
    sysctls.prepare_kernel()
    (kernel / "kernel/panic").write_text("10")
    sysctls.prepare_kernel()
    sysctls.restore_kernel()
    assert (kernel / "fs/inotify/max_user_instances").read_text() == "128"
    assert (kernel / "kernel/panic").read_text() == "3"
    assert list((tmp_path / "labs").iterdir()) == []


def test_nothing_remembered_changes_nothing(kernel: Path) -> None:
    """Restoring twice is harmless."""
    (kernel / "kernel/panic").write_text("7")
    sysctls.restore_kernel()
    assert (kernel / "kernel/panic").read_text() == "7"
