"""Makes a host ready for a rehearsal: removes what an interrupted one left, and checks what this one needs."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.common.sudo_log import require_no_log
from upgrader.onhost.common.units import runs
from upgrader.onhost.rehearsal.abandoned import LEASE
from upgrader.onhost.rehearsal.containerd import ctr, said
from upgrader.onhost.rehearsal.room import require_disk, require_memory, require_no_swap

__all__ = ["unsuited"]

_PULL_SECONDS = 600.0
_STARTING_SECONDS = 60.0
_SYSTEMD = "/run/systemd/system"
_MIRRORS = "/etc/containerd/certs.d"
"""Where containerd's own pulls find the registries' mirrors, as its documentation has it."""


def main(given: str) -> None:
    """`given` is JSON: `place`, the folder of all rehearsals' folders; `units`, what the names of their units begin
    with; the `images`, and the `memory` and the disk space (`bytes`) that are needed; `sudo`: whether the data will
    pass through sudo.

    Pulls images that are missing. Prints why that `failed`: all that is missing at once, or {}.
    """
    asked = json.loads(given)
    answer = {}
    try:
        _remove_left(asked["place"], asked["units"])
        missing = list(_missing(asked)) or list(_without_image(asked["images"]))
        if missing:
            answer["failed"] = "; ".join(missing)
    except Failed as error:
        answer["failed"] = str(error)
    except OSError as error:
        answer["failed"] = f"{error.filename or asked['place']}: {error.strerror or error}"
    sys.stdout.write(json.dumps(answer) + "\n")


def _remove_left(place: str, units: str) -> None:
    """Folders without their unit, such as after a power cut. Another cluster's rehearsal may be running here."""
    for use in os.listdir(place) if os.path.isdir(place) else ():
        folder = os.path.join(place, use)
        # In this order: what has data by then has its unit.
        if not _starting(folder) and not runs(f"{units}{use}."):
            shutil.rmtree(folder)


def _starting(folder: str) -> bool:
    """Whether its unit may be about to start: it has no data before that."""
    return set(os.listdir(folder)) <= {LEASE} and time.time() - os.stat(folder).st_mtime < _STARTING_SECONDS


def unsuited() -> Iterator[str]:
    """Why no rehearsal can run here, whatever it is of: each reason."""
    if sys.platform != "linux":
        yield f"it runs {platform.system()} instead of Linux"
        return
    if os.geteuid():
        yield "upgrader is not root here, so it can't start a systemd unit with a private network"
    if not os.path.isdir(_SYSTEMD) or shutil.which("systemd-run") is None:
        yield "systemd does not run this host, or has no systemd-run"


def _missing(asked: dict[str, Any]) -> Iterator[str]:
    yield from unsuited()
    required: list[Callable[[], object]] = [
        partial(require_memory, asked["memory"]),
        require_no_swap,
        partial(require_disk, asked["place"], asked["bytes"]),
        _images,
    ]
    if asked["sudo"]:
        required.append(partial(require_no_log, "input"))
    for require in required:
        try:
            require()
        except Failed as error:
            yield str(error)


def _images() -> list[str]:
    done = ctr("list", "--quiet")
    if done.returncode:
        raise Failed(f"containerd does not answer: {said(done)}")
    return done.stdout.decode().split()


def _without_image(images: list[str]) -> Iterator[str]:
    there = _images()
    for image in images:
        if image in there:
            continue
        hosts = ("--hosts-dir", _MIRRORS) if os.path.isdir(_MIRRORS) else ()
        try:
            done = ctr("pull", *hosts, image, seconds=_PULL_SECONDS)
        except Failed as error:
            yield str(error)
            continue
        if done.returncode:
            yield f"image {image} is not on this host, and can't be pulled: {said(done)}"
