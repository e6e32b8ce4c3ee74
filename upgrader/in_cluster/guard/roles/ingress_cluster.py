"""The objects of an IngressDaemonSet, as caches have them, and as the API itself does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from upgrader.contract.detach import OWNER
from upgrader.in_cluster.guard.core.ingress import IngressDaemonSet
from upgrader.in_cluster.guard.core.ingress_objects import CHECKER_LABELS, NODE_LABEL
from upgrader.in_cluster.guard.core.ingress_rollout import Node, node_deployment
from upgrader.in_cluster.guard.core.taints import taints_of
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Informer, Key, whole
from upgrader.in_cluster.guard.runtime.listing import everything
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["DAEMON_SETS", "DEPLOYMENTS", "INGRESSES", "NODES", "Cluster", "IngressCluster", "owner_of"]

INGRESSES = Resource("ingressdaemonsets.mumoshu.github.io/v1alpha1", "ingressdaemonsets")
DEPLOYMENTS = Resource("apps/v1", "deployments")
DAEMON_SETS = Resource("apps/v1", "daemonsets")
NODES = Resource("v1", "nodes", namespaced=False)
_CHECKERS = ",".join(f"{key}={value}" for key, value in CHECKER_LABELS.items())
_SOON_SECONDS = 0.1
"""Changes within this time are reconciled together."""


@dataclass(frozen=True)
class Cluster:
    """The objects by name: Nodes, and an IngressDaemonSet's own Deployments and health checkers."""

    nodes: Mapping[str, Object] = field(default_factory=dict)
    deployments: Mapping[str, Object] = field(default_factory=dict)
    checkers: Mapping[str, Object] = field(default_factory=dict)


def owner_of(item: Object) -> Mapping[str, Any]:
    """The owner that controls it; empty if there is none."""
    owners = item["metadata"].get("ownerReferences") or ()
    found: Mapping[str, Any] = next((each for each in owners if each.get("controller")), {})
    return found


