"""What a Job's container does: unpacks the run's inputs, runs it, and leaves its last words to the kubelet."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from upgrader.app.event_lines import CommandEnded, error_form, line_of
from upgrader.config.copied_folder import COPIES, copied
from upgrader.errors import Blocked, Interrupted, UpgraderError, UsageError
from upgrader.fleet.copies_in_secrets import unpack
from upgrader.fleet.end_signals import EndSignals
from upgrader.fleet.inputs import own_pins
from upgrader.fleet.outcomes import command_end

__all__ = ["pins_text", "run_in_job"]

_SETTINGS = "upgrader.yaml"
_MOST_BYTES = 4096
"""The kubelet takes no more."""
_MOST_WORDS = (1200, 600, 300, 150)
"""Characters of each text of an error: as many as fit. The fewest always do, whatever characters they are."""


def pins_text() -> str:
    """What this upgrader is, for the one in an image to compare itself with."""
    pins = own_pins()
    return f"{pins.upgrader}/{pins.charts}/{pins.program}"


def run_in_job(
    chunks: Path,
    folder: Path,
    copies: Path,
    termination: Path,
    pins: str,
    arguments: Sequence[str],
    *,
    output: TextIO,
    signals: EndSignals,
    program: Sequence[str] = (sys.executable, "-m", "upgrader"),
) -> int:
    """Run `upgrader` with these arguments on the inputs in `chunks`, a folder of files in their order, which are
    unpacked to `copies`; returns its exit code. What it writes goes to `output`. A signal to end is handed on: the run
    stops where it can be resumed. Its last line, or why it could not be begun, is left in the file `termination`.

    Raises Blocked for an image with another upgrader than the campaign's, UsageError for inputs that can't be unpacked,
    and Interrupted if it was told to end before the run could take that.
    """
    try:
        environ = _prepared(chunks, folder, copies, pins)
        if signals.told:
            raise Interrupted("the Job's pod was terminated before its run began; nothing was changed")
        return _run([*program, *arguments], environ, termination, output, signals)
    except UpgraderError as error:
        end = CommandEnded(error.exit_code, error=error_form(error, str(folder)))
        _leave(line_of(end, datetime.now(UTC)).encode(), termination)
        raise


def _run(
    command: Sequence[str], environ: Mapping[str, str], termination: Path, output: TextIO, signals: EndSignals
) -> int:
    last = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ) as run:
        signals.hand_on(run)
        assert run.stdout is not None, "it is a pipe"
        for line in run.stdout:
            output.write(line.decode(errors="replace"))
            output.flush()
            last = line if line.strip() else last
        code = run.wait()
    if signals.have_ended(code):
        raise Interrupted("the Job's pod was terminated, and its run ended without a result")
    _leave(last, termination)
    return code if code >= 0 else 128 - code


def _prepared(chunks: Path, folder: Path, copies: Path, pins: str) -> dict[str, str]:
    """The environment of a run, for which all is in place."""
    if (here := pins_text()) != pins:
        raise Blocked(
            f"this image has the upgrader {here}, but the campaign was started with {pins}; nothing was changed",
            remedy="Set jobs.image in fleet.yaml to the image of that upgrader, and start a new campaign.",
        )
    unpack(sorted(chunks.glob("[0-9]*")), copies)
    environ = {**os.environ, COPIES: str(copies)}
    _make_folder(folder, environ)
    return environ


def _make_folder(folder: Path, environ: dict[str, str]) -> None:
    """The cluster folder itself, in which a run writes. By its settings, commands know that it is one."""
    source = copied(folder, environ)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if source is not None:
            shutil.copyfile(source / _SETTINGS, folder / _SETTINGS)
    except OSError as error:
        raise UsageError(f"{error.filename} can't be written: {error.strerror}") from error


def _leave(line: bytes, termination: Path) -> None:
    """Leave a command's last line where the kubelet reads it, short enough. Raises UsageError."""
    if command_end(line) is None:  # it was killed
        return
    for most in _MOST_WORDS:
        if len(line) <= _MOST_BYTES:
            break
        fields = json.loads(line)  # what was cut already is cut again
        error = fields["data"].get("error") or {}
        kept = {key: str(error.get(key, ""))[:most] for key in ("code", "what", "why")}
        fields["data"] = {**fields["data"], "folder": "", "error": kept}
        line = json.dumps(fields, ensure_ascii=False).encode()
    try:
        termination.write_bytes(line)
    except OSError as error:
        raise UsageError(f"{termination} can't be written: {error.strerror}") from error
