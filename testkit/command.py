"""The `upgrader` command as users run it: a separate process with an exit code, output and a duration."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testkit.waiting import stretched, waiting

__all__ = ["Ended", "moving_clock", "must", "passed", "running", "says", "skewed_clock", "start", "upgrader"]

REPOSITORY = Path(__file__).resolve().parents[1]
_SKEWED = Path(__file__).resolve().parent / "skewed_clock"


def skewed_clock(seconds: float) -> Mapping[str, str]:
    """An environment in which a command's clock is this far ahead of the machine's (negative: behind).

    Uses Debian's libfaketime, which changes the answers of the C library: for Python, ssh and Ansible, not for Helm.
    Nodes of a lab have this machine's clock, as its kernel has only one; so only the operator's can differ.
    """
    return _faked({"FAKETIME": f"{seconds:+f}s"}) if seconds else {}


def moving_clock(file: Path) -> Mapping[str, str]:
    """The same, of a clock that jumps, a second later at most, whenever so many seconds are written into the file."""
    return _faked({"FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_CACHE_DURATION": "1"})


def _faked(by: Mapping[str, str]) -> Mapping[str, str]:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        raise FileNotFoundError("libfaketime is not installed: make deps")
    # Monotonic time stays: a timeout would otherwise last longer by as much as the clock is ahead.
    return {
        "LD_PRELOAD": str(library),
        **by,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "PYTHONPATH": f"{_SKEWED}{os.pathsep}{REPOSITORY}",
    }


_LAST_LINES = 12


@dataclass(frozen=True)
class Ended:
    """A command that ended. `seconds` is wall time; the output is empty if it went to the terminal."""

    arguments: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    seconds: float

    def __str__(self) -> str:
        """The result comes first: a CI system that shortens a failure shows its beginning."""
        end = "\n".join(self.stderr.splitlines()[-_LAST_LINES:])
        output = f"--- its last lines\n{end}\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"
        return f"upgrader {' '.join(self.arguments)}: exit code {self.exit_code} after {self.seconds:.1f} s\n{output}"


def upgrader(
    *arguments: str | Path,
    timeout_seconds: float = 900.0,
    shown: bool = False,
    folder: Path = REPOSITORY,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run `upgrader ARGUMENTS` in `folder` to its end; `shown` lets it write to this process's terminal.

    Raises subprocess.TimeoutExpired after `timeout_seconds`, stretched as `testkit.waiting` says; the process has been
    killed by then.
    """
    words = tuple(map(str, arguments))
    begun = time.monotonic()
    with waiting(f"upgrader {_named(words)}"):
        done = subprocess.run(
            [sys.executable, "-m", "upgrader", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=not shown,
            text=True,
            timeout=stretched(timeout_seconds),
            check=False,
        )
    return Ended(words, done.returncode, done.stdout or "", done.stderr or "", time.monotonic() - begun)


def _named(words: tuple[str, ...]) -> str:
    """The command without its folder and arguments: "lab restore", "run"."""
    own = words[2:] if words[:1] == ("-C",) else words
    return " ".join(own[: 2 if own[:1] in (("lab",), ("certs",), ("backup",), ("guard",), ("images",)) else 1])


def must(ended: Ended, expected: int = 0) -> Ended:
    """Return the command if it has the expected exit code; otherwise print its output and exit."""
    if ended.exit_code != expected:
        print(ended, file=sys.stderr)
        sys.exit(ended.exit_code or 1)
    return ended


def passed(ended: Ended) -> Ended:
    """Return the command if its exit code is 0. Raises AssertionError with its output."""
    assert ended.exit_code == 0, ended
    return ended


def says(ended: Ended, *words: str) -> None:
    """Raises AssertionError with the command's output, unless all of these are in it, however its lines are broken."""
    told = " ".join((ended.stdout + ended.stderr).split())
    for each in words:
        assert each in told, ended


def start(*arguments: str | Path, folder: Path = REPOSITORY) -> subprocess.Popen[str]:
    """Start `upgrader ARGUMENTS` and don't wait; standard error goes into standard output."""
    return subprocess.Popen(
        [sys.executable, "-m", "upgrader", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def running(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run `upgrader ARGUMENTS` as `start` does; kill it if it still runs when the context ends."""
    process = start(*arguments)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
