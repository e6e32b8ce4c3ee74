"""The folder's lock: one holder at a time, known by name, released with its process."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from upgrader.engine.locks.folder_lock import folder_holder, folder_lock
from upgrader.errors import Locked, UsageError


class ReleasingClock(FakeClock):
    """A clock during whose pause a file's lock is released."""

    def __init__(self, file: int) -> None:
        super().__init__()
        self.file = file

    def sleep(self, seconds: float) -> None:
        fcntl.flock(self.file, fcntl.LOCK_UN)


def test_second_run_is_turned_away(tmp_path: Path) -> None:
    """While one run holds the folder, another is refused with exit code 6 and the name of the first."""
    with folder_lock(tmp_path, "anna@laptop (process 7)", FakeClock()):
        second = folder_lock(tmp_path, "ben", FakeClock())
        with pytest.raises(Locked, match=r"anna@laptop \(process 7\) since \d{4}-") as caught, second:
            pass
        assert caught.value.exit_code == 6
    with folder_lock(tmp_path, "ben", FakeClock()):
        pass


@pytest.mark.parametrize(
    "error", [OSError(errno.EROFS, "Read-only file system"), PermissionError(13, "Permission denied")]
)
def test_folder_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """A read-only folder is an error that says so, and that a copy of the folder does; not a traceback."""

    def refuse(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError, match=str(error.strerror)) as caught, folder_lock(tmp_path, "anna", FakeClock()):
        pass
    assert f"cp -a {tmp_path} COPY" in caught.value.remedy


def test_lock_that_can_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's folder isn't taken for one in which nothing runs, and gives no traceback."""

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError, match=r"runs/\.lock can't be read: Permission denied.*unknown") as caught:
        folder_holder(tmp_path)
    assert "as the user who runs upgrader" in caught.value.remedy


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOLCK, "No locks available"), OSError(errno.EOPNOTSUPP, "Operation not supported")]
)
def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError) -> None:
    """NFS whose server has no lock manager: without a lock two runs could begin, and which one is active is unknown."""
    with folder_lock(tmp_path, "anna", FakeClock()):
        pass

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(UsageError, match=rf"runs/\.lock can't be locked: {error.strerror}") as caught,
        folder_lock(tmp_path, "anna", FakeClock()),
    ):
        pass
    assert "a local disk" in caught.value.remedy
    with pytest.raises(UsageError, match=rf"runs/\.lock can't be locked: {error.strerror}"):
        folder_holder(tmp_path)


def test_a_full_disk_does_not_keep_from_locking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the name of its holder isn't known then; `recover` must work all the same."""

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    with folder_lock(tmp_path, "anna", FakeClock()):
        found = folder_holder(tmp_path)
        assert found is not None and found.holder == "another process"


def test_holder_is_known_while_it_holds(tmp_path: Path) -> None:
    """The holder of a folder can be read before, while and after a process holds it."""
    assert folder_holder(tmp_path) is None
    with folder_lock(tmp_path, "anna@laptop", FakeClock()):
        holder = folder_holder(tmp_path)
        assert holder is not None and holder.holder == "anna@laptop"
    assert folder_holder(tmp_path) is None


def test_killed_holder_holds_nothing(tmp_path: Path) -> None:
    """A killed process leaves no lock behind."""
    code = (
        "import sys, time; from pathlib import Path; from upgrader.engine.locks.folder_lock import folder_lock\n"
        "from upgrader.adapters.clock import SystemClock\n"
        "with folder_lock(Path(sys.argv[1]), 'doomed', SystemClock()): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        holder = folder_holder(tmp_path)
        assert holder is not None and holder.holder == "doomed"
        process.kill()
    assert folder_holder(tmp_path) is None
    with folder_lock(tmp_path, "next", FakeClock()):
        pass


def test_a_look_turns_nobody_away(tmp_path: Path) -> None:
    """A run that meets the moment in which another process only reads the holder tries again, and gets the lock."""
    with folder_lock(tmp_path, "before", FakeClock()):
        pass
    looking = os.open(tmp_path / "runs" / ".lock", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    with folder_lock(tmp_path, "anna", ReleasingClock(looking)):
        holder = folder_holder(tmp_path)
        assert holder is not None and holder.holder == "anna"
    os.close(looking)
