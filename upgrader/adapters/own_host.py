"""Commands on the machine that upgrader runs on, as the user who runs it: `ports.Commands` without SSH."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO

from upgrader.adapters.beside import GIVE_UP_SECONDS, beside
from upgrader.adapters.process_tree import end_tree
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

__all__ = ["OwnHost"]


class OwnHost:
    """`ports.Commands`; each host that it is asked about is this machine."""

    def run(
        self,
        host: Host,
        command: Sequence[str],
        *,
        stdin: bytes | Iterable[bytes] = b"",
        timeout_seconds: float = 30.0,
        check: bool = True,
    ) -> CommandResult:
        pipe, until = subprocess.PIPE, time.monotonic() + timeout_seconds
        try:
            # In a session of its own: Ctrl-C in this terminal is for this process, which ends the command.
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
        except OSError as error:
            raise HostError(f"{host.name}: '{_short(command)}' can't be started: {error.strerror}") from error
        assert process.stdout is not None and process.stderr is not None, "both are pipes"
        sending = beside(lambda: _send(process, (stdin,) if isinstance(stdin, bytes) else stdin))
        output, errors = beside(partial(_read, process.stdout)), beside(partial(_read, process.stderr))
        try:
            process.wait(timeout_seconds)
            said = output.result(_left(until)), errors.result(_left(until))
        except (subprocess.TimeoutExpired, TimeoutError):
            _end(process, sending)
            raise HostError(
                f"{host.name}: '{_short(command)}' timed out after {timeout_seconds:.0f} s, and was ended"
            ) from None
        except BaseException:
            _end(process, sending)
            raise
        wait((sending,), GIVE_UP_SECONDS)
        if sending.done():
            sending.result()
        result = CommandResult(process.returncode, *(text.decode(errors="replace") for text in said))
        if check and result.exit_status:
            why = (result.stderr or result.stdout).strip()
            raise HostError(f"{host.name}: '{_short(command)}' failed with exit code {result.exit_status}: {why}")
        return result

    def read(self, host: Host, path: str) -> bytes | None:
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostError(f"{host.name}: {path} can't be read: {error.strerror}") from error


def _send(process: subprocess.Popen[bytes], chunks: Iterable[bytes]) -> None:
    assert process.stdin is not None
    try:
        for chunk in chunks:
            process.stdin.write(chunk)
        process.stdin.flush()
    except BrokenPipeError:
        pass  # it ended without reading all of it: its exit code says whether that was an error
    except BaseException:
        # The input itself failed. The command must not take its part for the whole, so this comes before the end of it.
        if process.poll() is None:
            end_tree(process.pid)
        raise
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()


def _read(pipe: IO[bytes]) -> bytes:
    with pipe:
        return pipe.read()


def _end(process: subprocess.Popen[bytes], sending: Future[None]) -> None:
    end_tree(process.pid)
    process.wait()
    wait((sending,), GIVE_UP_SECONDS)


def _left(until: float) -> float:
    return max(0.0, until - time.monotonic())


def _short(command: Sequence[str]) -> str:
    first = shlex.join(command).splitlines()[0]
    return first if len(first) <= 100 else first[:100] + "…"
