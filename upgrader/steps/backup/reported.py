"""Whether the API has what runs on the controllers: after a restore, it has what ran when the backup was taken."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.gates.kubernetes_kinds import PODS
from upgrader.model.workload import Pod
from upgrader.onhost.node.disk_layout import KUBE_APISERVER
from upgrader.onhost.sending.host_facts import Container as Running
from upgrader.onhost.sending.host_facts import HostFacts, Unknown
from upgrader.ports import Kube
from upgrader.recover.diagnosis.diagnose import Diagnosis

__all__ = ["unreported"]

_ROUNDED_SECONDS = 2.0
"""The API has whole seconds, the runtime has more."""


def unreported(kube: Kube, seen: Diagnosis) -> str:
    """What the kubelets still have to do or to report, one sentence; "" when nothing. Raises ApiError.

    Every container of the control plane was stopped, perhaps several times: a kubelet starts it again after 10, 20 or
    40 s, and a gate that sees it meanwhile calls it broken.
    """
    for controller in seen.controllers:
        name, facts = controller.host.name, controller.facts
        if facts is None or isinstance(facts.containers, Unknown):
            return f"{name}: its running pods are unknown"
        found = kube.list(PODS, KUBE_APISERVER.namespace, fields=f"spec.nodeName={name}")
        pods = {pod.uid: pod for pod in map(Pod.parse, found) if not pod.finished}
        still = next(_missing(facts, pods), "")
        if still:
            return f"{name}: {still}"
    return ""


def _missing(facts: HostFacts, pods: dict[str, Pod]) -> Iterator[str]:
    assert not isinstance(facts.containers, Unknown)
    own = [item for item in facts.containers if item.own and item.state == "running"]
    if not own:
        yield "the kubelet has not started the kube-apiserver pod yet"
    for running in own:
        if not _has(pods.get(running.uid), running):
            yield f"the kubelet has not yet reported pod {running.pod} as running"
    for pod in pods.values():
        for item in pod.containers:
            if not item.init and (item.terminated is not None or item.waiting_reason == "CrashLoopBackOff"):
                yield f"container {item.name} of pod {pod.name} was stopped; waiting for the kubelet to start it again"


def _has(pod: Pod | None, running: Running) -> bool:
    since = [item.running_since for item in (pod.containers if pod else ()) if item.name == running.name]
    started = (running.started or 0.0) - _ROUNDED_SECONDS
    return any(time is not None and time.timestamp() >= started for time in since)
