"""`upgrader init --sudoers` and `--systemd`: files for machines, which an administrator puts in place."""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from upgrader.config.load import load_settings
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import UsageError
from upgrader.rendering import Templates

__all__ = ["MachineFiles", "check_units", "sudoers_rule"]

_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PLAIN = re.compile(r"[A-Za-z0-9/._-]+")
"""What a path or a name may have: sudo, systemd and the shell understand it alike."""


@dataclass(frozen=True)
class MachineFiles:
    """What can be written into the cluster's folder, and how it is put in place. Nothing was written."""

    texts: Mapping[Path, str]
    then: str

    @property
    def kept(self) -> tuple[Path, ...]:
        """Files that are there already, and stay as they are."""
        return tuple(path for path in self.texts if path.exists())

    @property
    def files(self) -> tuple[Path, ...]:
        """New files."""
        return tuple(path for path in self.texts if not path.exists())

    def write(self) -> None:
        """Write what isn't there yet. Raises OSError."""
        for path in self.files:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, self.texts[path].encode())


def sudoers_rule(folder: Path, user: str) -> MachineFiles:
    """What lets `user` do on controllers what upgrader does there. Raises UsageError for a user who needs no rule."""
    if user == "root":
        raise UsageError(
            "root needs no sudo", remedy="Pass the SSH user of the controllers: --sudoers --ssh-user USER."
        )
    if not _USER.fullmatch(user):
        raise UsageError(
            f"{user!r} can't be in a sudoers file: only a-z, 0-9, '_' and '-' are allowed",
            remedy="Pass another user with --ssh-user.",
        )
    file = folder / "sudoers"
    text = Templates.of_user(os.environ).render("machine/sudoers.j2", user=user)
    then = f"on each controller: visudo -cf {file.name} && install -m 0440 {file.name} /etc/sudoers.d/upgrader"
    return MachineFiles({file: text}, then)


def check_units(folder: Path, environ: Mapping[str, str]) -> MachineFiles:
    """A service that makes the checks of this folder as this user, and its timer. Raises UsageError and ConfigError."""
    observability = load_settings(folder, environ).observability
    name = folder.name.replace(".", "-")
    values = {
        "name": name,
        "folder": str(folder),
        "program": str(Path(sys.executable).parent / "upgrader"),
        "user": getpass.getuser(),
    }
    for what, value in values.items():
        if not _PLAIN.fullmatch(value):
            raise UsageError(
                f"{value!r} can't be in a systemd unit ({what})",
                remedy="Use only letters, digits, '/', '.', '_' and '-', which are safe in systemd and the shell.",
            )
    templates, metrics = Templates.of_user(environ), bool(observability.textfile_folder or observability.pushgateway)
    units = folder / "systemd"
    texts = {
        units / f"upgrader-check-{name}.{kind}": templates.render(f"machine/check.{kind}.j2", **values, metrics=metrics)
        for kind in ("service", "timer")
    }
    then = (
        f"install -m 0644 {units}/* /etc/systemd/system/ && systemctl daemon-reload && "
        f"systemctl enable --now upgrader-check-{name}.timer"
    )
    return MachineFiles(texts, then)
