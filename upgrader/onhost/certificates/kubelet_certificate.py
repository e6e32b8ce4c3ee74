"""Replaces the client certificate of this host's kubelet, and restores the previous one.

The kubelet reads it at its start, and replaces the file itself months later. So it is restarted, and what was begun and
not completed is known from what is kept: ::

    FOLDER/point.json        `renewing` until the kubelet was restarted
"""

from __future__ import annotations

import os

from upgrader.contract.durable_files import rewrite
from upgrader.onhost.certificates.issued import client_file
from upgrader.onhost.certificates.kept_files import DONE, keep, mark, put_back, unfinished
from upgrader.onhost.certificates.kubelet_start import restart
from upgrader.onhost.certificates.renewed_by_kubeadm import fit
from upgrader.onhost.common.private_folder import make_private
from upgrader.onhost.common.questions import Failed

__all__ = ["put_in_place", "restored", "unread"]


def put_in_place(folder: str, renewal: str, kubelet_conf: str, pem: str, key: str) -> list[str]:
    """Make the kubelet use this certificate and key; returns the file. Raises Failed."""
    path = client_file(kubelet_conf)
    if not path:
        raise Failed(f"{kubelet_conf} refers to no file with the kubelet's certificate")
    real, both = os.path.realpath(path), (pem.rstrip() + "\n" + key.rstrip() + "\n").encode()
    beside = os.path.join(folder, "new.pem")
    make_private(folder)
    rewrite(beside, both)
    try:
        fit(beside, beside)
    except OSError as error:
        raise Failed(f"the new certificate for the kubelet can't be used: {error}") from error
    finally:
        os.unlink(beside)
    keep(folder, renewal, {"kubelet": [real]})
    rewrite(real, both)
    restart()
    mark(folder, DONE)
    return [path]


def restored(folder: str, renewal: str) -> list[str]:
    """Restore the previous one; returns the file, or nothing if that renewal has changed none. Raises Failed."""
    changed = put_back(folder, renewal)
    if changed:
        restart()
    return changed


def unread(folder: str) -> bool:
    """Whether a new one was installed, but the kubelet may not have been restarted."""
    return bool(unfinished(folder))
