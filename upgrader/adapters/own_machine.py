"""The machine that upgrader runs on, behind `ports.OwnMachine`."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from upgrader.adapters.ssh_identities import is_public
from upgrader.ports import CommandResult

__all__ = ["ThisMachine"]

_SECONDS = 10.0


class ThisMachine:
    """`ports.OwnMachine`. Programs beside this Python take precedence, as for Helm and Ansible."""

    def answer(self, *command: str) -> CommandResult | None:
        program, *arguments = command
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
        found = shutil.which(program, path=path)
        if found is None:
            return None
        try:
            done = subprocess.run(
                [found, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def free_bytes(self, folder: Path) -> int | None:
        there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
        try:
            return shutil.disk_usage(there).free
        except OSError:
            return None

    def mode(self, file: Path) -> int | None:
        try:
            return stat.S_IMODE(file.stat().st_mode)
        except OSError:
            return None

    def ssh_refuses(self, key: Path) -> bool:
        try:
            found = key.stat()
        except OSError:
            return False
        # A key of somebody else, such as root's for a group of users, is theirs to guard (sshkey_perm_ok of OpenSSH).
        return found.st_uid == os.getuid() and bool(found.st_mode & 0o077) and not is_public(key)
