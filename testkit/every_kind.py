"""An object of every kind that an API server stores, and a digest of each, to prove that none is lost or changed."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from upgrader.ports import Kind, Kube

__all__ = ["LEFT_TO_CONTROLLERS", "digests", "stored_kinds", "write_every_kind"]

LEFT_TO_CONTROLLERS = ("Node", "APIService", "IPAddress", "CertificateSigningRequest", "Endpoints")
"""Kinds of which a running cluster has its own objects, and whose controllers remove unknown ones."""

_FILE = Path(__file__).with_name("every_kind.yaml")
_LABEL = "upgrader.test/every-kind"
_OF_CONTROLLERS = ("managedFields", "resourceVersion", "generation", "annotations", "finalizers", "uid")
"""Metadata that controllers, or a write without any change, may touch."""


def stored_kinds(kube: Kube) -> Mapping[str, Kind]:
    """Every kind that can be created and listed, by its name, in the version that the server prefers.

    Except the kinds of the test's own CustomResourceDefinitions.
    """
    groups = [group for group in json.loads(kube.raw("/apis"))["groups"] if not group["name"].endswith(".example")]
    versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]
    found: dict[str, Kind] = {}
    for version in versions:
        path = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        for item in json.loads(kube.raw(path))["resources"]:
            if {"create", "list"} <= set(item["verbs"]) and "/" not in item["name"]:
                # Events are one kind in two groups.
                found.setdefault(item["kind"], Kind(version, item["name"], namespaced=item["namespaced"]))
    return found


def write_every_kind(kube: Kube, name: str, *, leave_out: Collection[str] = ()) -> int:
    """Create one of each, all with this name; returns how many. Raises ApiError, and KeyError for a kind that isn't
    served.
    """
    kinds = stored_kinds(kube)
    written = 0
    for manifest in _manifests(name):
        if manifest["kind"] not in leave_out:
            manifest["metadata"].setdefault("labels", {})[_LABEL] = name
            kube.create(kinds[manifest["kind"]], manifest, manifest["metadata"].get("namespace", ""))
            written += 1
    return written


def digests(kube: Kube, *names: str) -> Mapping[str, str]:
    """Each object with one of these names: `Kind namespace/name` → SHA-256 of what was written, without status and the
    like.
    """
    found = {}
    for what, kind in stored_kinds(kube).items():
        for item in kube.list(kind, labels=f"{_LABEL} in ({','.join(names)})"):
            meta = item["metadata"]
            found[f"{what} {meta.get('namespace', '')}/{meta['name']}"] = _digest(item)
    return found


def _digest(item: Mapping[str, Any]) -> str:
    meta = {key: value for key, value in item["metadata"].items() if key not in _OF_CONTROLLERS}
    kept = {key: value for key, value in item.items() if key not in ("status", "metadata")}
    return hashlib.sha256(json.dumps({**kept, "metadata": meta}, sort_keys=True).encode()).hexdigest()


def _manifests(name: str) -> Iterator[dict[str, Any]]:
    address = f"203.0.113.{sum(name.encode()) % 254 + 1}"
    text = _FILE.read_text().replace("NAME", name).replace("ADDRESS", address)
    yield from (item for item in yaml.safe_load_all(text) if item)
    yield {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {"request": _request(), "signerName": "example.com/nobody", "usages": ["client auth"]},
    }


def _request() -> str:
    """A certificate request with a key of its own, as the API wants it: base64 of PEM."""
    command = ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", "/dev/null", "-subj", "/CN=nobody"]
    return base64.b64encode(subprocess.run(command, capture_output=True, check=True).stdout).decode()
