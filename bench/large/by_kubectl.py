"""The parts of a run that every node has a pod in, by kubectl alone: what Kubernetes itself takes for them."""

from __future__ import annotations

import time
from collections.abc import Mapping

from testkit.lab_cluster import LabCluster

__all__ = ["seconds_by_kubectl"]

_KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf --namespace kube-system"
_AN_IMAGE = f"$({_KUBECTL} get daemonset pod-checkpointer -o jsonpath='{{.spec.template.spec.containers[0].image}}')"
_WITHIN = "--timeout=1200s"
_EVERYWHERE = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: everywhere}
spec:
  selector: {matchLabels: {app: everywhere}}
  template:
    metadata: {labels: {app: everywhere}}
    spec:
      terminationGracePeriodSeconds: 0
      tolerations: [{operator: Exists}]
      containers: [{name: main, image: IMAGE, command: [python3, -c, import signal; signal.pause()]}]
"""


def seconds_by_kubectl(cluster: LabCluster) -> Mapping[str, float]:
    """Step of a run → seconds for the same without it.

    `images`: a DaemonSet with an image that is there, created, rolled out and deleted. `kubernetes`: kube-proxy,
    restarted and rolled out as its own update strategy says.
    """
    create = f"{_KUBECTL} create -f - <<END\n{_EVERYWHERE.replace('IMAGE', _AN_IMAGE)}END"
    return {
        "images": _timed(
            cluster,
            create,
            f"{_KUBECTL} rollout status daemonset/everywhere {_WITHIN}",
            f"{_KUBECTL} delete daemonset/everywhere --cascade=foreground {_WITHIN}",
        ),
        "kubernetes": _timed(
            cluster,
            f"{_KUBECTL} rollout restart daemonset/kube-proxy",
            f"{_KUBECTL} rollout status daemonset/kube-proxy {_WITHIN}",
        ),
    }


def _timed(cluster: LabCluster, *commands: str) -> float:
    begun = time.monotonic()
    cluster.on_controller("sh", "-ec", "\n".join(commands))
    return round(time.monotonic() - begun, 1)
