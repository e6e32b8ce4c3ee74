"""Ansible action: send a program to a node in compressed form. It is verified and compressed once for all nodes of a
run; check mode only verifies it.

ssh's own compression is done again for each node, and takes as long as all the rest of the staging.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
import zlib
from collections.abc import Callable
from typing import Any

from ansible import constants  # type: ignore[import-untyped]
from ansible.errors import AnsibleActionFail  # type: ignore[import-untyped]
from ansible.plugins.action import ActionBase  # type: ignore[import-untyped]

_SECONDS = 300
"""How long a program may take to be verified and compressed, by this process or by the one for another node."""

_POLL_SECONDS = 0.1

_AT_ONCE = 1 << 20
"""Bytes."""

_LEVEL, _GZIP = 1, 31
"""Level 6 takes more than three times as long, for an eighth less."""


class ActionModule(ActionBase):  # type: ignore[misc] # Ansible has no types
    """What runs on the machine that runs Ansible; the module of the same name runs on the node."""

    _VALID_ARGS = frozenset(("src", "dest", "sha256"))

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send the program, and have the node unpack it."""
        super().run(tmp, task_vars)
        src, dest, sha256 = (self._task.args[name] for name in ("src", "dest", "sha256"))
        # Ansible's own temporary folder: private, one for all nodes of a run, and removed at its end.
        ours, deadline = constants.DEFAULT_LOCAL_TMP, time.monotonic() + _SECONDS
        try:
            verify(src, sha256, ours, deadline)
        except (OSError, ValueError) as error:
            raise _refused(error) from error
        if self._task.check_mode:
            return {"changed": False}
        try:
            packed = compressed(src, sha256, ours, deadline)
        except ValueError as error:
            raise _refused(error) from error
        except OSError as error:
            answer = self._copy(src, dest, task_vars)
            answer.setdefault("warnings", []).append(f"{src} is sent without compression: {error}")
            return answer
        return self._send(packed, dest, sha256, task_vars)

    def _send(self, packed: str, dest: str, sha256: str, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        shell = self._connection._shell
        folder = self._make_tmp_path()
        try:
            sent = shell.join_path(folder, "program.gz")
            self._transfer_file(packed, sent)
            self._fixup_perms2((folder, sent))
            arguments = {"src": sent, "dest": dest, "sha256": sha256}
            answer: dict[str, Any] = self._execute_module("staged_program", arguments, task_vars=task_vars)
            return answer
        finally:
            self._remove_tmp_path(shell.tmpdir)

    def _copy(self, src: str, dest: str, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Send the program as it is."""
        task = self._task.copy()
        task.args = {"src": src, "dest": dest, "owner": "root", "group": "root", "mode": "0700"}
        copy = self._shared_loader_obj.action_loader.get(
            "ansible.legacy.copy",
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        answer: dict[str, Any] = copy.run(task_vars=task_vars)
        return answer


def verify(src: str, sha256: str, folder: str, deadline: float) -> None:
    """Raises ValueError if there is no such program, or another one; OSError if it can't be read.

    Of processes that ask, the first reads it, and leaves the answer in `folder`. `deadline` is of `time.monotonic`: a
    process that would have to wait longer for it reads the program itself.
    """
    if not os.path.isfile(src):
        raise ValueError(f"{src} doesn't exist; it should have the SHA-256 {sha256}.")
    path = hashlib.sha256(os.fsencode(os.path.abspath(src))).hexdigest()
    try:
        known = _once(os.path.join(folder, f"program-{path}.sha256"), deadline, lambda to: _note_digest(src, to))
        with open(known) as file:
            found = file.read()
    except OSError:
        found = _digest(src)
    if found != sha256:
        raise _other(src, found, sha256)


def compressed(src: str, sha256: str, folder: str, deadline: float) -> str:
    """The path in `folder` of a program in gzip's format. Of processes that ask for one, the first compresses it.

    `deadline` is of `time.monotonic`. Raises OSError if it can't be compressed here, or not until then; ValueError if
    it is another program than the one with that SHA-256.
    """

    def make(to: str) -> None:
        _leave_room(src, folder)
        _compress(src, sha256, to, deadline)

    return _once(os.path.join(folder, f"program-{sha256}.gz"), deadline, make)


def _once(path: str, deadline: float, make: Callable[[str], None]) -> str:
    """The path of a file that the first of several processes makes."""
    with open(f"{path}.lock", "w") as lock:
        _wait_for(lock.fileno(), deadline)
        if not os.path.exists(path):
            try:
                make(f"{path}.part")
                os.rename(f"{path}.part", path)
            finally:
                if os.path.exists(f"{path}.part"):
                    os.unlink(f"{path}.part")
    return path


def _wait_for(lock: int, deadline: float) -> None:
    """Returns once no other process is at it. A lock ends with its process."""
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError("another process reads or compresses it, and takes too long") from None
            time.sleep(_POLL_SECONDS)


def _note_digest(src: str, to: str) -> None:
    with open(to, "w") as file:
        file.write(_digest(src))


def _digest(src: str) -> str:
    digest = hashlib.sha256()
    with open(src, "rb") as program:
        for block in iter(lambda: program.read(_AT_ONCE), b""):
            digest.update(block)
    return digest.hexdigest()


def _refused(error: Exception) -> Exception:
    refused: Exception = AnsibleActionFail(f"{str(error).rstrip('.')}. No program of the node was changed.")
    return refused


def _other(src: str, found: str, sha256: str) -> ValueError:
    return ValueError(f"{src} has the SHA-256 {found} instead of {sha256}.")


def _leave_room(src: str, folder: str) -> None:
    """A full disk would end more than this task: as much as the program takes stays free at least."""
    size, free = os.path.getsize(src), shutil.disk_usage(folder).free
    if free < 2 * size:
        raise OSError(f"{folder} has {free >> 20} MiB of free space, and {2 * size >> 20} MiB are needed")


def _compress(src: str, sha256: str, to: str, deadline: float) -> None:
    digest, packer = hashlib.sha256(), zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    with open(src, "rb") as program, open(to, "wb") as file:
        for block in iter(lambda: program.read(_AT_ONCE), b""):
            if time.monotonic() > deadline:
                raise TimeoutError("its compression takes too long")
            digest.update(block)
            file.write(packer.compress(block))
        file.write(packer.flush())
    if digest.hexdigest() != sha256:
        raise _other(src, digest.hexdigest(), sha256)
