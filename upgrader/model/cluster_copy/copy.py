"""A copy of a cluster: made from what the API and the cluster folder have, written as plain values, and read again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from upgrader.errors import UsageError
from upgrader.model.cluster_copy.allowed import NOTHING, word
from upgrader.model.cluster_copy.objects import LABELS, OBJECTS, TAINTS, copied_object
from upgrader.model.cluster_copy.settings import VALUES, copied_flags, has_form, without_kubeadms
from upgrader.model.components import COMPONENTS, RELEASE_AND_SECTION
from upgrader.model.redaction.printable import mask_secrets
from upgrader.model.version import KubernetesVersion

__all__ = ["FORMAT", "KIND", "ClusterCopy", "CopiedNode", "DamagedCopy", "copy_of", "described"]

FORMAT, KIND = "upgrader.io/v1alpha1", "ClusterCopy"

_SYSTEM = "kube-system"
_FLANNEL = "kube-flannel"
_CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_OF_NODES = ("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", *_CONTROL_PLANE)
_OF_NODES_PREFIXES = ("beta.kubernetes.io/", "upgrader.io/")
"""Labels that the kubelet, kubeadm and upgrader set: a lab's nodes have their own."""
_TRANSIENT = "node.kubernetes.io/"
"""The prefix of taints that come and go with a node's condition, or with a cordon."""
_SELECTING = ("matchLabels", "matchExpressions", "matchFields", "nodeSelector", "tolerations")
_LABS_OWN = frozenset(
    {"coredns", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "pod-checkpointer"}
)
"""Workloads of kube-system that each lab has; flannel has a namespace of its own."""


@dataclass(frozen=True)
class CopiedNode:
    """A node: what the scheduler knows of it. `kubelet`: its version, "" where it is none of Kubernetes'."""

    name: str
    controller: bool
    kubelet: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class ClusterCopy:
    """What a lab needs to be like a cluster. It has nothing that the allow-lists don't name."""

    kubernetes: KubernetesVersion
    adopted: bool
    """Whether its control plane runs as upgrader's releases; otherwise it is kubeadm's."""
    nodes: tuple[CopiedNode, ...]
    flags: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Component → flag → value."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Release → values, without flags."""
    objects: tuple[Mapping[str, Any], ...] = ()
    """In an order in which they can be created."""
    not_copied: tuple[str, ...] = ()
    """Names of what is not in it, with the reason."""

    @property
    def controllers(self) -> tuple[CopiedNode, ...]:
        """The nodes of the control plane."""
        return tuple(node for node in self.nodes if node.controller)

    @property
    def workers(self) -> tuple[CopiedNode, ...]:
        """The others."""
        return tuple(node for node in self.nodes if not node.controller)

    def plain(self) -> dict[str, Any]:
        """As plain values, for a file."""
        return {
            "apiVersion": FORMAT,
            "kind": KIND,
            "kubernetes": str(self.kubernetes),
            "adopted": self.adopted,
            "flags": {component: dict(flags) for component, flags in self.flags.items()},
            "values": dict(self.values),
            "nodes": [
                {
                    "name": node.name,
                    "controller": node.controller,
                    "kubelet": node.kubelet,
                    "labels": dict(node.labels),
                    "taints": [dict(taint) for taint in node.taints],
                }
                for node in self.nodes
            ],
            "objects": [dict(item) for item in self.objects],
            "notCopied": list(self.not_copied),
        }

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> ClusterCopy:
        """From plain values. Raises DamagedCopy for anything that no copy has."""
        _check_scalars((), given)
        if given.get("kind") != KIND:
            raise DamagedCopy(("kind",), f"this is not a {KIND}")
        if given.get("apiVersion") != FORMAT:
            raise DamagedCopy(("apiVersion",), f"this version of upgrader reads {FORMAT}")
        for key in given.keys() - _KEYS.keys() - {"apiVersion", "kind"}:
            raise DamagedCopy((str(key),), "a copy has no such key")
        for key, kind in _KEYS.items():
            if not isinstance(given.get(key), kind):
                raise DamagedCopy((key,), f"`{key}` is missing or malformed")
        try:
            version = KubernetesVersion.release(given["kubernetes"])
        except UsageError as error:
            raise DamagedCopy(("kubernetes",), error.message) from error
        for component, flags in given["flags"].items():
            if component not in COMPONENTS:
                raise DamagedCopy(("flags", component), "a copy has no flags of this component")
            for name, value in flags.items() if isinstance(flags, Mapping) else [("", "")]:
                if not isinstance(value, str) or not has_form(component, name, value):
                    raise DamagedCopy(("flags", component, name), "a copy has no such flag, or not this value of it")
        _only("values", VALUES(given["values"]), given["values"])
        nodes = tuple(_read_node(("nodes", index), node) for index, node in enumerate(given["nodes"]))
        for index, item in enumerate(given["objects"]):
            copied = copied_object(item) if isinstance(item, Mapping) else None
            if copied is None:
                raise DamagedCopy(("objects", index), "a copy has no objects of this kind, or this object has no name")
            if _labs_own(item):
                raise DamagedCopy(("objects", index), "a copy doesn't have this object: each lab has its own")
            _only(("objects", index), copied, item)
        return cls(
            version,
            given["adopted"],
            nodes,
            given["flags"],
            given["values"],
            tuple(given["objects"]),
            tuple(str(each) for each in given["notCopied"]),
        )


