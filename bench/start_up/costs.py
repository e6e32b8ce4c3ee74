"""What a process costs, and when its first words are on the screen."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Cost", "Imported", "Place", "cost_of", "first_words", "imports_of", "own_cost"]

_SECONDS = 60.0
_IMPORT = """
import gc, importlib
gc.set_threshold({threshold})
for name in {names}:
    try: importlib.import_module(name)
    except Exception: pass
"""
_MAIN = """
import sys
sys.argv = ["upgrader", *{arguments}]
from upgrader.cli.main import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
"""
_TELL = """
import gc, json, resource, sys
used = resource.getrusage(resource.RUSAGE_SELF)
with open({out}, "w") as file:
    json.dump([used.ru_utime + used.ru_stime, list(sys.modules), gc.get_threshold()[0]], file)
"""


@dataclass(frozen=True)
class Cost:
    """What one process took, in seconds."""

    cpu: float
    wall: float


@dataclass(frozen=True)
class Imported:
    """What a command has imported, and how."""

    modules: tuple[str, ...]
    threshold: int
    """Of Python's garbage collector, as the command has set it: it looks through what modules are made of."""


@dataclass(frozen=True)
class Place:
    """Whose program is started, and in which folder."""

    checkout: Path
    folder: Path

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        """With Helm, which is beside Python."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "TERM": "xterm", **settings, "PYTHONPATH": str(self.checkout)}


def cost_of(place: Place, arguments: tuple[str, ...], settings: Mapping[str, str]) -> Cost:
    """Of Python with these arguments, and of its children."""
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=place.folder,
        env=place.environment(settings),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0  # it was waited for
    return Cost(used.ru_utime + used.ru_stime, time.monotonic() - begun)


def own_cost(place: Place, *words: str) -> tuple[Cost, Imported]:
    """Of a command without its children, and all that it has imported."""
    return _told(place, _MAIN.format(arguments=json.dumps(words)))


def imports_of(place: Place, imported: Imported) -> Cost:
    """Of a process that only imports the same in the same way."""
    cost, _ = _told(place, _IMPORT.format(names=imported.modules, threshold=imported.threshold))
    return cost


def first_words(place: Place, *words: str) -> Cost:
    """Until a letter is on a terminal; the command is then ended. Its CPU time isn't known."""
    ours, theirs = pty.openpty()
    begun, seen = time.monotonic(), b""
    with subprocess.Popen(
        [sys.executable, "-m", "upgrader", *words],
        cwd=place.folder,
        env=place.environment({}),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        try:
            while not any(character.isalpha() for character in seen.replace(b"\x1b[K", b"").decode(errors="replace")):
                if not select.select([ours], [], [], _SECONDS)[0]:
                    raise TimeoutError(f"upgrader {' '.join(words)}: nothing on the screen after {_SECONDS:.0f} s")
                seen += os.read(ours, 4096)
            return Cost(0.0, time.monotonic() - begun)
        finally:
            process.kill()
            os.close(theirs)
            os.close(ours)


def _told(place: Place, program: str) -> tuple[Cost, Imported]:
    out = place.folder / "told.json"
    begun = time.monotonic()
    command = [sys.executable, "-c", program + _TELL.format(out=repr(str(out)))]
    environment = place.environment({})
    subprocess.run(command, cwd=place.folder, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=_SECONDS)
    wall = time.monotonic() - begun
    cpu, modules, threshold = json.loads(out.read_text())
    return Cost(cpu, wall), Imported(tuple(modules), threshold)
