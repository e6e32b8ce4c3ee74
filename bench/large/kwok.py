"""kwok, which plays the kubelets of nodes that have no machine: heartbeats, and pods that are Ready at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.large.objects import nodes
from testkit.command import REPOSITORY
from testkit.lab_cluster import LabCluster, until
from upgrader.lab.build_cache import built, cache_root
from upgrader.lab.golang import Module, build_module, go_command
from upgrader.lab.progress_port import Silent
from upgrader.ports import Kind

__all__ = ["fake_nodes"]

_VERSION = "v0.8.0"
_MODULE = Module("kwok", "sigs.k8s.io/kwok", _VERSION, {"kwok": "sigs.k8s.io/kwok/cmd/kwok"})
_MARK = {"kwok.x-k8s.io/node": "fake"}
_TAINT = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
"""What tolerates everything runs there, as kube-proxy does; CoreDNS and the gates' own pods need a machine."""
_LEASE_SECONDS = 40
"""As kubelets have it, which renew their Lease every 10 s."""
_NODES = Kind("v1", "nodes", namespaced=False)
_DAEMONSETS = Kind("apps/v1", "daemonsets")
_CONTROLLER = "controller-1"
_STAGES = Path(__file__).with_name("kwok-stages.yaml")
_READY_SECONDS = 900.0


@contextmanager
def fake_nodes(cluster: LabCluster, number: int, log: Path) -> Iterator[None]:
    """So many workers more, Ready and with their kube-proxy, while this lasts; then their Nodes are deleted."""
    program = built(cache_root() / "kwok" / _VERSION, _build) / "kwok"
    names = _create(cluster, number)
    selector = ",".join(f"{key}={value}" for key, value in _MARK.items())
    with log.open("wb") as out:
        command = [
            str(program),
            f"--config={_STAGES}",
            f"--kubeconfig={cluster.folder / 'kubeconfig'}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={selector}",
            f"--node-lease-duration-seconds={_LEASE_SECONDS}",
        ]
        process = subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            begun = time.monotonic()
            until(
                "kube-proxy on every node",
                lambda: process.poll() is not None or _proxies(cluster) > number,
                timeout_seconds=_READY_SECONDS,
            )
            _fail_if_ended(process, log)
            print(f"{number} nodes are Ready after {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
            yield
            _fail_if_ended(process, log)
        finally:
            process.terminate()
            process.wait()
            for name in names:
                cluster.kube.delete(_NODES, name)


def _fail_if_ended(process: subprocess.Popen[bytes], log: Path) -> None:
    if process.poll() is not None:
        raise RuntimeError(f"kwok ended with {process.returncode}: {log}")


def _build(target: Path) -> None:
    print("building kwok…", file=sys.stderr, flush=True)
    build_module(_MODULE, target, go_command(Silent()), Silent())


def _create(cluster: LabCluster, number: int) -> list[str]:
    """Through the API, so that every controller hears of them."""
    real: Any = cluster.kube.get(_NODES, _CONTROLLER)
    names = []
    for _, text in nodes(real, number):
        node = json.loads(text)
        metadata = node["metadata"]
        node["metadata"] = {"name": metadata["name"], "labels": metadata["labels"], "annotations": _MARK}
        # Without a podCIDR: kube-controller-manager does not start again where one is outside the cluster's range.
        node["spec"] = {"taints": [_TAINT]}
        node["status"]["conditions"] = []  # kwok makes a node Ready that isn't
        cluster.kube.create(_NODES, node)
        names.append(metadata["name"])
    return names


def _proxies(cluster: LabCluster) -> int:
    found = cluster.kube.get(_DAEMONSETS, "kube-proxy", "kube-system")
    return int(((found or {}).get("status") or {}).get("numberReady", 0))
