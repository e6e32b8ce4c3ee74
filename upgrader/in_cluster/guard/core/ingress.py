"""IngressDaemonSets: what one says, and where it contradicts itself."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.contract.detach import ATTACHED, DETACHED, DETACHMENT, Detachment

__all__ = [
    "DUE",
    "NODE_ANNOTATIONS",
    "IngressDaemonSet",
    "InvalidIngress",
    "noted",
    "of_note",
    "read",
    "refuse_foreign_keys",
]

DUE = "ingressdaemonsets.mumoshu.github.com/to-be-updated"
NODE_ANNOTATIONS = (DETACHMENT, DETACHED)
"""Annotations that guard may set on Nodes or remove for an IngressDaemonSet, unless guard's flags allow others."""
_NOTICED_SECONDS = 10.0
"""How long a load balancer has to notice that a health port fails, unless it is said."""
_AMOUNT = re.compile(r"[0-9]{1,9}%?")
# The document's spelling, the right one, and the original code's.
_UNAVAILABLE_PODS = ("maxUnavaiablePodsPerNode", "maxUnavailablePodsPerNode", "maxUnavailablePodsPerNodes")


class InvalidIngress(ValueError):
    """What is wrong with it."""


@dataclass(frozen=True)
class IngressDaemonSet:
    """One that is right. `most_nodes`: how many nodes are updated at a time; `whole_node`: all their pods at once.

    `due`: the annotation of a node's Deployment that says so beforehand, and fails the health port, which takes
    `due_grace` seconds to be noticed. `detachment`: how nodes are taken out of the load balancer; None if they aren't.
    """

    namespace: str
    name: str
    labels: Mapping[str, str]
    selector: Mapping[str, str]
    node_selector: Mapping[str, str]
    template: Mapping[str, Any]
    pods_per_node: int = 1
    ports: tuple[int, ...] = ()
    health_checker: Mapping[str, Any] | None = None
    most_nodes: int = 1
    whole_node: bool = False
    unavailable: int | str = 1
    surge: int | str = 0
    due: str = DUE
    due_grace: float = 0.0
    detachment: Detachment | None = None

    @property
    def noted(self) -> str:
        """How a run of the upgrader names it on its Lease, beside groups of StatefulSets (`NAMESPACE/GROUP`)."""
        return noted(self.namespace, self.name)


def noted(namespace: str, name: str) -> str:
    """The same of one that may be gone."""
    return f"{namespace}/IngressDaemonSet/{name}"


def of_note(text: str) -> tuple[str, str]:
    """Namespace and name from what `noted` makes; empty strings from anything else."""
    namespace, _, rest = text.partition("/")
    kind, _, name = rest.partition("/")
    return (namespace, name) if kind == "IngressDaemonSet" else ("", "")


def read(item: Mapping[str, Any]) -> IngressDaemonSet:
    """From the API's object; raises `InvalidIngress` with what contradicts what."""
    metadata, spec = _object(item, "metadata"), _object(item, "spec")
    template = _object(spec, "template")
    pod_labels = _labels(_object(template, "metadata"), "labels")
    selector = _labels(_object(spec, "selector"), "matchLabels") or pod_labels
    _check_pod(_object(template, "spec"))
    if not selector or any(pod_labels.get(key) != value for key, value in selector.items()):
        raise InvalidIngress("the selector doesn't select the template's own labels")
    rolling = _object(_object(spec, "updateStrategy"), "rollingUpdate")
    nodes, degraded = _number(rolling, "maxUnavailableNodes", 0), _number(rolling, "maxDegradedNodes", None)
    if nodes and degraded:
        raise InvalidIngress("only one of maxUnavailableNodes and maxDegradedNodes may be 1 or more")
    if nodes == 0 and degraded == 0:
        raise InvalidIngress("with maxUnavailableNodes and maxDegradedNodes of 0 no node is ever updated")
    spelt = {str(rolling[key]): rolling[key] for key in _UNAVAILABLE_PODS if rolling.get(key) is not None}
    if len(spelt) > 1:
        raise InvalidIngress(f"{' and '.join(spelt)} are two spellings of the same field, and have different values")
    due_key, _, due_grace = _annotation(rolling, "annotateDeploymentToDetach")
    ports, detachment = _ports(spec), _detachment(rolling)
    told = _object(rolling, "annotateDeploymentToDetach").get("gracePeriodSeconds") is not None
    if ports and detachment is None and not told:
        due_grace = _NOTICED_SECONDS
    return IngressDaemonSet(
        namespace=str(metadata.get("namespace", "")),
        name=str(metadata.get("name", "")),
        labels=_labels(metadata, "labels"),
        selector=selector,
        node_selector={
            **_labels(_object(template, "spec"), "nodeSelector"),
            **_labels(spec, "nodeSelector"),
        },
        template=template,
        pods_per_node=_number(spec, "podsPerNode", None) or _number(spec, "replicas", None) or 1,
        ports=ports,
        health_checker=spec.get("healthChecker"),
        most_nodes=nodes or degraded or 1,
        whole_node=bool(nodes),
        unavailable=_amount(next(iter(spelt.values()), 1), "maxUnavailablePodsPerNode"),
        surge=_amount(rolling.get("maxSurgedPodsPerNode") or 0, "maxSurgedPodsPerNode"),
        due=due_key or DUE,
        due_grace=due_grace,
        detachment=detachment,
    )


