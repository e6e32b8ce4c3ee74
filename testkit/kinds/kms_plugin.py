"""Encryption at rest by a KMS v2 plugin, a static pod with its socket in a folder that kube-apiserver mounts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import yaml

from testkit.etcd_images import import_images
from testkit.kinds.static_pods import change_static_pod
from testkit.kinds.stored_secrets import stored_secret
from testkit.lab_cluster import LabCluster, until
from upgrader.lab.build_cache import built, cache_root, content_hash
from upgrader.lab.golang import Module, build_module, go_command
from upgrader.lab.oci_archive import Image, layer_of_files
from upgrader.lab.progress_port import Silent

__all__ = ["encrypt_by_a_plugin", "is_encrypted_by_the_plugin", "plugins_pod"]

_SOURCE = Path(__file__).parents[1] / "kms_plugin"
_MODULE = "v0.37.1"
_FOLDER = "/etc/kubernetes/kms"
_SOCKETS = "/run/kms"
_SOCKET = f"{_SOCKETS}/plugin.sock"
_KEY = "/etc/kms-plugin/key"
_MANIFEST = "/etc/kubernetes/manifests/kms-plugin.yaml"
_PREFIX = "k8s:enc:kms:v2:lab:"
_CONFIGURATION = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "EncryptionConfiguration",
    "resources": [
        {
            "resources": ["secrets"],
            "providers": [
                {"kms": {"apiVersion": "v2", "name": "lab", "endpoint": f"unix://{_SOCKET}", "timeout": "3s"}},
                {"identity": {}},
            ],
        }
    ],
}


def plugins_pod(image: str) -> str:
    """The manifest of the plugin's static pod."""
    folders = {"sockets": _SOCKETS, "key": _KEY.rpartition("/")[0]}
    container = {
        "name": "kms-plugin",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["/kms-plugin", _SOCKET, _KEY],
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in folders.items()],
    }
    volumes = [
        {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for name, path in folders.items()
    ]
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kms-plugin", "namespace": "kube-system"},
        "spec": {
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "containers": [container],
            "volumes": volumes,
        },
    }
    return yaml.safe_dump(pod, sort_keys=False)


def encrypt_by_a_plugin(cluster: LabCluster) -> None:
    """The plugin first, as kube-apiserver isn't ready without it."""
    image = _image()
    import_images(cluster.name, ["controller-1"], [image], cluster.home)
    cluster.on_controller(
        f"set -eu; umask 077; mkdir -p {_FOLDER} {_KEY.rpartition('/')[0]}; head -c 32 /dev/urandom >{_KEY}\n"
        f"cat >{_FOLDER}/encryption.yaml <<'END'\n{yaml.safe_dump(_CONFIGURATION)}END\n"
        f"cat >/root/kms-plugin.yaml <<'END'\n{plugins_pod(image.name)}END\n"
        f"mv /root/kms-plugin.yaml {_MANIFEST}"
    )
    asked = f"test -S {_SOCKET} && echo there || true"
    until("the plugin's socket", lambda: cluster.on_controller(asked) == "there\n", timeout_seconds=120)
    flags = {"encryption-provider-config": f"{_FOLDER}/encryption.yaml"}
    change_static_pod(cluster, "kube-apiserver", flags, _FOLDER, _SOCKETS)


def is_encrypted_by_the_plugin(cluster: LabCluster) -> None:
    """A new Secret can be read, and etcd stores it as the plugin encrypts it."""
    found = stored_secret(cluster, len(_PREFIX))
    assert found == _PREFIX, f"etcd has a new Secret as {found!r}…"


def _image() -> Image:
    module = Module("KMS plugin", "k8s.io/kms", _MODULE, {"kms-plugin": "."}, sources=_SOURCE)
    key = content_hash([_SOURCE], _MODULE)
    build = partial(_built, module)
    program = built(cache_root() / "go-programs" / f"kms-plugin-{key}", build) / "kms-plugin"
    layer = layer_of_files(f"kms-plugin-{key}", {"/kms-plugin": program})
    return Image(f"upgrader.lab/kms-plugin:{key}", (layer,), entrypoint=("/kms-plugin",))


def _built(module: Module, target: Path) -> None:
    build_module(module, target, go_command(Silent()), Silent())
