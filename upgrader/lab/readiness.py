"""Whether a lab's cluster works, judged by its nodes and the pods in kube-system in the API. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from upgrader.model.workload import Workload

__all__ = ["condition", "troubles", "unready"]


def troubles(nodes: Iterable[Any], pods: Iterable[Any], switched_on: Mapping[str, float]) -> list[str]:
    """What is not Ready, one line each; empty if everything is Ready.

    `switched_on` maps each expected node to when its machine was switched on, in seconds since the epoch. After a power
    cut the API reports the earlier state for a while, so containers older than their machine don't count.
    """
    found = []
    ready_nodes = {node["metadata"]["name"] for node in nodes if condition(node, "Ready") == "True"}
    found += [f"node {name}" for name in sorted(set(switched_on) - ready_nodes)]
    proxies: set[str] = set()
    dns = False
    for pod in pods:
        name, where = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
        if "deletionTimestamp" in pod["metadata"] or pod["status"].get("phase") == "Succeeded":
            continue
        if condition(pod, "Ready") != "True":
            found.append(f"pod {name}")
        elif _oldest_start(pod) + 1 < switched_on.get(where, 0):
            found.append(f"pod {name} (as it was before {where} was switched on)")
        elif name.startswith("kube-proxy-"):
            proxies.add(where)
        elif name.startswith("coredns-"):
            dns = True
    found += [f"kube-proxy on {name}" for name in sorted(set(switched_on) - proxies)]
    return found if dns else [*found, "CoreDNS"]


def condition(item: Any, kind: str) -> str:
    """True, False or Unknown; also Unknown if the API doesn't report it."""
    for entry in item["status"].get("conditions", []):
        if entry["type"] == kind:
            return str(entry["status"])
    return "Unknown"


def unready(workloads: Iterable[Any]) -> list[str]:
    """The workloads that don't have all their pods Ready."""
    found = [Workload.parse(item["kind"], item) for item in workloads]
    return [str(each.ref) for each in found if each.ready < each.desired or not each.observed]


def _oldest_start(pod: Any) -> float:
    """When the first of its running containers started; the API's times are whole seconds."""
    starts = [
        datetime.fromisoformat(status["state"]["running"]["startedAt"]).timestamp()
        for status in pod["status"].get("containerStatuses", [])
        if "running" in status.get("state", {})
    ]
    return min(starts, default=0.0)
