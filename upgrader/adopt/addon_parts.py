"""What kube-proxy and CoreDNS have that the chart would not give them: taken over, or refused by name. Pure.

Both are the cluster's own to change: custom zones of CoreDNS in a volume, more memory, other nodes. As with static
pods, what is listed is what is known: a field that Kubernetes gets one day is refused until it has a value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from upgrader.adopt.pod_metadata import addon_metadata, differing, rendered_metadata
from upgrader.adopt.release_owner import is_released
from upgrader.adopt.static_pod_parts import CONTAINER_FIELDS
from upgrader.adopt.variables import variables_of
from upgrader.errors import Blocked
from upgrader.model.manifest import objects_in
from upgrader.ports import KubeObject

__all__ = ["SECTIONS", "addon_values", "check_addon", "left_alone"]

Object = Mapping[str, Any]

SECTIONS = {"coredns": "coredns", "kube-proxy": "kubeProxy"}
"""Workload → its section in the values of the release `kubernetes`."""
_DEFAULTS = frozenset({"defaultMode", "name"})
_WORKLOADS_OWN = frozenset(
    {
        "progressDeadlineSeconds",
        "replicas",
        "revisionHistoryLimit",
        "selector",
        "strategy",
        "template",
        "updateStrategy",
    }
)
"""What the chart has a value for or sets on purpose, and what is looked at by itself; so of pods, below."""
_PODS_OWN = frozenset({"containers", "initContainers", "serviceAccount", "tolerations", "volumes"})
_PODS_DEFAULTS: Mapping[str, Any] = {
    "automountServiceAccountToken": True,
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
}
"""What the API server fills in where a chart says nothing."""


def left_alone(values: Mapping[str, Any]) -> frozenset[str]:
    """The sections of an operator's values for the release `kubernetes` that turn an add-on off."""
    return frozenset(each for each in SECTIONS.values() if (values.get(each) or {}).get("enabled") is False)


def addon_values(workload: KubeObject) -> dict[str, Any]:
    """What of it the chart has values for: resources, kube-proxy's variables, the tolerations of CoreDNS."""
    spec = workload["spec"]["template"]["spec"]
    container = spec["containers"][0]
    found = {"resources": container.get("resources")}
    if (workload.get("metadata") or {}).get("name") == "coredns":
        found["tolerations"] = spec.get("tolerations")
    else:
        # Behind a proxy, kubeadm gives its variables to kube-proxy. A value from elsewhere is refused by `check_addon`.
        found["extraEnv"] = variables_of(container)
    return {key: value for key, value in found.items() if value}


def check_addon(workload: KubeObject, rendered: str, values: Mapping[str, Any], keys: Collection[str] = ()) -> None:
    """Raises Blocked for a part that the rendered chart lacks. What a release has already is as its values say.

    `values`: the operator's own, of its section; `keys`: those of ConfigMap coredns, if they are known.
    """
    meta = workload.get("metadata") or {}
    name = str(meta.get("name"))
    if name not in SECTIONS or is_released(workload, f"{workload.get('kind')} kube-system/{name}", SECTIONS[name]):
        return
    charts = next(
        (
            item["spec"]
            for item in objects_in(rendered).values()
            if item["kind"] == workload.get("kind") and item["metadata"]["name"] == name
        ),
        None,
    )
    if charts is None:
        return  # the chart leaves it alone
    lost = [*_lost_of_workload(workload["spec"], charts), *_lost(_pod(workload["spec"], keys), _pod(charts))]
    lost += map(str, differing(addon_metadata(workload), rendered_metadata(rendered, name), values))
    if lost:
        section = SECTIONS[name]
        raise Blocked(
            f"{workload.get('kind')} kube-system/{name} has parts that the chart would remove: {', '.join(lost)}",
            remedy=f"Set `{section}.enabled: false` in values/kubernetes.yaml: adoption and upgrades then leave it "
            "unchanged. Or reset it to kubeadm's defaults: kubeadm init phase addon all, on a controller.",
        )


def _pod(spec: Object, keys: Collection[str] = ()) -> Object:
    """A workload's pod; a volume that has ConfigMap coredns as a whole names these keys of it."""
    found: Object = spec["template"]["spec"]
    items = [{"key": key, "path": key} for key in sorted(keys)]
    volumes = [_with_items(volume, items) for volume in found.get("volumes") or ()]
    return {**found, "volumes": volumes} if volumes else found


def _with_items(volume: Object, items: list[dict[str, str]]) -> Object:
    source = volume.get("configMap") or {}
    whole = source.get("name") == "coredns" and not source.get("items")
    return {**volume, "configMap": {**source, "items": items}} if whole else volume


def _lost_of_workload(live: Object, charts: Object) -> Iterator[str]:
    yield from _others(live, charts, _WORKLOADS_OWN, {})
    if "selector" in charts:
        yield from _others(live, charts, frozenset(live) - {"selector"}, {})
    for key in ("strategy", "updateStrategy"):
        if (kind := (live.get(key) or {}).get("type", "RollingUpdate")) != "RollingUpdate":
            yield f"`{key}: {kind}`"


