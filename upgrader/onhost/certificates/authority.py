"""Commands for the CAs that a node trusts, and on a controller for the new CA of a rotation."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

from upgrader.contract.durable_files import rewrite
from upgrader.onhost.certificates import kept_files, kubelet_certificate, new_authority, trust_files
from upgrader.onhost.certificates.bundles import certificates
from upgrader.onhost.certificates.controller import BUSY, FOLDER, KUBERNETES, WAIT_SECONDS, answer
from upgrader.onhost.certificates.issued import OF_THE_CA, issued
from upgrader.onhost.certificates.kubelet_start import is_late, restart
from upgrader.onhost.certificates.new_signer import SIGNING, NewSigner
from upgrader.onhost.certificates.renewed_by_kubeadm import fit
from upgrader.onhost.certificates.staged import forget_copy, kubeadm, renew, run_in_namespace
from upgrader.onhost.certificates.trust_files import Places
from upgrader.onhost.common.kubelet_file import configuration_file
from upgrader.onhost.common.private_folder import locked
from upgrader.onhost.common.questions import Failed

__all__ = ["SIGNING", "main", "sign", "signs"]

_NODES = "system:nodes"
_NEW, _OLD, _KEPT = (os.path.join(FOLDER, name) for name in ("new-ca", "old-ca", "trust"))
_CLIENT = os.path.join(FOLDER, "kubelet")


def look(folder: str) -> dict[str, Any]:
    """`files`, as `trust_files.read`; `signs`, PEM: the CA whose key is here; `made`, PEM: the new one that is kept
    here, `kept`: the old one; `signing`, PEM; `issued`, as `issued.issued`; `late`: why the kubelet must be restarted.
    "" where there is none. Changes nothing.
    """
    places = _places(folder)
    made, kept = new_authority.made(_NEW), new_authority.made(_OLD)
    late = "the kubelet has not read its kubeconfig since it changed" if is_late(places.kubelet_conf) else ""
    if not late and kubelet_certificate.unread(_CLIENT):
        late = "the kubelet might not have read its certificate since it changed"
    return {
        "files": trust_files.read(places),
        "signs": signs(folder),
        "made": made,
        "kept": kept,
        "signing": _signing(folder),
        "issued": issued(KUBERNETES, folder, [*_trusted(folder), made, kept]),
        "late": late,
    }


def make(settings: str) -> dict[str, Any]:
    """Create a new CA here."""
    with locked(FOLDER, WAIT_SECONDS, BUSY):
        return {"made": new_authority.make(_NEW, settings, kubeadm)}


def forget(folder: str = "") -> dict[str, Any]:
    """Remove the new CA; with `folder`, also the rest of a rotation: the old CA, its saved files, and the signing
    certificate's separate file there, which must no longer be in use.
    """
    path = os.path.join(folder, SIGNING)
    if folder and os.path.exists(path):
        os.unlink(path)
    if os.path.isdir(FOLDER):
        with locked(FOLDER, WAIT_SECONDS, BUSY):
            new_authority.forget(_NEW)
            if folder:
                kept_files.mend(FOLDER)
                kept_files.forget(FOLDER)
                shutil.rmtree(_CLIENT, ignore_errors=True)
                # The last: it says which of two CAs is the old one.
                new_authority.forget(_OLD)
    return {}


def key() -> dict[str, Any]:
    """The new CA kept here, with its key."""
    pem, text = new_authority.pair(_NEW)
    return {"pem": pem, "key": text}


def sign(folder: str, renewal: str, *given: str) -> dict[str, Any]:
    """Let the new CA sign here, and reissue the old one's certificates; `changed`: the paths. `given`: its certificate
    and key, if it isn't kept here. `renewal` identifies this for the undo.
    """
    places = _places(folder)
    with locked(FOLDER, WAIT_SECONDS, BUSY):
        forget_copy(FOLDER)
        kept_files.mend(FOLDER)
        pem, text = given if given else new_authority.pair(_NEW)
        now = signs(folder)
        if not now:
            raise Failed(f"the key of {folder}/ca.crt does not exist: an external CA signs")
        if now != certificates(pem)[0]:
            new_authority.keep_old(_OLD, now, folder)
        old = new_authority.made(_OLD)
        listed = issued(places.kubernetes, folder, [old] if old else [])
        names = [each["name"] for each in listed if each["name"] in OF_THE_CA and each["by"]]
        if not names and now == certificates(pem)[0] == _signing(folder):
            return {"changed": []}
        run = run_in_namespace(places.kubernetes)
        signer = NewSigner(certificates(pem)[0], text)
        return {"changed": renew(FOLDER, renewal, places.kubernetes, folder, names, run, signer)}


def issue(settings: str, node: str) -> dict[str, Any]:
    """`certificate` and `key` of a node's kubelet, issued by the new CA, which is kept here."""
    certificate, text = new_authority.issue(_NEW, settings, f"system:node:{node}", _NODES, kubeadm)
    return {"certificate": certificate, "key": text}


