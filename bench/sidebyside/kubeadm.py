"""kubeadm's own upgrade over SSH, as its documentation describes it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import yaml

from bench.recovery.measure import Site
from testkit.kubeadm import upgrade_command
from testkit.pushed_changes import BAD_FLAG
from upgrader.ports import Kind

__all__ = ["announced", "put_manifest_back", "upgrade_first", "upgrade_others", "want_bad_flag"]

_CONFIG_MAPS = Kind("v1", "configmaps")


def upgrade_first(site: Site, target: str, mark: Callable[[str], None], *, timeout_seconds: float = 900.0) -> int:
    """`kubeadm upgrade apply` on the first controller: its exit code, 124 if it was ended at the timeout."""
    command = upgrade_command("apply", target, "--yes", timeout_seconds=timeout_seconds)
    return _follow([*site.lab.ssh("controller-1"), command], mark)


def upgrade_others(site: Site, others: Sequence[str], mark: Callable[[str], None]) -> int:
    """`kubeadm upgrade node` on each other controller in turn; the first exit code that isn't 0, or 0."""
    for name in others:
        mark(name)
        code = _follow([*site.lab.ssh(name), upgrade_command("node")], mark)
        if code:
            return code
    return 0


def want_bad_flag(site: Site) -> None:
    """Put a flag that kube-apiserver doesn't know into kubeadm's configuration of the cluster."""
    found: Any = site.cluster.kube.get(_CONFIG_MAPS, "kubeadm-config", "kube-system")
    configuration = yaml.safe_load(found["data"]["ClusterConfiguration"])
    configuration["apiServer"].setdefault("extraArgs", []).append({"name": BAD_FLAG, "value": "true"})
    found["data"]["ClusterConfiguration"] = yaml.safe_dump(configuration)
    site.cluster.kube.replace(_CONFIG_MAPS, found, "kube-system")


def put_manifest_back(site: Site) -> None:
    """What an operator does: restore the manifest that kubeadm saved on the first controller."""
    kept = "$(ls -d /etc/kubernetes/tmp/kubeadm-backup-manifests-* | tail -n 1)"
    site.lab.run("controller-1", f"cp {kept}/kube-apiserver.yaml /etc/kubernetes/manifests/kube-apiserver.yaml")


def announced(line: str) -> str:
    """The component whose replacement a line of kubeadm's output announces; "" for any other line."""
    found = re.search(r'Preparing for "([\w-]+)" upgrade', line)
    return found[1] if found else ""


def _follow(command: Sequence[str], mark: Callable[[str], None]) -> int:
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        output = []
        for line in process.stdout:
            output.append(line)
            if component := announced(line):
                mark(component)
    if process.returncode not in (0, 124):
        print("".join(output[-15:]))
    return process.returncode
