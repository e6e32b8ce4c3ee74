"""A new CA, made by the controller's own kubeadm in a folder that only root may enter, and what it is asked with.

The one that it replaces is kept in the same form.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence

from upgrader.contract.durable_files import sync_folder, write
from upgrader.onhost.certificates.bundles import certificates
from upgrader.onhost.certificates.places import fit
from upgrader.onhost.common.private_folder import make_private
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.common.tls import get

__all__ = ["CLIENT", "accepted_by", "forget", "issue", "keep_old", "made", "make", "pair", "refused_by"]

CLIENT = "apiserver-kubelet-client"
"""kubeadm's name of a client's certificate: one of the new CA shows who accepts its clients."""
_ADDRESS = "192.0.2.1"
"""Nobody's: kubeadm wants an address of this host that no certificate here has, and might look for a route."""
_SOCKET = "unix:///var/run/containerd/containerd.sock"
_UNAUTHORIZED = 401


def make(folder: str, settings: str, kubeadm: Callable[..., str]) -> str:
    """The new CA's certificate, as PEM; it is made where there is none. `settings`: what of a ClusterConfiguration
    decides on its form, as JSON. Raises Failed.
    """
    if found := made(folder):
        return found
    stage = folder + ".new"
    shutil.rmtree(stage, ignore_errors=True)
    make_private(stage)
    try:
        config = os.path.join(stage, "kubeadm.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(_configuration(stage, json.loads(settings), kubeadm("version", "-o", "short").strip()))
        for phase in ("ca", CLIENT):
            kubeadm("init", "phase", "certs", phase, "--config", config)
        os.unlink(config)
        for name in ("ca", CLIENT):
            fit(_path(stage, name, "crt"), _path(stage, name, "key"))
        for name in os.listdir(stage):
            number = os.open(os.path.join(stage, name), os.O_RDONLY)
            os.fsync(number)
            os.close(number)
        sync_folder(stage)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(stage, folder)
        sync_folder(os.path.dirname(folder))
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return made(folder)


def made(folder: str) -> str:
    """The new CA's certificate, as PEM; "" where there is none."""
    try:
        with open(_path(folder, "ca", "crt"), encoding="ascii") as file:
            return certificates(file.read())[0]
    except (FileNotFoundError, IndexError):
        return ""


def pair(folder: str) -> tuple[str, str]:
    """The certificate and the key of the CA that is kept there, as PEM. Raises Failed where there is none."""
    pem = made(folder)
    if not pem:
        raise Failed("the new CA's key is not on this controller")
    with open(_path(folder, "ca", "key"), encoding="ascii") as file:
        return pem, file.read()


def keep_old(folder: str, pem: str, pki: str) -> None:
    """Keep a CA that is replaced, whose key is in a folder of certificates, until nobody trusts it any more; and with
    it a client's certificate, which shows who does.
    """
    if made(folder) == pem:
        return
    stage = folder + ".new"
    shutil.rmtree(stage, ignore_errors=True)
    make_private(stage)
    for name, kind in ((CLIENT, "crt"), (CLIENT, "key"), ("ca", "key")):
        if os.path.exists(_path(pki, name, kind)):
            with open(_path(pki, name, kind), "rb") as file:
                write(_path(stage, name, kind), file.read())
    write(_path(stage, "ca", "crt"), pem.encode())
    sync_folder(stage)
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(stage, folder)
    sync_folder(os.path.dirname(folder))


def issue(folder: str, settings: str, user: str, group: str, kubeadm: Callable[..., str]) -> tuple[str, str]:
    """A client's certificate of the CA that is kept there, and its key, as PEM; neither is written to a disk.

    Raises Failed.
    """
    pair(folder)
    # Nothing in it is a secret: kubeadm finds the key by the folder's name.
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=os.path.dirname(folder), encoding="utf-8") as config:
        config.write(_configuration(folder, json.loads(settings), kubeadm("version", "-o", "short").strip()))
        config.flush()
        words = ("kubeconfig", "user", "--config", config.name, "--org", group, "--client-name", user)
        printed = kubeadm(*words)
    found = [re.findall(rf"client-{kind}-data: *([A-Za-z0-9+/=]+)", printed) for kind in ("certificate", "key")]
    if [len(each) for each in found] != [1, 1]:
        raise Failed(f"kubeadm printed no certificate for {user}, and reported no error")
    certificate, key = (base64.b64decode(each[0]).decode("ascii") for each in found)
    return certificate, key


def forget(folder: str) -> None:
    """Remove the CA that is kept there, with its key."""
    shutil.rmtree(folder, ignore_errors=True)
    sync_folder(os.path.dirname(folder))


def refused_by(folder: str, asked: Sequence[str]) -> list[str]:
    """Who of these doesn't accept a client of the CA that is kept there; each is asked at `WHO ADDRESS PORT`. One line
    each.

    Whoever accepts it may still forbid what is asked for: only 401 says that the CA isn't trusted.
    """
    lines = []
    for where, status in _asked(folder, asked):
        if isinstance(status, Failed):
            lines.append(f"{where} can't be asked: {status}")
        elif status == _UNAUTHORIZED:
            lines.append(f"{where} doesn't trust the new CA yet")
    return lines


def accepted_by(folder: str, asked: Sequence[str]) -> list[str]:
    """Who of these doesn't refuse a client of the CA that is kept there, or can't be asked; as `refused_by`.

    Nobody where no client's certificate of it is there.
    """
    if not os.path.exists(_path(folder, CLIENT, "crt")):
        return []
    lines = []
    for where, status in _asked(folder, asked):
        if isinstance(status, Failed):
            lines.append(f"{where} can't be asked: {status}")
        elif status != _UNAUTHORIZED:
            lines.append(f"{where} still trusts the old CA")
    return lines


def _asked(folder: str, asked: Sequence[str]) -> Iterator[tuple[str, int | Failed]]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing of what is answered is believed but the status, and what is sent is no secret.
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.load_cert_chain(_path(folder, CLIENT, "crt"), _path(folder, CLIENT, "key"))
    for each in asked:
        who, address, port = each.split(" ")
        where = f"{who} at {address}:{port}"
        try:
            yield where, get(tls, address, int(port), address, "/healthz")[0]
        except Failed as error:
            yield where, error


def _configuration(stage: str, settings: object, version: str) -> str:
    api = "kubeadm.k8s.io/v1beta4"
    node = {
        "apiVersion": api,
        "kind": "InitConfiguration",
        "localAPIEndpoint": {"advertiseAddress": _ADDRESS},
        "nodeRegistration": {"criSocket": _SOCKET},
    }
    own = {"apiVersion": api, "kind": "ClusterConfiguration", "certificatesDir": stage, "kubernetesVersion": version}
    if not isinstance(settings, dict):
        raise Failed(f"kubeadm's settings can't be understood: {settings!r}")
    return "\n---\n".join(json.dumps(each) for each in (node, {**settings, **own}))


def _path(folder: str, name: str, kind: str) -> str:
    return os.path.join(folder, f"{name}.{kind}")
