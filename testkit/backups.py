"""What tests of backups share: keys, and the objects that a restore must bring back."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyrage

from testkit.lab_cluster import LabCluster
from upgrader.ports import Kind, Kube

__all__ = ["Keys", "backup_to", "flipped", "make_keys", "stored_objects"]

_KINDS = (
    Kind("v1", "configmaps"),
    Kind("v1", "secrets"),
    Kind("v1", "serviceaccounts"),
    Kind("v1", "services"),
    Kind("v1", "namespaces", namespaced=False),
    Kind("apps/v1", "daemonsets"),
    Kind("apps/v1", "deployments"),
    Kind("rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False),
    Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
    Kind("rbac.authorization.k8s.io/v1", "roles"),
    Kind("rbac.authorization.k8s.io/v1", "rolebindings"),
)

_CHANGING = ("upgrader.run.", "bootstrap-token-", "cluster-info")
"""Records of runs; and kubeadm's tokens, which expire, with the ConfigMap that they sign."""


@dataclass(frozen=True)
class Keys:
    """A key pair, and the private key of another one."""

    recipient: str
    identity: Path
    other: Path


def make_keys(folder: Path) -> Keys:
    """Key pairs as `age-keygen` makes them."""
    pairs = []
    for name in ("key.txt", "other.txt"):
        identity = pyrage.x25519.Identity.generate()
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w") as file:
            file.write(f"# public key: {identity.to_public()}\n{identity}\n")
        pairs.append((str(identity.to_public()), folder / name))
    return Keys(pairs[0][0], pairs[0][1], pairs[1][1])


def backup_to(cluster: LabCluster, folder: Path) -> Keys:
    """Have the cluster's backups written into `folder`/backups, for a new key pair, which is written there as well."""
    made = make_keys(folder)
    cluster.change_settings({"backup": {"recipients": [made.recipient], "folder": str(folder / "backups")}})
    return made


def flipped(backup: Path) -> Path:
    """A copy with one changed byte."""
    content = bytearray(backup.read_bytes())
    content[len(content) // 2] ^= 1
    path = backup.with_name("flipped.age")
    path.write_bytes(content)
    return path


def stored_objects(kube: Kube) -> Mapping[str, str]:
    """Object → a hash of everything that users wrote, without fields that change by themselves.

    The UID is included: an object that was deleted and recreated is another one.
    """
    found = {}
    for kind in _KINDS:
        for item in kube.list(kind):
            meta = item["metadata"]
            if meta["name"].startswith(_CHANGING):
                continue
            content = {key: value for key, value in item.items() if key not in ("metadata", "status")}
            encoded = json.dumps([meta["uid"], meta.get("labels"), content], sort_keys=True, default=str)
            name = f"{kind.plural}/{meta.get('namespace', '')}/{meta['name']}"
            found[name] = hashlib.sha256(encoded.encode()).hexdigest()
    return found
