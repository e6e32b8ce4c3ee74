"""A service that a test starts as a process of its own, on 127.0.0.1, and ends."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from testkit.ports import free_port
from testkit.waiting import Patience, stretched

__all__ = ["local_service"]

_READY_SECONDS = 60


@contextmanager
def local_service(
    command: Callable[[int], Sequence[str]], ready: str, folder: Path, port: int | None = None
) -> Iterator[str]:
    """Run `command(port)` in a folder until the context ends; its URL, once the path `ready` answers 200.

    Raises AssertionError, with the end of its log, if it doesn't become ready.
    """
    port = port or free_port()
    url, log = f"http://127.0.0.1:{port}", folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command(port), cwd=folder, stdout=output, stderr=subprocess.STDOUT)
    try:
        patience = Patience(_READY_SECONDS)
        while not _answers(url + ready):
            assert process.poll() is None and patience.left(), log.read_text()[-2000:]
            time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(stretched(10))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=stretched(5)) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