class IngressCluster:
    """Caches for some namespaces, and for all Nodes. `changed` gets the IngressDaemonSet to reconcile, and how soon."""

    def __init__(
        self,
        api: Api,
        namespaces: Sequence[str],
        changed: Callable[[Key, float], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._api, self._changed, self._now = api, changed, now
        self._noticed: dict[tuple[str, str], tuple[str, float]] = {}
        self.ingresses = {each: Informer(api, INGRESSES, each, keep=_without_fields) for each in namespaces}
        self._deployments = {
            each: Informer(api, DEPLOYMENTS, each, labels=NODE_LABEL, keep=_kept) for each in namespaces
        }
        self._checkers = {each: Informer(api, DAEMON_SETS, each, labels=_CHECKERS, keep=_kept) for each in namespaces}
        self._nodes = Informer(api, NODES, keep=_kept_node)
        for informer in self.ingresses.values():
            informer.tell(self._ingress_changed)
        for informer in (*self._deployments.values(), *self._checkers.values()):
            informer.tell(self._own_changed)
        self._nodes.tell(self._node_changed)

    @property
    def informers(self) -> list[Informer[Object]]:
        """All informers."""
        own = (*self.ingresses.values(), *self._deployments.values(), *self._checkers.values())
        return [*own, self._nodes]

    def all(self) -> set[Key]:
        """The existing IngressDaemonSets, and the deleted ones that still have a request on a Node."""
        found = {key for informer in self.ingresses.values() for key in informer.objects}
        for node in self._nodes.objects.values():
            namespace, _, name = _annotations(node).get(OWNER, "").partition(" ")[0].partition("/")
            if namespace in self.ingresses and name:
                found.add((namespace, name))
        return found

    def __contains__(self, key: Key) -> bool:
        """Whether it is in one of these namespaces."""
        return key[0] in self.ingresses

    def get(self, key: Key) -> Object | None:
        """An object from the cache."""
        return self.ingresses[key[0]].objects.get(key)

    def asked_by(self, key: Key) -> list[str]:
        """The Nodes whose detachment this IngressDaemonSet has requested."""
        mine = f"{key[0]}/{key[1]} "
        return [
            name
            for (_, name), node in self._nodes.objects.items()
            if _annotations(node).get(OWNER, "").startswith(mine)
        ]

    def cached(self, item: Object) -> Cluster:
        """As the caches have it."""
        namespace = item["metadata"]["namespace"]
        return Cluster(
            {name: node for (_, name), node in self._nodes.objects.items()},
            _of(item, self._deployments[namespace].objects.values()),
            _of(item, self._checkers[namespace].objects.values()),
        )

    async def read(self, item: Object, which: IngressDaemonSet) -> Cluster:
        """As the API has it now. Raises ApiAway, ApiRefused."""
        namespace = item["metadata"]["namespace"]
        deployments = _of(item, await self._all(DEPLOYMENTS, namespace, NODE_LABEL))
        checkers = _of(item, await self._all(DAEMON_SETS, namespace, _CHECKERS))
        selector = ",".join(f"{key}={value}" for key, value in which.node_selector.items())
        nodes: dict[str, Object] = {each["metadata"]["name"]: each for each in await self._all(NODES, "", selector)}
        for name in {node_deployment(each).node for each in deployments.values()} - nodes.keys():
            if (found := await self._api.get(NODES, name)) is not None:
                nodes[name] = found
        return Cluster(nodes, deployments, checkers)

    def node(self, item: Object, which: IngressDaemonSet) -> Node:
        """A Node as decisions need it, with the time at which this process first saw the present answer."""
        name, annotations = item["metadata"]["name"], _annotations(item)
        noticed = None
        if which.detachment is not None and (key := which.detachment.answer):
            text = annotations.get(key)
            if text is None:
                self._noticed.pop((name, key), None)
            else:
                before = self._noticed.get((name, key), ("", 0.0))
                noticed = before[1] if before[0] == text else self._now()
                self._noticed[name, key] = (text, noticed)
        return Node(name, item["metadata"].get("labels") or {}, annotations, noticed, taints_of(item))

    async def _all(self, resource: Resource, namespace: str, labels: str) -> list[Object]:
        found, _ = await everything(self._api, resource, namespace, {"labelSelector": labels}, whole)
        return found

    def _ingress_changed(self, before: Object | None, after: Object | None) -> None:
        """The status doesn't trigger a reconciliation, because this role writes it."""
        if before is None or after is None or _spec_version(before) != _spec_version(after):
            found: Any = after or before
            self._changed((found["metadata"]["namespace"], found["metadata"]["name"]), 0.0)

    def _own_changed(self, before: Object | None, after: Object | None) -> None:
        found: Any = after or before
        owner = owner_of(found)
        if owner.get("kind") == "IngressDaemonSet":
            self._changed((found["metadata"]["namespace"], str(owner.get("name"))), _SOON_SECONDS)

    def _node_changed(self, before: Object | None, after: Object | None) -> None:
        """The heartbeat of a kubelet doesn't trigger a reconciliation."""
        if before is None or after is None or _without_version(before) != _without_version(after):
            for key in self.all():
                self._changed(key, _SOON_SECONDS)


def _of(item: Object, found: Iterable[Object]) -> dict[str, Object]:
    """The objects that this very object controls."""
    uid = item["metadata"]["uid"]
    return {each["metadata"]["name"]: each for each in found if owner_of(each).get("uid") == uid}


def _annotations(item: Object) -> Mapping[str, str]:
    found: Mapping[str, str] = item["metadata"].get("annotations") or {}
    return found


def _spec_version(item: Object) -> tuple[object, object, object]:
    meta = item["metadata"]
    return meta.get("uid"), meta.get("generation"), meta.get("deletionTimestamp")


def _without_version(node: Object) -> Object:
    return {**node, "metadata": {**node["metadata"], "resourceVersion": ""}}


def _without_fields(item: dict[str, Any]) -> Object:
    return {**item, "metadata": {key: value for key, value in item["metadata"].items() if key != "managedFields"}}


def _kept(item: dict[str, Any]) -> Object:
    """Without the template, except the node's name."""
    meta = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    spec = item.get("spec") or {}
    node = ((spec.get("template") or {}).get("spec") or {}).get("nodeName")
    kept = {"replicas": spec.get("replicas"), "template": {"spec": {"nodeName": node}}}
    return {"metadata": meta, "spec": kept, "status": item.get("status") or {}}


def _kept_node(node: dict[str, Any]) -> Object:
    """Labels, annotations, taints."""
    keys = ("name", "uid", "resourceVersion", "labels", "annotations", "deletionTimestamp")
    meta = {key: node["metadata"][key] for key in keys if key in node["metadata"]}
    return {"metadata": meta, "spec": {"taints": (node.get("spec") or {}).get("taints") or []}}
