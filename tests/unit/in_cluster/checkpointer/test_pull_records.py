"""Whether the kubelet would let a static pod use an image, by its own records."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from upgrader.in_cluster.checkpointer.observation.pull_records import locked

ID = "sha256:aa"
NODE = {"nodePodsAccessible": True}
SECRET = {"kubernetesSecrets": [{"uid": "u", "namespace": "kube-system", "name": "login", "credentialHash": "x"}]}
ACCOUNT = {"kubernetesServiceAccounts": [{"uid": "u", "namespace": "kube-system", "name": "default"}]}


def record(folder: Path, content: object) -> None:
    """What the kubelet noted of the image."""
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / f"sha256-{hashlib.sha256(ID.encode()).hexdigest()}").write_text(text)


@pytest.mark.parametrize(
    ("image", "key"),
    [
        ("registry.example:5000/team/app:v1", "registry.example:5000/team/app"),
        ("app", "app"),
        ("registry.example:5000/app", "registry.example:5000/app"),
        ("r/app:v1@sha256:bb", "r/app"),
    ],
)
def test_credentials_are_recorded_by_repository(tmp_path: Path, image: str, key: str) -> None:
    """An image that was pulled as every pod of the node may is free, one that needed a pod's credentials isn't."""
    record(tmp_path, {"credentialMapping": {key: NODE}})
    assert locked(tmp_path, image, ID) == ""
    for credentials in (SECRET, ACCOUNT):
        record(tmp_path, {"credentialMapping": {key: credentials}})
        why = locked(tmp_path, image, ID)
        assert image in why and "give the node credentials" in why


def test_an_image_that_the_kubelet_did_not_pull_is_free(tmp_path: Path) -> None:
    """Of a preloaded one there is no record, nor any before Kubernetes 1.35."""
    assert locked(tmp_path / "none", "app:v1", ID) == ""


def test_the_same_image_by_another_name_is_verified(tmp_path: Path) -> None:
    """The kubelet knows that it pulled it, and not that this name needs no credentials."""
    record(tmp_path, {"credentialMapping": {"public/app": NODE}})
    assert "private/app:v1" in locked(tmp_path, "private/app:v1", ID)


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_record_that_can_not_be_read(tmp_path: Path, content: str) -> None:
    """The kubelet then asks for credentials as well: unknown is not fine."""
    record(tmp_path, content)
    assert "can't be read" in locked(tmp_path, "app:v1", ID)
