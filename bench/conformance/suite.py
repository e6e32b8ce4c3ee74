"""Runs specs of a test program against a cluster, in several processes at once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from bench.conformance.programs import Programs
from bench.conformance.results import Result, read_report
from bench.conformance.specs import focus_of
from upgrader.lab.binaries import kubectl

__all__ = ["Started", "Suite"]

_DEADLINE_SECONDS = 4 * 3600.0
_STOP_SECONDS = 600.0
"""For ginkgo to interrupt specs, and for these to remove what they made."""
_LAST_LINES = 30


@dataclass(frozen=True)
class Suite:
    """A cluster to test, by its kubeconfig, and with which programs; logs and reports are written to `folder`."""

    programs: Programs
    kubeconfig: Path
    version: str
    """Of the kubectl that the tests use."""
    folder: Path
    processes: int = 4
    minutes: float = _DEADLINE_SECONDS / 60
    """After them, specs at work are interrupted, and no other is begun."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, program: Path, names: Sequence[str], what: str) -> tuple[Result, ...]:
        """The result of each named spec, once all have ended."""
        if not names:
            return ()
        with self.start(program, names, what) as started:
            return started.results()

    def start(self, program: Path, names: Sequence[str], what: str) -> Started:
        """Start them and don't wait; leaving the context ends what still runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        report = self.folder / f"{what}.json"
        report.unlink(missing_ok=True)
        command = [
            str(self.programs.ginkgo),
            f"--procs={self.processes}",
            f"--focus={focus_of(names)}",
            "--no-color",
            "--silence-skips",
            f"--timeout={_DEADLINE_SECONDS:.0f}s",
            f"--output-dir={self.folder}",
            f"--json-report={report.name}",
            str(program),
            "--",
            f"--kubeconfig={self.kubeconfig}",
            f"--kubectl-path={kubectl(self.version)}",
            "--provider=skeleton",
            "--disable-log-dump",
            f"--e2e-output-dir={self.folder}",
        ]
        log = self.folder / f"{what}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Started(process, tuple(names), report, log, time.monotonic() + 60 * self.minutes)


@dataclass(frozen=True)
class Started:
    """Specs at work."""

    process: subprocess.Popen[bytes]
    names: tuple[str, ...]
    report: Path
    log: Path
    stop_at: float
    """On the monotonic clock."""

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End what still runs; specs remove what they made in the cluster."""
        if self.process.poll() is None:
            self._signal(signal.SIGTERM)
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        """Ginkgo alone would only begin no other suite: a terminal's Ctrl-C reaches its processes, too."""
        os.killpg(self.process.pid, number)

    @property
    def ended(self) -> bool:
        """Whether ginkgo has ended, however, or its time is over."""
        return self.process.poll() is not None or time.monotonic() > self.stop_at

    def results(self) -> tuple[Result, ...]:
        """Wait for the end, or stop them; RuntimeError without a report that has all of them."""
        stopped = False
        try:
            code = self.process.wait(max(self.stop_at - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            stopped = True
            self._signal(signal.SIGINT)
            code = self.process.wait(_STOP_SECONDS)
        if not self.report.exists():
            raise RuntimeError(f"ginkgo ended with {code} and no report:\n{self._end_of_log()}")
        return read_report(self.report.read_text(), self.names, stopped=stopped)

    def _end_of_log(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
