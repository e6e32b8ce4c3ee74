"""The parent's side of the prober: starts it, follows its counts, stops it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from upgrader.errors import UpgraderError, UsageError
from upgrader.gates.availability.prober import Options
from upgrader.model.availability import Availability, Failure
from upgrader.model.settings import AvailabilitySettings

__all__ = ["AvailabilityProbe"]

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
_SILENT_SECONDS = 15.0


class AvailabilityProbe:
    """A prober in a process of its own. A context manager: entering starts it, leaving stops it."""

    def __init__(
        self,
        kubeconfig: Path,
        *,
        context: str = "",
        requests_per_second: float = AvailabilitySettings.requests_per_second,
        addresses: Sequence[str] = (),
        must_answer: bool = False,
        on_change: Callable[[Availability], None] | None = None,
        keep: Callable[[Sequence[Mapping[str, Any]]], None] | None = None,
    ) -> None:
        """`addresses` (`https://HOST:PORT`) are probed besides the kubeconfig's own.

        `must_answer`: starting fails if an address doesn't answer a first request.
        `on_change` is called with the counts about twice a second, from a separate thread; so is `keep`, with each
        `Sample` once, as JSON values. Neither may raise or wait: the prober's next counts would be late.
        """
        options = Options(str(kubeconfig), context, requests_per_second, tuple(addresses), must_answer)
        self._command = [sys.executable, "-m", "upgrader.gates.availability.prober", json.dumps(asdict(options))]
        self._on_change = on_change
        self._keep = keep
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._settled = threading.Event()
        self._probing = False
        self._seen = Availability()
        self._final = False
        self._heard = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start, and return when it probes. Raises UsageError when the kubeconfig or an address is unusable."""
        # A session of its own: Ctrl-C in the terminal is for the parent, which then stops the prober.
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        self._settled.wait(_START_SECONDS)
        if not self._probing:
            code, complaint = self._end()
            kind = UsageError if code == UsageError.exit_code else UpgraderError
            raise kind(
                f"the availability prober did not start: {complaint or f'exit code {code}'}",
                remedy="Check the kubeconfig (address, credentials, proxy) and `availability.addresses`; "
                "`availability.requestsPerSecond: 0` turns the prober off.",
            )

    def enter(self, phase: str) -> None:
        """Enter a phase: requests that are due from now on count to it."""
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended, and `stop` will report that
                process.stdin.write(f"phase {phase}\n".encode())
                process.stdin.flush()

    def counts(self) -> Availability | None:
        """The counts so far; None when the prober has not reported for longer than a busy machine explains."""
        silent = time.monotonic() - self._heard
        return self._seen if self._probing and silent < _SILENT_SECONDS else None

    def snapshot(self) -> Availability:
        """The counts so far."""
        return self._seen

    def stop(self) -> Availability:
        """Stop, and return the final counts. Stopping again returns the same.

        A prober that ended too early adds a failure that reports it: the counts after that are unknown.
        """
        if self._process is not None:
            code, complaint = self._end()
            if not self._final:
                now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
                lines = complaint.splitlines()
                what = f"ended unexpectedly (exit code {code}): {lines[-1] if lines else 'without output'}"
                gap = Failure(now, "", "prober", "process", what)
                self._seen = replace(self._seen, failures=(gap, *self._seen.failures))
        return self._seen

    def _end(self) -> tuple[int, str]:
        """Close the process's stdin, wait, and return its exit code and what it wrote to stderr."""
        process, reader = self._process, self._reader
        assert process is not None and reader is not None
        self._process = None
        assert process.stdin is not None and process.stderr is not None
        with process:
            process.stdin.close()
            reader.join(_STOP_SECONDS)
            if reader.is_alive():
                process.kill()
            reader.join()
            return process.wait(), process.stderr.read().decode(errors="replace").strip()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            counts = json.loads(line)
            self._final, samples = counts.pop("final"), counts.pop("samples")
            self._seen = Availability.from_json(counts)
            self._heard = time.monotonic()
            self._probing = True
            self._settled.set()
            if self._on_change is not None:
                self._on_change(self._seen)
            if self._keep is not None and samples:
                self._keep(samples)
        self._settled.set()