_KEYS: Mapping[str, type] = {
    "kubernetes": str,
    "adopted": bool,
    "flags": dict,
    "values": dict,
    "nodes": list,
    "objects": list,
    "notCopied": list,
}


class DamagedCopy(Exception):
    """What was given is no copy: where, as keys and indexes from the top, and why."""

    def __init__(self, where: tuple[str | int, ...], why: str) -> None:
        super().__init__(why)
        self.where = where
        self.why = why


def copy_of(
    version: KubernetesVersion,
    nodes: Iterable[Mapping[str, Any]],
    objects: Iterable[Mapping[str, Any]],
    values: Mapping[str, Mapping[str, Any]],
    *,
    adopted: bool,
    static: Mapping[str, Sequence[Mapping[str, Sequence[str]]]] | None = None,
) -> ClusterCopy:
    """The copy of a cluster. `nodes`, and `objects` with their apiVersion and kind: as the API has them; `values`: of
    the releases, as the cluster folder has them. `static`, of a cluster that isn't adopted: component → the flags of
    each of its static pods; they hold, and not those of the values.
    """
    left_out = list[str]()
    flags = dict[str, Mapping[str, str]]()
    for component, (release, section) in RELEASE_AND_SECTION.items():
        given: Any = values.get(release)
        for key in (*section, "extraArgs"):
            given = given.get(key) if isinstance(given, Mapping) else None
        if static is not None:
            given = _flags_of_all(component, static.get(component, ()), left_out)
        copied, without = copied_flags(component, given)
        if copied:
            flags[component] = copied
        left_out += [f"{component} {each}: a lab can't have it" for each in without]
    kept = VALUES(values)
    return ClusterCopy(
        version,
        adopted,
        tuple(sorted(map(_node, nodes), key=lambda node: (not node.controller, node.name))),
        flags,
        {} if kept is NOTHING else _without_empty(kept),
        tuple(_copied(objects, left_out)),
        tuple(left_out),
    )


def _flags_of_all(
    component: str, pods: Sequence[Mapping[str, Sequence[str]]], left_out: list[str]
) -> dict[str, Sequence[str]]:
    """The flags that a component has on all controllers."""
    if not pods:
        left_out.append(f"{component}: its flags are unknown, because it has no static pod")
        return {}
    found = without_kubeadms({name: values for pod in pods for name, values in pod.items()})
    differing = [name for name, values in found.items() if any(pod.get(name) != values for pod in pods)]
    left_out += [
        f"{component} --{name}: differs between controllers" for name in differing if word(name) is not NOTHING
    ]
    return {name: values for name, values in found.items() if name not in differing}


def described(item: Mapping[str, Any]) -> str:
    """An object for people: `Deployment shop/web`."""
    meta = item["metadata"]
    return f"{item['kind']} {'/'.join(filter(None, (meta.get('namespace'), meta.get('name', '?'))))}"


def _copied(objects: Iterable[Mapping[str, Any]], left_out: list[str]) -> Iterator[Mapping[str, Any]]:
    found = [(item, copied) for item in objects if not _labs_own(item) and (copied := copied_object(item)) is not None]
    order = {kind: number for number, kind in enumerate(OBJECTS)}
    found.sort(key=lambda pair: (order[pair[1]["apiVersion"], pair[1]["kind"]], described(pair[1])))
    for item, copied in found:
        why = _why_not(item, copied)
        if why:
            left_out.append(f"{described(copied)}: {why}")
            continue
        left_out += [f"{described(copied)}: {part}" for part in _parts_left_out(item)]
        yield copied


def _labs_own(item: Mapping[str, Any]) -> bool:
    meta = item.get("metadata") or {}
    name = str(meta.get("name"))
    if _FLANNEL in (meta.get("namespace"), name if item.get("kind") == "Namespace" else ""):
        return True
    match item.get("kind"):
        case "PriorityClass":
            return name.startswith("system-")
        case "Deployment" | "DaemonSet" | "PodDisruptionBudget":
            return meta.get("namespace") == _SYSTEM and name in _LABS_OWN
    return False


