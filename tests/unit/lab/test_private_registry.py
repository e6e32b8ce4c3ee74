"""The registry of a lab whose images need a login."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path

import bcrypt
import pytest
import yaml

from upgrader.errors import LabError
from upgrader.lab.cluster_folder import write_values
from upgrader.lab.oci_archive import Image
from upgrader.lab.private_registry import login_files, login_secret, publish, published, registry_files, trust_files
from upgrader.lab.spec import LabSpec, Placement

_PLACEMENT = Placement(LabSpec("x", registry=True), 4, Path("/nowhere"))
_HOST = "registry.x.lab:5000"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The registry's certificate."""
    for name in ("registry.crt", "registry.key"):
        (tmp_path / name).write_text(name.upper())
    return tmp_path


def test_the_registry_serves_nobody_without_the_password(keys: Path) -> None:
    """It checks logins by a hash, speaks TLS alone, and its secrets are for root."""
    files = registry_files("hunter2", keys)
    config = yaml.safe_load(files["/etc/docker/registry/lab.yml"][0])
    assert config["auth"]["htpasswd"]["path"] == "/etc/docker/registry/htpasswd"
    assert set(config["http"]["tls"].values()) == {"/etc/docker/registry/tls.crt", "/etc/docker/registry/tls.key"}
    login, mode = files["/etc/docker/registry/htpasswd"]
    user, _, hashed = login.strip().partition(":")
    assert user == "lab"
    assert bcrypt.checkpw(b"hunter2", hashed.encode())
    assert mode == files["/etc/docker/registry/tls.key"][1] == 0o600


def test_a_machine_without_the_extra_is_told_what_to_install(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else needs the package: its absence is an error with a command, and no traceback."""
    monkeypatch.setitem(sys.modules, "bcrypt", None)
    with pytest.raises(LabError, match="bcrypt") as refused:
        registry_files("hunter2", keys)
    assert "upgrader[lab]" in refused.value.remedy


def test_nodes_trust_its_certificate_and_no_other_registrys() -> None:
    """containerd finds the lab's CA under the registry's own name."""
    files = trust_files(_PLACEMENT, "CA")
    assert set(files) == {f"/etc/containerd/certs.d/{_HOST}/{name}" for name in ("hosts.toml", "ca.crt")}
    assert f'server = "https://{_HOST}"' in files[f"/etc/containerd/certs.d/{_HOST}/hosts.toml"][0]


def test_nodes_log_in_for_all_their_pods(tmp_path: Path) -> None:
    """The kubelet has the login, as a static pod can't refer to a Secret; it is in a Secret, too. Every chart takes all
    its images from the registry.
    """
    ((path, (text, mode)),) = login_files(_PLACEMENT, "hunter2").items()
    assert (path, mode) == ("/var/lib/kubelet/config.json", 0o600)
    secret = json.loads(login_secret(_PLACEMENT, "hunter2"))
    assert secret["stringData"][".dockerconfigjson"] == text
    assert base64.b64decode(json.loads(text)["auths"][_HOST]["auth"]) == b"lab:hunter2"
    names = {name: f"{_HOST}/{name}:1" for name in ("haproxy", "coredns", "checkpointer")}
    write_values(Placement(_PLACEMENT.spec, 4, tmp_path), **names)
    values = {file.stem: yaml.safe_load(file.read_text()) for file in (tmp_path / "values").iterdir()}
    for content in values.values():
        assert "imagePullSecrets" not in content
    assert values["kube-apiserver"]["image"] == {"repository": f"{_HOST}/kube-apiserver"}
    assert {values["kubernetes"][part]["image"]["repository"] for part in values["kubernetes"] if _image(part)} == {
        f"{_HOST}/{name}" for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy", "coredns")
    }


def _image(part: str) -> bool:
    return part in ("controllerManager", "scheduler", "kubeProxy", "coredns")


def test_a_published_image_is_stored_as_the_registry_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tag → manifest → configuration and layers, each blob under its own digest; publishing again changes nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    layer = tmp_path / "layer"
    layer.write_bytes(b"LAYER")
    image = published(Image("registry.k8s.io/coredns/coredns:v1", (layer,)), _PLACEMENT)
    assert image.name == f"{_HOST}/coredns/coredns:v1"
    for _ in range(2):
        publish([image], tmp_path)
    root = tmp_path / "containerd/docker/registry/v2"
    tag = root / "repositories/coredns/coredns/_manifests/tags/v1/current/link"
    manifest = json.loads(_blob(root, tag.read_text()))
    assert manifest["mediaType"] == "application/vnd.oci.image.manifest.v1+json"
    assert _blob(root, manifest["layers"][0]["digest"]) == b"LAYER"
    assert json.loads(_blob(root, manifest["config"]["digest"]))["rootfs"]["diff_ids"] == [
        manifest["layers"][0]["digest"]
    ]
    linked = {file.read_text() for file in root.glob("repositories/coredns/coredns/_layers/sha256/*/link")}
    assert linked == {manifest["config"]["digest"], manifest["layers"][0]["digest"]}


def _blob(root: Path, name: str) -> bytes:
    value = name.removeprefix("sha256:")
    content = (root / "blobs/sha256" / value[:2] / value / "data").read_bytes()
    assert hashlib.sha256(content).hexdigest() == value
    return content
