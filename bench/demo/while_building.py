"""Builds what the demo needs; on a terminal, a recorded upgrade is to be seen meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

__all__ = ["RECORDING", "Process", "built", "recording_of"]

RECORDING = Path(__file__).with_name("recording.jsonl")
_AT_ONCE_SECONDS = 5.0
"""What is all in the cache takes no longer: nothing is shown then."""
_TOLD_SECONDS = 15.0
_GLANCE_SECONDS = 0.5
_REASON = " from source, because "
"""In lines of `lab build` that say why it doesn't download Kubernetes' release, or no longer."""


class Process(Protocol):
    """As subprocess.Popen."""

    def poll(self) -> int | None: ...
    def terminate(self) -> None: ...
    def wait(self, timeout: float | None = None) -> int: ...


def recording_of(speed: float = 4.0) -> subprocess.Popen[bytes] | None:
    """The recording, replayed on this terminal; None where there is no terminal, or no recording."""
    if not sys.stdout.isatty() or not RECORDING.is_file():
        return None
    print("\nWhile that is built: a recording of such an upgrade, made on another day.", flush=True)
    return subprocess.Popen([sys.executable, "-m", "upgrader", "replay", str(RECORDING), "--speed", str(speed)])


def built(
    build: Process,
    log: Path,
    replay: Callable[[], Process | None],
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], None] = print,
) -> int:
    """Wait for the build, which writes to `log`; returns its exit code. `replay` begins to show the recording.

    Once the recording has been seen, the newest line of the log is, and each line that says why something is built.
    """
    try:
        return _waited(build, log, replay, sleep, say)
    finally:
        if build.poll() is None:
            build.terminate()
            build.wait()


def _waited(
    build: Process,
    log: Path,
    replay: Callable[[], Process | None],
    sleep: Callable[[float], None],
    say: Callable[[str], None],
) -> int:
    watching = _Watching(log, replay, say)
    while (code := build.poll()) is None:
        try:
            sleep(_GLANCE_SECONDS)
            watching.glance()
        except KeyboardInterrupt:
            # Who ends the recording doesn't mean the demo.
            if not watching.ends_recording():
                raise
    watching.ends_recording()
    return code


class _Watching:
    """What is shown meanwhile: nothing, the recording, and then how far the build is."""

    def __init__(self, log: Path, replay: Callable[[], Process | None], say: Callable[[str], None]) -> None:
        self._log, self._replay, self._say = log, replay, say
        self._waited = self._told_at = 0.0
        self._told = ""
        self._reasons: set[str] = set()
        self._shown: Process | None = None

    def glance(self) -> None:
        """Another moment has passed."""
        before, self._waited = self._waited, self._waited + _GLANCE_SECONDS
        if before < _AT_ONCE_SECONDS <= self._waited:
            self._shown = self._replay()
        if self._waited < _AT_ONCE_SECONDS or (self._shown is not None and self._shown.poll() is None):
            return
        lines = _lines(self._log)
        for line in lines:
            if _REASON in line and line not in self._reasons:
                self._reasons.add(line)
                self._say(line)
        newest = next(reversed(lines), "…")
        if newest != self._told and self._waited >= self._told_at + _TOLD_SECONDS:
            self._told, self._told_at = newest, self._waited
            self._say(f"building: {newest}")

    def ends_recording(self) -> bool:
        """End it; returns whether it was being shown."""
        if self._shown is None or self._shown.poll() is not None:
            return False
        self._shown.terminate()
        self._shown.wait()
        return True


def _lines(log: Path) -> list[str]:
    return [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
