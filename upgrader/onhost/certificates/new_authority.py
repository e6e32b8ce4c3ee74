"""A new CA, created by the controller's own kubeadm in a folder that only root may enter, and its test clients.

The CA that it replaces is saved in the same form.
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
from http import HTTPStatus

from upgrader.contract.durable_files import sync_folder, write
from upgrader.onhost.certificates.bundles import certificates
from upgrader.onhost.certificates.renewed_by_kubeadm import fit
from upgrader.onhost.common.private_folder import make_private
from upgrader.onhost.common.questions import Failed
from upgrader.onhost.common.tls import get

__all__ = ["CLIENT", "accepted_by", "forget", "issue", "keep_old", "made", "make", "pair", "refused_by"]

CLIENT = "apiserver-kubelet-client"
"""kubeadm's name of a client certificate; one of the new CA tests which servers accept its clients."""
_ADDRESS = "192.0.2.1"
"""A documentation address: kubeadm requires an address of this host, used in no certificate here, or looks up a
route.
"""
_SOCKET = "unix:///var/run/containerd/containerd.sock"


def make(folder: str, settings: str, kubeadm: Callable[..., str]) -> str:
    """The new CA's certificate, as PEM; it is created if there is none. `settings`: the fields of a
    ClusterConfiguration that determine its form, as JSON. Raises Failed.
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
    """The certificate and the key of the CA kept there, as PEM. Raises Failed where there is none."""
    pem = made(folder)
    if not pem:
        raise Failed("the new CA's key is not on this controller")
    with open(_path(folder, "ca", "key"), encoding="ascii") as file:
        return pem, file.read()


def keep_old(folder: str, pem: str, pki: str) -> None:
    """Save a CA that is replaced, whose key is in a folder of certificates, until it is no longer trusted; and with it
    a client certificate, which tests which servers still trust it.
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
    """A client certificate of the CA kept there, and its key, as PEM; neither is written to a disk.

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
    """Those of these servers (`NAME ADDRESS PORT`) that don't accept a client of the CA kept there. One line each. A
    server that accepts the client may still forbid the request: only 401 means that the CA isn't trusted.
    """
    lines = []
    for where, status in _asked(folder, asked):
        if isinstance(status, Failed):
            lines.append(f"{where} did not answer: {status}")
        elif status == HTTPStatus.UNAUTHORIZED:
            lines.append(f"{where} does not trust the new CA yet")
    return lines


def accepted_by(folder: str, asked: Sequence[str]) -> list[str]:
    """Those of these servers that don't refuse a client of the CA kept there, or don't answer; as `refused_by`. None if
    there is no client certificate of it.
    """
    if not os.path.exists(_path(folder, CLIENT, "crt")):
        return []
    lines = []
    for where, status in _asked(folder, asked):
        if isinstance(status, Failed):
            lines.append(f"{where} did not answer: {status}")
        elif status != HTTPStatus.UNAUTHORIZED:
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
        raise Failed(f"kubeadm's settings can't be parsed: {settings!r}")
    return "\n---\n".join(json.dumps(each) for each in (node, {**settings, **own}))


def _path(folder: str, name: str, kind: str) -> str:
    return os.path.join(folder, f"{name}.{kind}")
