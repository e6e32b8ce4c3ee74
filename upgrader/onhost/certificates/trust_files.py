"""The files of a node that list trusted cluster CAs, and their content.

Files are written in place (`kept_files` explains why), except the kubelet's kubeconfig, which no pod mounts. A CA is
appended to the existing ones: after a power cut, a half-written file still has the old one. A kubeconfig's content is
saved until all files are written, and restored by the next command on the node.
"""

from __future__ import annotations

import os
import re
from typing import Any

from upgrader.contract.durable_files import rewrite
from upgrader.onhost.certificates.bundles import (
    added,
    certificates,
    fingerprint,
    in_kubeconfig,
    named_files,
    removed,
    trusted_by,
)
from upgrader.onhost.certificates.kept_files import DONE, forget, install, keep, mark, owner_of, put_back, unfinished

__all__ = ["Places", "change", "mend", "read"]

_AUTHORITY = "ca.crt"
_CLIENT_CA = re.compile(r"^\s*clientCAFile:\s*[\"']?([^\s\"']+)", re.MULTILINE)
_CHANGE, _POINT = "trust", "point.json"
_BYTES = "latin-1"
"""Has a character for each byte, so that the rest of a file stays unchanged."""


class Places:
    """Their paths on a node. `root` is for tests."""

    def __init__(self, certificates_folder: str, kubernetes: str, kubelet: str) -> None:
        """`certificates_folder` is kubeadm's, `kubernetes` that of its kubeconfigs, `kubelet` the kubelet's
        configuration."""
        self.pki, self.kubernetes, self.kubelet = certificates_folder, kubernetes, kubelet

    @property
    def authority(self) -> str:
        """The CA's own file."""
        return os.path.join(self.pki, _AUTHORITY)

    @property
    def kubelet_conf(self) -> str:
        """The kubelet's kubeconfig, which it reads at its start."""
        return os.path.join(self.kubernetes, "kubelet.conf")

    def kubeconfigs(self) -> list[str]:
        """Every kubeconfig in kubeadm's folder."""
        if not os.path.isdir(self.kubernetes):
            return []
        paths = (os.path.join(self.kubernetes, name) for name in sorted(os.listdir(self.kubernetes)))
        return [path for path in paths if path.endswith(".conf") and os.path.isfile(path)]

    def bundles(self) -> list[str]:
        """PEM files: the CA's own, the kubelet's client CA file, and those that kubeconfigs refer to."""
        found = [self.authority]
        if os.path.isfile(self.kubelet):
            found += _CLIENT_CA.findall(_text(self.kubelet))
        for path in self.kubeconfigs():
            found += [os.path.join(self.kubernetes, name) for name in named_files(_text(path))]
        return [path for path in dict.fromkeys(found) if os.path.isfile(path)]


def read(places: Places) -> list[dict[str, Any]]:
    """`path` and `trusts`, fingerprints, of each PEM file, and of each cluster with CA data in a kubeconfig."""
    found = [
        {"path": path, "trusts": [fingerprint(each) for each in certificates(_text(path))]} for path in places.bundles()
    ]
    for path in places.kubeconfigs():
        found += [{"path": path, "trusts": trusts} for trusts in trusted_by(_text(path))]
    return found


def change(folder: str, places: Places, *, old: str, add: str = "", remove: str = "") -> list[str]:
    """Where the CA of fingerprint `old` is trusted, add the one in `add` (PEM), or remove that of `remove`. Returns the
    paths that changed; all were saved in `folder` before, for `mend`.
    """

    def changed(text: str) -> str:
        if old not in [fingerprint(each) for each in certificates(text)]:
            return text
        return added(text, add) if add else removed(text, remove)

    mend(folder)
    wanted: dict[str, str] = {}
    for path in places.bundles():
        wanted[path] = changed(_text(path))
    for path in places.kubeconfigs():
        wanted[path] = in_kubeconfig(_text(path), changed)
    wanted = {path: text for path, text in wanted.items() if text != _text(path)}
    if not wanted:
        return []
    keep(folder, _CHANGE, {path: [path] for path in wanted})
    kubelet_conf = wanted.pop(places.kubelet_conf, None)
    install([(os.path.realpath(path), text.encode(_BYTES), owner_of(os.stat(path))) for path, text in wanted.items()])
    if kubelet_conf is not None:
        rewrite(os.path.realpath(places.kubelet_conf), kubelet_conf.encode(_BYTES))
    mark(folder, DONE)
    forget(folder)
    return [*wanted, *([places.kubelet_conf] if kubelet_conf is not None else [])]


def mend(folder: str) -> list[str]:
    """Restore files that an interrupted change has written, complete or not; returns the paths."""
    if not os.path.exists(os.path.join(folder, _POINT)):
        return []
    which = unfinished(folder)
    done = put_back(folder, which) if which else []
    forget(folder)
    return done


def _text(path: str) -> str:
    with open(path, encoding=_BYTES, newline="") as file:
        return file.read()
