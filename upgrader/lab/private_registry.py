"""The registry of a lab whose images need a login: Debian's docker-registry on its own node, with the lab's CA.

It is read-only: images are written into its storage on this machine (`publish`), as hard links to the cached layers.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import yaml

from upgrader.errors import LabError
from upgrader.lab.debian import package_files
from upgrader.lab.oci_archive import Image, digest, digest_of, documents
from upgrader.lab.progress_port import LabProgress
from upgrader.lab.spec import Placement

__all__ = [
    "CERTIFICATES",
    "PULL_SECRET",
    "login_files",
    "login_secret",
    "publish",
    "published",
    "registry_files",
    "registry_program",
    "trust_files",
]

CERTIFICATES = "/etc/containerd/certs.d"
"""Where containerd finds the CA of each registry."""
PULL_SECRET = "registry-login"  # noqa: S105 - its name
"""The Secret in kube-system with which pods can pull, as one of their `imagePullSecrets`."""
NODE_LOGIN = "/var/lib/kubelet/config.json"
"""Where the kubelet reads the credentials that all pods of its node can use."""

_USER = "lab"
_CONFIG = "/etc/docker/registry"
_STORAGE = "/var/lib/containerd"
"""In the registry's node. No containerd runs there, and a lab's snapshots keep this folder as hard links."""


def registry_program(progress: LabProgress) -> Path:
    """An overlay folder with /usr/bin/docker-registry."""
    return package_files("docker-registry", ["usr/bin/docker-registry"], progress)


def registry_files(password: str, keys: Path) -> dict[str, tuple[str, int]]:
    """Files of the registry's node; `keys` contains its certificate. Raises LabError without the extra `lab`."""
    try:
        import bcrypt  # not at the top: it comes with `upgrader[lab]` alone
    except ImportError as error:
        raise LabError(
            "a lab with a registry needs the Python package bcrypt, which isn't installed",
            remedy="Install upgrader with what labs need: pip install 'upgrader[lab]'",
        ) from error

    config = {
        "version": 0.1,
        "log": {"level": "info", "formatter": "text"},
        "storage": {"filesystem": {"rootdirectory": _STORAGE}, "maintenance": {"readonly": {"enabled": True}}},
        "http": {"addr": ":5000", "tls": {"certificate": f"{_CONFIG}/tls.crt", "key": f"{_CONFIG}/tls.key"}},
        "auth": {"htpasswd": {"realm": "lab", "path": f"{_CONFIG}/htpasswd"}},
    }
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(rounds=5)).decode()
    return {
        f"{_CONFIG}/lab.yml": (yaml.safe_dump(config, sort_keys=False), 0o644),
        f"{_CONFIG}/htpasswd": (f"{_USER}:{hashed}\n", 0o600),
        f"{_CONFIG}/tls.crt": ((keys / "registry.crt").read_text(), 0o644),
        f"{_CONFIG}/tls.key": ((keys / "registry.key").read_text(), 0o600),
    }


def trust_files(placement: Placement, ca: str) -> dict[str, tuple[str, int]]:
    """Files of a Kubernetes node, with which its containerd trusts the registry's certificate."""
    folder = f"{CERTIFICATES}/{placement.registry_host}"
    server = f"https://{placement.registry_host}"
    hosts = f'server = "{server}"\n\n[host."{server}"]\n  ca = "{folder}/ca.crt"\n'
    return {f"{folder}/hosts.toml": (hosts, 0o644), f"{folder}/ca.crt": (ca, 0o644)}


def login_files(placement: Placement, password: str) -> dict[str, tuple[str, int]]:
    """Files of a Kubernetes node, with which its kubelet pulls for every pod: static pods can't refer to a Secret."""
    return {NODE_LOGIN: (_login(placement, password), 0o600)}


def _login(placement: Placement, password: str) -> str:
    login = {"username": _USER, "password": password}
    login["auth"] = base64.b64encode(f"{_USER}:{password}".encode()).decode()
    return json.dumps({"auths": {placement.registry_host: login}})


def login_secret(placement: Placement, password: str) -> str:
    """The Secret with which pods in kube-system pull from the registry, as JSON."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": PULL_SECRET, "namespace": "kube-system"},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": _login(placement, password)},
    }
    return json.dumps(secret)


def published(image: Image, placement: Placement) -> Image:
    """The name of the same image in the registry: `HOST/a/b:1` for `registry.k8s.io/a/b:1`."""
    return replace(image, name=f"{placement.registry_host}/{image.name.partition('/')[2]}")


def publish(images: Iterable[Image], disk: Path) -> None:
    """Put images, named as by `published`, into the registry whose node has this `disk`; it may run meanwhile."""
    root = disk / "containerd" / "docker" / "registry" / "v2"
    for image in images:
        repository, _, tag = image.name.partition("/")[2].rpartition(":")
        folder = root / "repositories" / repository
        config, manifest = documents(image)
        for layer in image.layers:
            _link(layer, _blob(root, digest(layer)))
        for name in (digest_of(config), *map(digest, image.layers)):
            _refer(folder / "_layers", name)
        for document in (config, manifest):
            _write(_blob(root, digest_of(document)), document)
        _refer(folder / "_manifests" / "revisions", digest_of(manifest))
        _refer(folder / "_manifests" / "tags" / tag / "index", digest_of(manifest))
        _write(folder / "_manifests" / "tags" / tag / "current" / "link", digest_of(manifest).encode())


def _blob(root: Path, name: str) -> Path:
    kind, _, value = name.partition(":")
    return root / "blobs" / kind / value[:2] / value / "data"


def _refer(folder: Path, name: str) -> None:
    kind, _, value = name.partition(":")
    _write(folder / kind / value / "link", name.encode())


def _write(file: Path, content: bytes) -> None:
    """Renamed into place, as the registry may read it at the same time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.rename(file)


def _link(source: Path, target: Path) -> None:
    """A hard link, or a copy on another file system."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        os.link(source, temporary)
    except OSError:
        shutil.copyfile(source, temporary)
    temporary.rename(target)
