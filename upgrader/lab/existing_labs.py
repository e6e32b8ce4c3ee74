"""The labs on this machine: one folder each under /var/lib/upgrader-lab.

A lab's folder is written before anything else of it, so that `lab down` knows the names of all its parts, even after
an interrupted `lab up`.
"""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path

from upgrader.errors import LabError
from upgrader.lab.build_cache import remove_tree
from upgrader.lab.spec import MAX_LABS, LabSpec, Placement

__all__ = [
    "any_lab",
    "claim",
    "exclusive",
    "find",
    "is_complete",
    "is_filled",
    "lab_dir",
    "labs",
    "labs_root",
    "locked",
    "remove_root",
    "set_complete",
    "set_filled",
    "write_atomically",
]

_ROOT = Path("/var/lib/upgrader-lab")


def labs_root() -> Path:
    """The folder of all labs' folders."""
    return _ROOT


def lab_dir(name: str) -> Path:
    """The folder of the files of a lab's nodes."""
    return _ROOT / name


def labs() -> list[Placement]:
    """Every lab on this machine, running or not, by name. Raises LabError for one of another version of upgrader, and
    for one that this user may not read.
    """
    return [_read(file) for file in sorted(_ROOT.glob("*/lab.json"))]


def any_lab() -> bool:
    """Whether there is a lab on this machine, of whatever version of upgrader."""
    return any(_ROOT.glob("*/lab.json"))


def find(name: str) -> Placement | None:
    """The lab of that name, if there is one. Raises LabError as `labs` does."""
    file = lab_dir(name) / "lab.json"
    return _read(file) if file.exists() else None


def claim(spec: LabSpec, folder: Path) -> Placement:
    """Record a new lab, with the first index whose networks are free on this machine."""
    taken = {json.loads(file.read_text())["index"] for file in _ROOT.glob("*/lab.json")}
    in_use = _networks_in_use()
    for index in range(MAX_LABS):
        placement = Placement(spec, index, folder)
        network = ipaddress.ip_network(placement.network)
        if index not in taken and not any(network.overlaps(other) for other in in_use):
            target = lab_dir(spec.name)
            target.mkdir(parents=True, mode=0o711)
            value = {"spec": asdict(spec), "index": index, "folder": str(folder)}
            write_atomically(target / "lab.json", json.dumps(value, indent=2) + "\n", 0o600)  # another cluster's labels
            return placement
    raise LabError(
        "no network from 10.128.0.0/16 to 10.227.0.0/16 is free on this machine", remedy="`ip route` shows why"
    )


def remove_root() -> None:
    """Remove the folder of all labs' folders with its content: call it under the lock, when there is no lab."""
    for left in tuple(_ROOT.glob("*")):
        remove_tree(left)
    # A mount point, such as a tmpfs, stays mounted.
    if _ROOT.exists() and not _ROOT.is_mount():
        _ROOT.rmdir()


@contextmanager
def locked() -> Iterator[None]:
    """Hold the machine-wide lock for adding and removing labs (allocation only: seconds, not a whole `up`)."""
    with _flock(_ROOT.parent, fcntl.LOCK_EX):
        yield


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold an existing lab, so that no other process changes it meanwhile; LabError if another one holds it."""
    try:
        with _flock(lab_dir(name), fcntl.LOCK_EX | fcntl.LOCK_NB):
            yield
    except BlockingIOError as error:
        raise LabError(
            f"another `upgrader lab` process is creating or removing lab {name}",
            remedy="wait for it, or stop it with Ctrl-C: it then removes what it has created",
        ) from error


def is_complete(name: str) -> bool:
    """Whether `lab up` completed for this lab."""
    return (lab_dir(name) / "complete").exists()


def set_complete(name: str) -> None:
    """Record that `lab up` completed."""
    (lab_dir(name) / "complete").touch()


def is_filled(name: str) -> bool:
    """Whether this lab got what another cluster has."""
    return (lab_dir(name) / "filled").exists()


def set_filled(name: str) -> None:
    """Record that it did."""
    (lab_dir(name) / "filled").touch()


@contextmanager
def _flock(folder: Path, how: int) -> Iterator[None]:
    """Lock a folder itself: this leaves no lock file behind, and the kernel unlocks it however the holder ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def write_atomically(file: Path, text: str, mode: int = 0o644) -> None:
    """Write a file atomically, with `mode` from the first byte."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.rename(file)


def _read(file: Path) -> Placement:
    try:
        value = json.loads(file.read_text())
    except PermissionError as error:
        raise LabError(
            f"lab {file.parent.name} can't be read: it belongs to root", remedy="Use labs as root."
        ) from error
    unknown = value["spec"].keys() - {option.name for option in fields(LabSpec)}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise LabError(
            f"lab {file.parent.name} has options that this version of upgrader doesn't know: {names}",
            remedy="use or remove the lab with the version of upgrader that created it",
        )
    return Placement(LabSpec(**value["spec"]), value["index"], Path(value["folder"]))


def _networks_in_use() -> list[ipaddress.IPv4Network]:
    """Destinations of the machine's routes, without the default route."""
    routes = subprocess.run(["ip", "-j", "-4", "route"], capture_output=True, text=True, check=True).stdout
    destinations = [route["dst"] for route in json.loads(routes or "[]")]
    return [ipaddress.IPv4Network(dst, strict=False) for dst in destinations if dst != "default"]