def _others(live: Object, charts: Object, known: frozenset[str], defaults: Object) -> Iterator[str]:
    """Fields that aren't empty, and that the chart's has otherwise or not at all."""
    for key in sorted(live.keys() - known):
        wanted = charts.get(key, defaults.get(key))
        if live[key] and live[key] != wanted:
            yield f"`{key}`" if wanted is None else f"another `{key}`"


def _unsafe(live: Object, charts: Object) -> Iterator[str]:
    """Of a container's securityContext what the chart's hasn't. What a container may not do is no loss."""
    for key, value in sorted(live.items()):
        if key == "capabilities":
            more = {*((value or {}).get("add") or ())} - {*((charts.get(key) or {}).get("add") or ())}
            yield from (f"the capability {each}" for each in sorted(more))
        elif value and value != charts.get(key):
            yield f"`securityContext.{key}`"


def _words(container: Object) -> Iterator[str]:
    """But for the program, which may be written with its folder or without it."""
    command = container.get("command") or ()
    own = command and str(command[0]).rpartition("/")[2] == container["name"]
    yield from (*(command[1:] if own else command), *(container.get("args") or ()))


def _lost(live: Object, charts: Object) -> Iterator[str]:
    theirs = {item["name"]: item for item in charts["containers"]}
    for container in live["containers"]:
        if container["name"] not in theirs:
            yield f"container {container['name']}"
            continue
        chart = theirs[container["name"]]
        words = {*_words(chart)}
        yield from (f"`{word}`" for word in _words(container) if word not in words)
        variables = {item["name"] for item in chart.get("env") or ()}
        yield from (f"variable {item['name']}" for item in container.get("env") or () if item["name"] not in variables)
        paths = {item["mountPath"] for item in chart.get("volumeMounts") or ()}
        yield from (
            f"a volume at {item['mountPath']}"
            for item in container.get("volumeMounts") or ()
            if item["mountPath"] not in paths
        )
        yield from _others(container, chart, CONTAINER_FIELDS, {})
        yield from _unsafe(container.get("securityContext") or {}, chart.get("securityContext") or {})
        served = {*_ports(chart)}
        yield from (
            f"port {number}/{protocol}" for number, protocol in _ports(container) if (number, protocol) not in served
        )
        yield from (
            f"another `{key}`"
            for key in ("livenessProbe", "readinessProbe", "startupProbe")
            if container.get(key) and _asked(container, key) != _asked(chart, key)
        )
    sources = [_source(volume) for volume in charts.get("volumes") or ()]
    yield from (
        f"volume {volume['name']} ({_said(volume)})"
        for volume in live.get("volumes") or ()
        if _source(volume) not in sources
    )
    yield from (f"init container {item['name']}" for item in live.get("initContainers") or ())
    yield from _others(live, charts, _PODS_OWN, _PODS_DEFAULTS)
    tolerated = charts.get("tolerations") or []
    if {"operator": "Exists"} not in tolerated:  # that is every one
        yield from ("another toleration" for item in live.get("tolerations") or () if item not in tolerated)


def _ports(container: Object) -> Iterator[tuple[int, str]]:
    for port in container.get("ports") or ():
        yield port["containerPort"], port.get("protocol", "TCP")


def _asked(container: Object, probe: str) -> Any:
    """What a probe asks, and where: its times are the chart's on purpose."""
    asked = container.get(probe) or {}
    if "httpGet" not in asked:
        return {key: value for key, value in asked.items() if key in ("exec", "grpc", "tcpSocket")}
    named = {port.get("name"): port["containerPort"] for port in container.get("ports") or ()}
    request = asked["httpGet"]
    return request.get("path"), named.get(request.get("port"), request.get("port")), request.get("scheme", "HTTP")


def _source(volume: Object) -> Any:
    """Without its name, and without what the API server fills in."""
    if "hostPath" in volume:
        return volume["hostPath"].get("path")
    if "configMap" in volume:
        # kubeadm's kube-proxy mounts the whole ConfigMap, its CoreDNS one key of it.
        items = [(item["key"], item["path"]) for item in volume["configMap"].get("items") or ()]
        return volume["configMap"].get("name"), sorted(items)
    return {key: value for key, value in volume.items() if key not in _DEFAULTS}


def _said(volume: Object) -> str:
    """What is in it: the chart may have a volume of the same name, with something else."""
    if "hostPath" in volume:
        return f"{volume['hostPath'].get('path')} of the node"
    if "configMap" in volume:
        keys = ", ".join(str(item["key"]) for item in volume["configMap"].get("items") or ())
        return f"ConfigMap {volume['configMap'].get('name')}: {keys or 'all keys'}"
    return ", ".join(sorted(volume.keys() - _DEFAULTS))
