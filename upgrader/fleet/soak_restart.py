"""Restarts a pod of the control plane in a soak: what was upgraded must also start again.

Only a pod that doesn't lead, of a Deployment whose other pods are all ready, by an eviction, as budgets allow. It is
chosen first, and evicted only once that is written down: repeated, the eviction of that UID changes nothing more.
"""

from __future__ import annotations

from pathlib import Path

from upgrader.app.wiring import open_api
from upgrader.errors import ApiError
from upgrader.fleet.at_work import works
from upgrader.fleet.clusters import answer_of, other_cluster
from upgrader.fleet.events import ChosenPod
from upgrader.fleet.model import FleetCluster
from upgrader.gates.kubernetes_kinds import LEASES, PODS, WORKLOADS
from upgrader.model.workload import Pod
from upgrader.ports import Kube

__all__ = ["Restart", "restart_pod", "restarted"]

_SECONDS = 5.0
_NAMESPACE = "kube-system"
_COMPONENTS = ("kube-scheduler", "kube-controller-manager")
_LEAST = 2
"""With fewer pods, a restart would be an outage."""
_NAME_CHARACTERS = 253
"""The most that a name has in Kubernetes, and far more than a UID has."""

Restart = ChosenPod | str
"""The pod that is to be evicted once it is written down; or why there is nothing more to do now, "": it was replaced by
one that is ready.
"""


def restart_pod(kubeconfig: Path, cluster: FleetCluster, chosen: ChosenPod | None, *, may_begin: bool) -> Restart:
    """The next step of a restart in the cluster that a kubeconfig leads to, if it is the inventory's, and no process
    may be changing it; unless it `may_begin`, nothing is chosen or evicted. Raises ApiError, and UsageError for a
    kubeconfig that is wrong.
    """
    with open_api(kubeconfig, _SECONDS) as kube:
        if why := other_cluster(answer_of(kube), cluster) or works(kube, cluster.folder):
            return f"no pod is restarted: {why}"
        return restarted(kube, chosen, may_begin=may_begin)


def restarted(kube: Kube, chosen: ChosenPod | None, *, may_begin: bool = True) -> Restart:
    """The same; `chosen` is the pod that was written down, None: none was."""
    if chosen is None:
        return _choose(kube)
    pods, replicas = _pods(kube, chosen.component)
    old = next((pod for pod in pods if pod.uid == chosen.uid), None)
    if old is None:
        ready, name = sum(pod.ready and not pod.deleting for pod in pods), f"{_NAMESPACE}/{chosen.component}"
        if replicas < _LEAST:  # it was deleted or scaled down: no pod has shown that it can start again
            return (
                f"Deployment {name} was deleted, or scaled to fewer than {_LEAST} replicas, after {chosen.pod} "
                "was chosen"
            )
        if replicas < chosen.replicas:  # it may have been removed for that, and none started in its place
            fewer = f"Deployment {name} was scaled from {chosen.replicas} to {replicas} after {chosen.pod} was chosen"
            return _choose(kube) if may_begin else f"{fewer}: no pod has shown that it can start again"
        said = f"Deployment {name} has {ready} of {replicas} ready pods"
        return "" if ready >= replicas else f"{said} since {chosen.pod} was evicted"
    if old.deleting:
        return f"pod {_NAMESPACE}/{chosen.pod}, which was evicted, is still terminating"
    if not may_begin:
        return f"pod {_NAMESPACE}/{old.name} is not evicted outside of the cluster's windows"
    if old not in _followers(kube, chosen.component)[0]:  # so it was not evicted yet
        return _choose(kube)
    try:
        kube.evict(old.name, _NAMESPACE, uid=old.uid)
    except ApiError as error:
        return f"pod {_NAMESPACE}/{old.name} can't be evicted: {error.message}"
    return f"pod {_NAMESPACE}/{old.name} was evicted"


def _choose(kube: Kube) -> Restart:
    for component in _COMPONENTS:
        found, replicas = _followers(kube, component)
        if found:
            first = min(found, key=lambda pod: pod.name)
            return ChosenPod(component, first.name, first.uid, replicas)
    return (
        f"neither {' nor '.join(_COMPONENTS)} has a pod that can be restarted: at least two pods must exist, all "
        "must be Ready, and one must not be the leader"
    )


def _followers(kube: Kube, component: str) -> tuple[tuple[Pod, ...], int]:
    """The pods of a component that may be evicted, and how many pods it has then."""
    pods, replicas = _pods(kube, component)
    holder = str(((kube.get(LEASES, component, _NAMESPACE) or {}).get("spec") or {}).get("holderIdentity") or "")
    host = holder.rpartition("_")[0]  # a pod's name, or on the host's network its node's
    whole = len(pods) == replicas >= _LEAST and all(pod.ready and not pod.deleting for pod in pods)
    leaders = [pod for pod in pods if host in (pod.name, pod.node)]
    # Both are written down as they are, in the journal of all clusters.
    named = all(len(text) <= _NAME_CHARACTERS for pod in pods for text in (pod.name, pod.uid))
    return tuple(pod for pod in pods if pod not in leaders) if whole and leaders and named else (), replicas


def _pods(kube: Kube, component: str) -> tuple[tuple[Pod, ...], int]:
    """The pods of its Deployment, and how many that wants."""
    deployment = kube.get(WORKLOADS["Deployment"], component, _NAMESPACE)
    if deployment is None:
        return (), 0
    found = map(Pod.parse, kube.list(PODS, _NAMESPACE, labels=f"app.kubernetes.io/name={component}"))
    mine = (pod for pod in found if pod.workload == f"Deployment {component}" and not pod.finished)
    return tuple(pod for pod in mine if not pod.is_checkpoint), int(deployment["spec"].get("replicas", 1))
