"""A file system whose folder answers and whose free space doesn't, as if its server were half down.

It implements the kernel's FUSE protocol for one empty folder: https://docs.kernel.org/filesystems/fuse.html
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testkit.waiting import stretched

__all__ = ["silent_disk"]

_REQUEST = struct.Struct("<IIQQIIII")
"""Length, operation, number, inode; then who asks."""
_ANSWER = struct.Struct("<IiQ")
"""Length, error, number."""
_INIT, _GETATTR, _STATFS = 26, 3, 17
_INITIALISED = struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 1, 1, 4096, 1, 0, 0, 0)
_FOLDER = struct.pack("<QII6Q10I", 0, 0, 0, *(1, 0, 0, 0, 0, 0), *(0, 0, 0, stat.S_IFDIR | 0o755, 2, 0, 0, 0, 4096, 0))


@contextmanager
def silent_disk(place: Path) -> Iterator[None]:
    """Mounted there, which needs root, until the end of the block."""
    place.mkdir(parents=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    try:
        _mount(place, device)
        serving = threading.Thread(target=_serve, args=(device,), daemon=True)
        serving.start()
        try:
            yield
        finally:
            subprocess.run(["umount", str(place)], check=True)
            serving.join(stretched(10))
    finally:
        os.close(device)


def _mount(place: Path, device: int) -> None:
    """Not with the command `mount`, which has no handle of the device."""
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"silent", str(place).encode(), b"fuse", 0, options):
        raise OSError(ctypes.get_errno(), "no file system can be mounted", str(place))


def _serve(device: int) -> None:
    while True:
        try:
            request = os.read(device, 1 << 16)
        except OSError as error:
            if error.errno == errno.ENODEV:  # it was unmounted
                return
            raise
        _, operation, number, *_ = _REQUEST.unpack_from(request)
        body = {_INIT: _INITIALISED, _GETATTR: _FOLDER}.get(operation)
        problem = 0 if body is not None else errno.EIO if operation == _STATFS else errno.ENOSYS
        os.write(device, _ANSWER.pack(_ANSWER.size + len(body or b""), -problem, number) + (body or b""))