def _why_not(item: Mapping[str, Any], copied: Mapping[str, Any]) -> str:
    if any(mask_secrets(text) != text for text in _texts(copied)):
        return "a part of it looks like a secret"
    spec = item.get("spec")
    if isinstance(spec, Mapping) and spec.get("paramRef"):
        return "its parameters are not copied"
    if item.get("kind") != "CustomResourceDefinition" and _selects_otherwise(item, copied):
        return "one of its selectors or tolerations can't be copied completely"
    return ""


def _selects_otherwise(item: Any, copied: Any) -> bool:
    """Whether the copy would select other objects or nodes, as a part of what selects them isn't in it."""
    if isinstance(item, Mapping) and isinstance(copied, Mapping):
        return any(
            copied[key] != item[key] if key in _SELECTING else _selects_otherwise(item[key], copied[key])
            for key in copied
        )
    if isinstance(item, list | tuple) and isinstance(copied, list) and len(item) == len(copied):
        return any(_selects_otherwise(*pair) for pair in zip(item, copied, strict=True))
    return False


def _parts_left_out(item: Mapping[str, Any]) -> Iterator[str]:
    spec = item.get("spec")
    conversion = spec.get("conversion") if isinstance(spec, Mapping) else None
    if isinstance(conversion, Mapping) and conversion.get("strategy") == "Webhook":
        yield "its conversion webhook"


def _texts(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        for key, item in part.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _texts(item)
    elif isinstance(part, str):
        yield part


def _node(found: Mapping[str, Any]) -> CopiedNode:
    meta = found["metadata"]
    labels = meta.get("labels") or {}
    reported = ((found.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion")
    kubelet = KubernetesVersion.known(str(reported))
    kept = LABELS({name: value for name, value in labels.items() if not _of_node(name)})
    taints = TAINTS((found.get("spec") or {}).get("taints") or [])
    return CopiedNode(
        str(meta["name"]),
        any(label in labels for label in _CONTROL_PLANE),
        str(kubelet) if kubelet else "",
        {name: value for name, value in kept.items() if mask_secrets(value) == value},
        tuple(taint for taint in taints if not str(taint.get("key")).startswith(_TRANSIENT)),
    )


def _of_node(label: str) -> bool:
    return label in _OF_NODES or label.startswith(_OF_NODES_PREFIXES)


def _read_node(where: tuple[str | int, ...], given: Any) -> CopiedNode:
    if not isinstance(given, Mapping) or given.keys() != {"name", "controller", "kubelet", "labels", "taints"}:
        raise DamagedCopy(where, "a node must have the keys name, controller, kubelet, labels and taints, and no other")
    if word(given["name"]) is NOTHING or not isinstance(given["controller"], bool):
        raise DamagedCopy((*where, "name"), "this is not a node")
    if given["kubelet"] != "" and KubernetesVersion.known(str(given["kubelet"])) is None:
        raise DamagedCopy((*where, "kubelet"), "this is not a Kubernetes version")
    _only((*where, "labels"), LABELS(given["labels"]), given["labels"])
    _only((*where, "taints"), TAINTS(given["taints"]), given["taints"])
    return CopiedNode(given["name"], given["controller"], given["kubelet"], given["labels"], tuple(given["taints"]))


def _check_scalars(where: tuple[str | int, ...], part: Any) -> None:
    """Raise DamagedCopy for a key that is no text, and for a number that no JSON has."""
    if isinstance(part, Mapping):
        for key, item in part.items():
            if not isinstance(key, str):
                raise DamagedCopy(where, "one of its keys is not a string")
            _check_scalars((*where, key), item)
    elif isinstance(part, list | tuple):
        for index, item in enumerate(part):
            _check_scalars((*where, index), item)
    elif isinstance(part, float) and not math.isfinite(part):
        raise DamagedCopy(where, "this is not a finite number")
    elif isinstance(part, int) and not -(2**63) <= part < 2**63:
        raise DamagedCopy(where, "this number has more than 64 bits")


def _only(where: str | tuple[str | int, ...], allowed: Any, given: Any) -> None:
    """Raise DamagedCopy where something is given that isn't allowed."""
    path = (where,) if isinstance(where, str) else where
    if isinstance(allowed, Mapping) and isinstance(given, Mapping):
        for key, item in given.items():
            _only((*path, str(key)), allowed.get(key, NOTHING), item)
    elif isinstance(allowed, list) and isinstance(given, Sequence) and len(allowed) == len(given):
        for index, item in enumerate(given):
            _only((*path, index), allowed[index], item)
    elif allowed is NOTHING or allowed != given:
        raise DamagedCopy(path, "a copy has no such field, or not in this form")


def _without_empty(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    kept = {key: _without_empty(item) for key, item in part.items()}
    return {key: item for key, item in kept.items() if item != {}}
