"""Commands on a controller for the certificates that its kubeadm renews."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from upgrader.onhost.certificates.kept_files import mend, put_back
from upgrader.onhost.certificates.served import served
from upgrader.onhost.certificates.staged import check_inside, forget_copy, kubeadm, renew, run_in_namespace
from upgrader.onhost.common.private_folder import locked
from upgrader.onhost.common.questions import Failed

__all__ = ["BUSY", "FOLDER", "KUBERNETES", "WAIT_SECONDS", "answer", "main"]

KUBERNETES = "/etc/kubernetes"
FOLDER = "/var/lib/upgrader/certificates"
WAIT_SECONDS = 60.0
BUSY = "another renewal of this controller's certificates is running"


def look(certificates: str) -> dict[str, Any]:
    """The certificates that kubeadm manages here, in its own output format. Read-only."""
    check_inside(KUBERNETES, certificates)
    printed = kubeadm("certs", "check-expiration", "--cert-dir", certificates, "-o", "json")
    return {"kubeadm": printed[max(0, printed.find("{")) :]}


def mended() -> dict[str, Any]:
    """Restore the certificates that an interrupted renewal left unusable."""
    if not os.path.isdir(FOLDER):
        return {"changed": []}
    with locked(FOLDER, WAIT_SECONDS, BUSY):
        forget_copy(FOLDER)
        return {"changed": mend(FOLDER)}


def renewed(renewal: str, certificates: str, *names: str) -> dict[str, Any]:
    """Renew these."""
    with locked(FOLDER, WAIT_SECONDS, BUSY):
        mend(FOLDER)
        return {"changed": renew(FOLDER, renewal, KUBERNETES, certificates, names, run_in_namespace(KUBERNETES))}


def restored(renewal: str) -> dict[str, Any]:
    """Restore what that renewal changed."""
    with locked(FOLDER, WAIT_SECONDS, BUSY):
        return {"changed": put_back(FOLDER, renewal)}


_COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "look": look,
    "mend": mended,
    "renew": renewed,
    "put-back": restored,
    "served": served,
}


def main(command: str, *arguments: str) -> None:
    """Print the answer as JSON; `failed` is why there is none."""
    answer(_COMMANDS, command, *arguments)


def answer(commands: Mapping[str, Callable[..., dict[str, Any]]], command: str, *arguments: str) -> None:
    """Print what one of the commands answers, as JSON; `failed` is why it doesn't."""
    os.umask(0o077)
    try:
        found = commands[command](*arguments)
    except (Failed, OSError, ValueError) as error:
        found = {"failed": str(error)}
    sys.stdout.write(json.dumps(found) + "\n")
