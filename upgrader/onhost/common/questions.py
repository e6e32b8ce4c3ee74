"""Queries with a deadline: everything here can hang on a broken machine."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

SECONDS = 4.0
"""Deadline of one command or connection."""


class Failed(Exception):
    """A query without an answer; the message gives the reason."""


def unknown(why: str) -> dict[str, str]:
    """The value of a fact that could not be determined."""
    return {"unknown": why}


def attempt(ask: Callable[[], Any]) -> Any:
    """The answer, or why there is none."""
    try:
        return ask()
    except Failed as error:
        return unknown(str(error))
    except OSError as error:
        return unknown(str(error) or type(error).__name__)
    except Exception as error:  # noqa: BLE001 - one question that goes wrong must not take the others with it
        return unknown(f"{type(error).__name__}: {error}")


def together(asked: dict[str, Callable[[], Any]], seconds: float) -> dict[str, Any]:
    """All answers, queried concurrently; one that takes longer than `seconds` is unknown, and no longer waited for."""
    answers: dict[str, Any] = {}

    def ask(name: str) -> None:
        answers[name] = attempt(asked[name])

    threads: list[tuple[str, threading.Thread]] = []
    for name in asked:
        thread = threading.Thread(target=ask, args=(name,), daemon=True)
        thread.start()
        threads.append((name, thread))
    until = time.monotonic() + seconds
    for name, thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            answers[name] = unknown(f"no answer within {seconds:.0f} s")
    return {name: answers[name] for name in asked}


def command(*words: str) -> str:
    """Standard output of a command, whatever its exit status. Raises Failed when it can't be run, or doesn't end."""
    environment = dict(os.environ, LC_ALL="C", SYSTEMD_PAGER="", SYSTEMD_COLORS="0")
    try:
        done = subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise Failed(f"{words[0]} was not found on this host") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{words[0]} timed out after {SECONDS:.0f} s") from None
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode and not output.strip():
        words_ = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Failed(
            "{} failed with exit code {}: {}".format(
                words[0], done.returncode, words_[-1] if words_ else "it printed no error"
            )
        )
    return output


def read(path: str, limit: int = 1 << 20) -> bytes:
    """The beginning of a file. Raises OSError."""
    with open(path, "rb") as file:
        return file.read(limit)