def refuse_foreign_keys(which: IngressDaemonSet, allowed: Collection[str]) -> None:
    """Raises `InvalidIngress` for annotations of Nodes that aren't `allowed`.

    Who may write an IngressDaemonSet has rights in a namespace, and guard has them on all Nodes: with any key, an
    address that the pods' network reads from a Node, or the upgrader's own mark, could be written by way of guard.
    """
    how = which.detachment
    asked = (("annotateNodeToDetach", how.key), ("waitForDetachmentByAnnotatedTimestamp", how.answer)) if how else ()
    for name, key in asked:
        if key and key not in allowed:
            told = ", ".join(sorted(allowed)) or "none"
            raise InvalidIngress(
                f"{name} has the key {key[:317]!r}, which guard is not allowed to set on Nodes (allowed: {told}); "
                "to allow it, set -ingress.node-annotation, or the chart's ingress.nodeAnnotations"
            )


def _detachment(rolling: Mapping[str, Any]) -> Detachment | None:
    key, value, grace = _annotation(rolling, "annotateNodeToDetach")
    waits = rolling.get("waitForDetachmentByAnnotatedTimestamp")
    if waits is None:
        return Detachment(key, value, grace, answer="", attached="") if key else None
    if not key:
        raise InvalidIngress("waitForDetachmentByAnnotatedTimestamp needs annotateNodeToDetach")
    if not isinstance(waits, dict):
        raise InvalidIngress("waitForDetachmentByAnnotatedTimestamp isn't an object")
    if waits.get("format") not in (None, "", "RFC3339"):
        raise InvalidIngress(f"the timestamp's format is {str(waits['format'])[:64]!r}, not RFC3339")
    answer = waits.get("key") or DETACHED
    if not isinstance(answer, str):
        raise InvalidIngress("waitForDetachmentByAnnotatedTimestamp.key isn't a string")
    attached = ATTACHED if answer == DETACHED else ""
    return Detachment(key, value, grace, answer, float(_number(waits, "gracePeriodSeconds", 0) or 0), attached)


def _annotation(rolling: Mapping[str, Any], name: str) -> tuple[str, str, float]:
    """Key, value and seconds of an annotation that asks; the key may be `KEY=VALUE`. No key if there is none."""
    content = _object(rolling, name)
    key, value = content.get("key") or "", content.get("value")
    if not isinstance(key, str) or not isinstance(value, str | None):
        raise InvalidIngress(f"{name} has a key or a value that isn't a string")
    key, _, beside = key.partition("=")
    return key, beside if value is None else value, float(_number(content, "gracePeriodSeconds", 0) or 0)


def _ports(spec: Mapping[str, Any]) -> tuple[int, ...]:
    ports = spec.get("healthCheckNodePorts") or []
    right = isinstance(ports, list) and all(isinstance(p, int) and 0 < p < 65536 for p in ports)
    if not right or len(set(ports)) != len(ports):
        raise InvalidIngress("healthCheckNodePorts isn't a list of different ports")
    return tuple(ports)


def _check_pod(spec: Mapping[str, Any]) -> None:
    """Whether what is read of a pod has its shape: the kind's schema leaves that to the pod's own, which is later."""
    _objects(spec, "tolerations")
    for container in _objects(spec, "containers"):
        _objects(container, "ports")


def _objects(parent: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = parent.get(key)
    if value is not None and not (isinstance(value, list) and all(isinstance(each, dict) for each in value)):
        raise InvalidIngress(f"{key} isn't a list of objects")
    return value or []


def _object(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = parent.get(key)
    if value is not None and not isinstance(value, dict):
        raise InvalidIngress(f"{key} isn't an object")
    return value or {}


def _labels(parent: Mapping[str, Any], key: str) -> Mapping[str, str]:
    value = _object(parent, key)
    if not all(isinstance(v, str) for v in value.values()):
        raise InvalidIngress(f"{key} has a value that isn't a string")
    return value


def _number(parent: Mapping[str, Any], key: str, default: int | None) -> int | None:
    value = parent.get(key)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InvalidIngress(f"{key} isn't a non-negative integer")
    return value


def _amount(value: object, key: str) -> int | str:
    """A number or a percentage, as a Deployment takes it."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and _AMOUNT.fullmatch(value):
        return value if value.endswith("%") else int(value)
    raise InvalidIngress(f"{key} isn't a number or a percentage")