def kubelet(folder: str, renewal: str, certificate: str, text: str) -> dict[str, Any]:
    """Give the kubelet of this host this certificate and key, and restart it. `changed`: the file."""
    places = _places(folder)
    with locked(FOLDER, WAIT_SECONDS, BUSY):
        return {"changed": kubelet_certificate.put_in_place(_CLIENT, renewal, places.kubelet_conf, certificate, text)}


def kubelet_back(renewal: str) -> dict[str, Any]:
    """Restore the kubelet's previous certificate."""
    with locked(FOLDER, WAIT_SECONDS, BUSY):
        return {"changed": kubelet_certificate.restored(_CLIENT, renewal)}


def signing(folder: str) -> dict[str, Any]:
    """Write the signing CA's certificate to a separate file."""
    pem = signs(folder)
    if not pem:
        raise Failed(f"the key of {folder}/ca.crt does not exist: an external CA signs")
    if _signing(folder) != pem:
        path = os.path.join(folder, SIGNING)
        rewrite(path, pem.encode())
        os.chmod(path, 0o644)
    return {}


def trust(folder: str, old: str, pem: str) -> dict[str, Any]:
    """Also trust a CA (PEM) where that of fingerprint `old` is trusted; `changed`: the paths."""
    return _changed(folder, old, add=pem)


def distrust(folder: str, old: str, which: str) -> dict[str, Any]:
    """Stop trusting the CA of a fingerprint."""
    return _changed(folder, old, remove=which)


def refused(*asked: str) -> dict[str, Any]:
    """`lines`: servers that don't accept a client of the new CA, which is kept here."""
    return {"lines": new_authority.refused_by(_NEW, asked)}


def accepting(*asked: str) -> dict[str, Any]:
    """`lines`: servers that don't refuse a client of the old CA, which is kept here."""
    return {"lines": new_authority.accepted_by(_OLD, asked)}


def signs(folder: str) -> str:
    """The certificate in ca.crt whose key is ca.key, as PEM; "" if the key is elsewhere."""
    key = os.path.join(folder, "ca.key")
    if not os.path.exists(key):
        return ""
    for pem in _trusted(folder):
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
    places = Places(folder, KUBERNETES, configuration_file(""))
    if not os.path.exists(places.kubelet_conf):
        raise Failed(f"{places.kubelet_conf} does not exist: kubeadm did not set up this host's kubelet")
    return places


def _trusted(folder: str) -> list[str]:
    with open(os.path.join(folder, "ca.crt"), encoding="latin-1") as file:
        return certificates(file.read())


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
    "accepting": accepting,
    "key": key,
    "sign": sign,
    "issue": issue,
    "kubelet": kubelet,
    "kubelet-back": kubelet_back,
}


def main(command: str, *arguments: str) -> None:
    """Print the answer as JSON; `failed` is why there is none."""
    answer(_COMMANDS, command, *arguments)
