"""What a node is asked, and told, about the CAs that it trusts; and a controller about the one that is to be new."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

from upgrader.recover.onhost.durable_files import replace
from upgrader.recover.onhost.private_folder import locked
from upgrader.recover.onhost.questions import Failed
from upgrader.renewal.onhost import new_authority, trust_files
from upgrader.renewal.onhost.bundles import certificates
from upgrader.renewal.onhost.controller import BUSY, FOLDER, KUBERNETES, WAIT_SECONDS, answer
from upgrader.renewal.onhost.kubelet_start import is_late, restart
from upgrader.renewal.onhost.places import fit
from upgrader.renewal.onhost.staged import kubeadm
from upgrader.renewal.onhost.trust_files import Places

__all__ = ["SIGNING", "main", "signs"]

SIGNING = "signing-ca.crt"
"""The certificate of the CA that signs, alone, beside `ca.crt`, which may then have several."""

_KUBELET = "/var/lib/kubelet/config.yaml"
_NEW, _KEPT = os.path.join(FOLDER, "new-ca"), os.path.join(FOLDER, "trust")


def look(folder: str) -> dict[str, Any]:
    """`files`, as `trust_files.read`; `signs`, PEM: the CA whose key is here; `made`, PEM: the new one that is kept
    here; `signing`, PEM; `late`: why the kubelet must be restarted. "" where there is none. Changes nothing.
    """
    places = _places(folder)
    return {
        "files": trust_files.read(places),
        "signs": signs(folder),
        "made": new_authority.made(_NEW),
        "signing": _signing(folder),
        "late": "its kubelet has not read its kubeconfig since it changed" if is_late(places.kubelet_conf) else "",
    }


def make(settings: str) -> dict[str, Any]:
    """Have a new CA here."""
    with locked(FOLDER, WAIT_SECONDS, BUSY):
        return {"made": new_authority.make(_NEW, settings, kubeadm)}


def forget(folder: str = "") -> dict[str, Any]:
    """Remove the new CA; of `folder`, the signing certificate's own file too, which nothing may read any more."""
    if os.path.isdir(FOLDER):
        with locked(FOLDER, WAIT_SECONDS, BUSY):
            new_authority.forget(_NEW)
    path = os.path.join(folder, SIGNING)
    if folder and os.path.exists(path):
        os.unlink(path)
    return {}


def signing(folder: str) -> dict[str, Any]:
    """Have the certificate of the CA that signs in a file of its own."""
    pem = signs(folder)
    if not pem:
        raise Failed(f"the key of {folder}/ca.crt is not there: an external CA signs")
    if _signing(folder) != pem:
        path = os.path.join(folder, SIGNING)
        replace(path, pem.encode())
        os.chmod(path, 0o644)
    return {}


def trust(folder: str, old: str, pem: str) -> dict[str, Any]:
    """Trust one CA more (PEM) where that of fingerprint `old` is trusted; `changed`: the paths."""
    return _changed(folder, old, add=pem)


def distrust(folder: str, old: str, which: str) -> dict[str, Any]:
    """Trust the CA of a fingerprint no more."""
    return _changed(folder, old, remove=which)


def refused(*asked: str) -> dict[str, Any]:
    """`lines`: who doesn't accept a client of the new CA, which is kept here."""
    return {"lines": new_authority.refused_by(_NEW, asked)}


def signs(folder: str) -> str:
    """The certificate in ca.crt whose key is ca.key, as PEM; "" where the key is elsewhere."""
    key = os.path.join(folder, "ca.key")
    if not os.path.exists(key):
        return ""
    with open(os.path.join(folder, "ca.crt"), encoding="latin-1") as file:
        found = certificates(file.read())
    for pem in found:
        with tempfile.NamedTemporaryFile("w", suffix=".crt") as alone:
            alone.write(pem)
            alone.flush()
            try:
                fit(alone.name, key)
            except OSError:
                continue
            return pem
    return ""


def _changed(folder: str, old: str, *, add: str = "", remove: str = "") -> dict[str, Any]:
    places = _places(folder)
    with locked(FOLDER, WAIT_SECONDS, BUSY):
        paths = trust_files.change(_KEPT, places, old=old, add=add, remove=remove)
        late = is_late(places.kubelet_conf)
        if late:
            restart()
    return {"changed": paths, "restarted": late}


def _places(folder: str) -> Places:
    places = Places(folder, KUBERNETES, _KUBELET)
    if not os.path.exists(places.kubelet_conf):
        raise Failed(f"{places.kubelet_conf} is not there: the kubelet of this host isn't kubeadm's")
    return places


def _signing(folder: str) -> str:
    try:
        with open(os.path.join(folder, SIGNING), encoding="latin-1") as file:
            found = certificates(file.read())
    except FileNotFoundError:
        return ""
    return found[0] if len(found) == 1 else ""


_COMMANDS: dict[str, Callable[..., dict[str, Any]]] = {
    "look": look,
    "make": make,
    "forget": forget,
    "signing": signing,
    "trust": trust,
    "distrust": distrust,
    "refused": refused,
}


def main(command: str, *arguments: str) -> None:
    """Print the answer as JSON; `failed` is why there is none."""
    answer(_COMMANDS, command, *arguments)
