"""What labs there are on this machine: one folder each under /var/lib/upgrader-lab.

A lab's folder is written before anything else of it is made, so that whatever happens to `lab up`, a later
`lab down` knows the names of all that there may be.
"""

from __future__ import annotations

import fcntl
import ipaddress
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from upgrader.errors import LabError
from upgrader.lab.build_cache import remove_tree
from upgrader.lab.spec import MAX_LABS, LabSpec, Placement

__all__ = [
    "claim",
    "exclusive",
    "find",
    "is_complete",
    "lab_dir",
    "labs",
    "labs_root",
    "locked",
    "remove_root",
    "set_complete",
    "write_atomically",
]

_ROOT = Path("/var/lib/upgrader-lab")


def labs_root() -> Path:
    """The folder of all labs' folders."""
    return _ROOT


def lab_dir(name: str) -> Path:
    """Where the files of a lab's nodes are."""
    return _ROOT / name


def labs() -> list[Placement]:
    """Every lab on this machine, running or not, by name."""
    return [_read(file) for file in sorted(_ROOT.glob("*/lab.json"))]


def find(name: str) -> Placement | None:
    """The lab of that name, if there is one."""
    file = lab_dir(name) / "lab.json"
    return _read(file) if file.exists() else None


def claim(spec: LabSpec, folder: Path) -> Placement:
    """Write down a new lab, with the first index whose networks are free on this machine."""
    taken = {placement.index for placement in labs()}
    in_use = _networks_in_use()
    for index in range(MAX_LABS):
        placement = Placement(spec, index, folder)
        network = ipaddress.ip_network(placement.network)
        if index not in taken and not any(network.overlaps(other) for other in in_use):
            target = lab_dir(spec.name)
            target.mkdir(parents=True, mode=0o711)
            value = {"spec": asdict(spec), "index": index, "folder": str(folder)}
            write_atomically(target / "lab.json", json.dumps(value, indent=2) + "\n")
            return placement
    raise LabError(
        "no network from 10.128.0.0/16 to 10.227.0.0/16 is free on this machine", remedy="`ip route` shows why"
    )


def remove_root() -> None:
    """Remove the folder of all labs' folders with all that is in it: call it under the lock, when there is no lab."""
    for left in tuple(_ROOT.glob("*")):
        remove_tree(left)
    # A file system of its own, such as a tmpfs, is not ours to take away.
    if _ROOT.exists() and not _ROOT.is_mount():
        _ROOT.rmdir()


@contextmanager
def locked() -> Iterator[None]:
    """Hold the machine-wide lock under which labs come and go (allocation only: seconds, not a whole `up`)."""
    with _flock(_ROOT.parent, fcntl.LOCK_EX):
        yield


@contextmanager
def exclusive(name: str) -> Iterator[None]:
    """Hold a lab that exists, so that nobody else makes or removes it meanwhile; LabError if somebody does."""
    try:
        with _flock(lab_dir(name), fcntl.LOCK_EX | fcntl.LOCK_NB):
            yield
    except BlockingIOError as error:
        raise LabError(
            f"another `upgrader lab` makes or removes lab {name} at this moment",
            remedy="wait for it, or stop it with Ctrl-C: it then removes what it began",
        ) from error


def is_complete(name: str) -> bool:
    """Whether `lab up` once came to its end for this lab."""
    return (lab_dir(name) / "complete").exists()


def set_complete(name: str) -> None:
    """Write down that `lab up` came to its end."""
    (lab_dir(name) / "complete").touch()


@contextmanager
def _flock(folder: Path, how: int) -> Iterator[None]:
    """Lock a folder itself: no lock file to leave behind, and the kernel unlocks it however the holder ends."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def write_atomically(file: Path, text: str, mode: int = 0o644) -> None:
    """Write a file so that it is there whole or not at all, with `mode` from the first byte."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.rename(file)


def _read(file: Path) -> Placement:
    value = json.loads(file.read_text())
    return Placement(LabSpec(**value["spec"]), value["index"], Path(value["folder"]))


def _networks_in_use() -> list[ipaddress.IPv4Network]:
    """Destinations of the machine's routes, without the default route."""
    said = subprocess.run(["ip", "-j", "-4", "route"], capture_output=True, text=True, check=True).stdout
    destinations = [route["dst"] for route in json.loads(said or "[]")]
    return [ipaddress.IPv4Network(dst, strict=False) for dst in destinations if dst != "default"]
