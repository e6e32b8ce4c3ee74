"""What kube-proxy and CoreDNS have that the chart would not give them: taken over, or refused by name. Pure.

Both are the cluster's own to change: custom zones of CoreDNS in a volume, more memory, other nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from upgrader.adopt.pod_metadata import addon_metadata, differing, rendered_metadata
from upgrader.errors import Blocked
from upgrader.model.manifest import objects_in
from upgrader.ports import KubeObject

__all__ = ["SECTIONS", "addon_values", "check_addon", "left_alone"]

Object = Mapping[str, Any]

SECTIONS = {"coredns": "coredns", "kube-proxy": "kubeProxy"}
"""Workload → its section in the values of the release `kubernetes`."""
_HELMS = "meta.helm.sh/release-name"
_DEFAULTS = frozenset({"defaultMode", "name"})


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
        found["extraEnv"] = {
            item["name"]: str(item.get("value", "")) for item in container.get("env") or () if "valueFrom" not in item
        }
    return {key: value for key, value in found.items() if value}


def check_addon(workload: KubeObject, rendered: str, values: Mapping[str, Any]) -> None:
    """Raises Blocked for a part that the rendered chart lacks. What a release has already is as its values say.

    `values`: the operator's own, of its section.
    """
    meta = workload.get("metadata") or {}
    name = str(meta.get("name"))
    if _HELMS in (meta.get("annotations") or {}) or name not in SECTIONS:
        return
    charts = next(
        (
            item["spec"]["template"]["spec"]
            for item in objects_in(rendered).values()
            if item["kind"] == workload.get("kind") and item["metadata"]["name"] == name
        ),
        None,
    )
    if charts is None:
        return  # the chart leaves it alone
    lost = [*_lost(workload["spec"]["template"]["spec"], charts)]
    lost += map(str, differing(addon_metadata(workload), rendered_metadata(rendered, name), values))
    if lost:
        section = SECTIONS[name]
        raise Blocked(
            f"{workload.get('kind')} kube-system/{name} has parts that the chart would remove: {', '.join(lost)}",
            remedy=f"Set `{section}.enabled: false` in values/kubernetes.yaml: it is then left alone, also by "
            "upgrades. Or reset it to kubeadm's defaults: kubeadm init phase addon all, on a controller.",
        )


def _lost(live: Object, charts: Object) -> Iterator[str]:
    theirs = {item["name"]: item for item in charts["containers"]}
    for container in live["containers"]:
        if container["name"] not in theirs:
            yield f"container {container['name']}"
            continue
        chart = theirs[container["name"]]
        words = {*(chart.get("command") or ()), *(chart.get("args") or ())}
        yield from (
            f"`{word}`"
            for word in (*(container.get("command") or ()), *(container.get("args") or ()))
            if word not in words
        )
        variables = {item["name"] for item in chart.get("env") or ()}
        yield from (f"variable {item['name']}" for item in container.get("env") or () if item["name"] not in variables)
        paths = {item["mountPath"] for item in chart.get("volumeMounts") or ()}
        yield from (
            f"a volume at {item['mountPath']}"
            for item in container.get("volumeMounts") or ()
            if item["mountPath"] not in paths
        )
        yield from (f"`{key}`" for key in ("envFrom", "lifecycle") if container.get(key))
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
    yield from (f"volume {volume['name']}" for volume in live.get("volumes") or () if _source(volume) not in sources)
    yield from (f"init container {item['name']}" for item in live.get("initContainers") or ())
    yield from (f"`{key}`" for key in ("hostAliases", "dnsConfig", "topologySpreadConstraints") if live.get(key))
    yield from (
        f"`{key}`"
        for key in ("hostNetwork", "hostPID", "runtimeClassName")
        if live.get(key) and live[key] != charts.get(key)
    )
    for key in ("nodeSelector", "affinity", "priorityClassName"):
        if live.get(key) and live[key] != charts.get(key):
            yield f"another `{key}`"
    tolerated = charts.get("tolerations") or []
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
