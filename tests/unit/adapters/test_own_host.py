"""Commands on the machine that upgrader runs on."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.waiting import stretched
from upgrader.adapters import own_host
from upgrader.adapters.own_host import OwnHost
from upgrader.errors import BackupRefused, HostError
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

HERE = Host("this machine", "127.0.0.1")


def test_input_and_output_are_larger_than_any_buffer() -> None:
    """Both streams are served at once; bytes or chunks."""
    text = "line\n" * 100_000
    assert OwnHost().run(HERE, ["cat"], stdin=text.encode()).stdout == text
    assert OwnHost().run(HERE, ["cat"], stdin=(b"line\n" for _ in range(100_000))).stdout == text


def test_a_command_that_fails_is_told_with_its_words() -> None:
    """Unless it may fail; one that isn't there can't be started."""
    command = ["sh", "-c", "echo no >&2; exit 3"]
    with pytest.raises(HostError, match=r"^this machine: 'sh -c .*' failed with exit code 3: no$"):
        OwnHost().run(HERE, command)
    assert OwnHost().run(HERE, command, check=False) == CommandResult(3, "", "no\n")
    with pytest.raises(HostError, match=r"'/no/such' can't be started: No such file"):
        OwnHost().run(HERE, ["/no/such"])


def test_a_command_may_end_before_its_input() -> None:
    """Its exit code says whether that was an error."""
    endless = iter(lambda: b"x" * 65536, b"")
    assert OwnHost().run(HERE, ["true"], stdin=endless).exit_status == 0


def test_an_input_that_fails_ends_the_command() -> None:
    """It must not take a part for the whole, and the input's error is told."""

    def damaged() -> Iterator[bytes]:
        yield b"the first part"
        raise BackupRefused("it is damaged")

    with pytest.raises(BackupRefused, match="damaged"):
        OwnHost().run(HERE, ["sleep", "1000"], stdin=damaged(), timeout_seconds=stretched(10))


def test_a_command_that_takes_too_long_is_ended() -> None:
    """And what it has started."""
    with pytest.raises(HostError, match=r"'sleep 1000' timed out after 0 s, and was ended"):
        OwnHost().run(HERE, ["sleep", "1000"], timeout_seconds=0.1)


def test_an_interruption_does_not_wait_for_an_input_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C is this process's: it ends the command, and leaves the input."""
    let_go = threading.Event()
    ended = list[int]()

    def hanging() -> Iterator[bytes]:
        yield b"half"
        let_go.wait(stretched(30))

    class Interrupted(subprocess.Popen[bytes]):
        def wait(self, timeout: float | None = None) -> int:
            if not ended:
                ended.append(self.pid)
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(own_host, "GIVE_UP_SECONDS", 0.0)
    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        OwnHost().run(HERE, ["sleep", "1000"], stdin=hanging(), timeout_seconds=2000)
    assert not let_go.is_set() and not Path(f"/proc/{ended[0]}").exists()
    let_go.set()


def test_a_file_is_read(tmp_path: Path) -> None:
    """None where there is none; what can't be read is told."""
    (tmp_path / "file").write_bytes(b"content")
    assert OwnHost().read(HERE, str(tmp_path / "file")) == b"content"
    assert OwnHost().read(HERE, str(tmp_path / "other")) is None
    with pytest.raises(HostError, match="can't be read: Is a directory"):
        OwnHost().read(HERE, str(tmp_path))
