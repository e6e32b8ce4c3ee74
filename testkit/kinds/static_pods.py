"""Other flags and files for a component of kubeadm's control plane, in its static pod, and what its processes have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from testkit.lab_cluster import LabCluster, until

__all__ = ["change_static_pod", "changed_pod", "words_of"]

_MANIFESTS = "/etc/kubernetes/manifests"


def changed_pod(manifest: str, flags: Mapping[str, str | None], *folders: str) -> str:
    """A static pod's manifest with these flags in place of those of the same names; None: without it. `folders` of the
    controller are at the same paths in its container, read-only.
    """
    pod: dict[str, Any] = yaml.safe_load(manifest)
    spec = pod["spec"]
    (container,) = spec["containers"]
    kept = [word for word in container["command"] if _name(word) not in flags]
    more = [f"--{name}={value}" for name, value in flags.items() if value is not None]
    container["command"] = [*kept, *more]
    for folder in folders:
        name = folder.strip("/").replace("/", "-")
        spec["volumes"].append({"name": name, "hostPath": {"path": folder, "type": "DirectoryOrCreate"}})
        container["volumeMounts"].append({"name": name, "mountPath": folder, "readOnly": True})
    return yaml.safe_dump(pod, sort_keys=False)


def change_static_pod(cluster: LabCluster, component: str, flags: Mapping[str, str | None], *folders: str) -> None:
    """Change it on the controller as `changed_pod` does, and wait until the cluster is Ready with it."""
    path = f"{_MANIFESTS}/{component}.yaml"
    pod = changed_pod(cluster.on_controller("cat", path), flags, *folders)
    # Moved into place: the kubelet would read the half of a file.
    cluster.on_controller(f"set -e; cat >/root/{component}.yaml <<'END'\n{pod}END\nmv /root/{component}.yaml {path}")
    wanted = {f"--{name}={value}" for name, value in flags.items() if value is not None}
    until(
        f"{component} with its new flags",
        lambda: any(wanted <= words for words in words_of(cluster, component)),
        timeout_seconds=180,
    )
    until("the control plane to be Ready", lambda: not cluster.unready(), timeout_seconds=240)


def words_of(cluster: LabCluster, component: str) -> list[set[str]]:
    """The command lines of a component's processes on the controller; of one that ends just now, maybe none."""
    asked = f"for id in $(pidof {component}); do tr '\\0' '\\n' </proc/$id/cmdline && echo; done 2>/dev/null || true"
    return [set(found.split("\n")) - {""} for found in cluster.on_controller(asked).split("\n\n") if found.strip()]


def _name(word: str) -> str:
    return word.removeprefix("--").partition("=")[0]
