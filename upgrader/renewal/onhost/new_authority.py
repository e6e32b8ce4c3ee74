"""A new CA, made by the controller's own kubeadm in a folder that only root may enter, and what it is asked with."""

from __future__ import annotations

import json
import os
import shutil
import ssl
from collections.abc import Callable, Sequence

from upgrader.recover.onhost.durable_files import sync
from upgrader.recover.onhost.private_folder import make_private
from upgrader.recover.onhost.questions import Failed
from upgrader.recover.onhost.tls import get
from upgrader.renewal.onhost.bundles import certificates
from upgrader.renewal.onhost.places import fit

__all__ = ["CLIENT", "forget", "made", "make", "refused_by"]

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
        sync(stage)
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(stage, folder)
        sync(os.path.dirname(folder))
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


def forget(folder: str) -> None:
    """Remove the new CA, with its key."""
    shutil.rmtree(folder, ignore_errors=True)
    sync(os.path.dirname(folder))


def refused_by(folder: str, asked: Sequence[str]) -> list[str]:
    """Who of these doesn't accept a client of the new CA; each is asked at `WHO ADDRESS PORT`. One line each.

    Whoever accepts it may still forbid what is asked for: only 401 says that the CA isn't trusted.
    """
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Nothing of what is answered is believed but the status, and what is sent is no secret.
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    tls.load_cert_chain(_path(folder, CLIENT, "crt"), _path(folder, CLIENT, "key"))
    lines = []
    for each in asked:
        who, address, port = each.split(" ")
        try:
            status, _ = get(tls, address, int(port), address, "/healthz")
        except Failed as error:
            lines.append(f"{who} can't be asked: {error}")
            continue
        if status == _UNAUTHORIZED:
            lines.append(f"{who} at {address}:{port} doesn't trust the new CA yet")
    return lines


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
