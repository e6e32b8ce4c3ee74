"""kube-proxy and CoreDNS as operators change them: taken over, refused by name, or left alone."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from tests.unit.adopt.kubeadm_cluster import facts
from upgrader.adapters.helm import HelmAdapter
from upgrader.adopt.addon_parts import addon_values, check_addon, left_alone
from upgrader.adopt.derive import derive_values
from upgrader.adopt.facts import read_facts
from upgrader.built_in_files import charts_folder
from upgrader.errors import Blocked
from upgrader.model.manifest import objects_in
from upgrader.model.release import ReleaseSpec
from upgrader.ports import Kind


def test_a_proxys_variables_are_kube_proxys() -> None:
    """kubeadm behind a proxy copies them there; NODE_NAME is the chart's own. The chart has them in another order, so
    what another one is part of is written out, but not NODE_NAME, which differs from node to node.
    """
    env = [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "PROXY", "value": "http://proxy"},
        {"name": "HTTPS_PROXY", "value": "$(PROXY)/$(NODE_NAME)"},
    ]
    spec = {"containers": [{"name": "kube-proxy", "env": env}]}
    proxy = {"metadata": {"name": "kube-proxy"}, "spec": {"template": {"spec": spec}}}
    assert addon_values(proxy) == {"extraEnv": {"HTTPS_PROXY": "http://proxy/$(NODE_NAME)", "PROXY": "http://proxy"}}


_CONFIG_MAPS = Kind("v1", "configmaps")
_PORTS = {"dns-tcp": 53, "metrics": 9153, "liveness-probe": 8080, "readiness-probe": 8181}
_AFFINITY = {
    "podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "podAffinityTerm": {
                    "labelSelector": {
                        "matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]
                    },
                    "topologyKey": "kubernetes.io/hostname",
                },
            }
        ]
    }
}
COREDNS: dict[str, Any] = {
    "kind": "Deployment",
    "metadata": {"name": "coredns", "namespace": "kube-system"},
    "spec": {
        "replicas": 2,
        "template": {
            "spec": {
                "affinity": _AFFINITY,
                "containers": [
                    {
                        "name": "coredns",
                        "image": "registry.k8s.io/coredns/coredns:v1.14.2",
                        "args": ["-conf", "/etc/coredns/Corefile"],
                        "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
                        "volumeMounts": [{"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": True}],
                    }
                ],
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "priorityClassName": "system-cluster-critical",
                "serviceAccountName": "coredns",
                "tolerations": [
                    {"key": "CriticalAddonsOnly", "operator": "Exists"},
                    {"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"},
                ],
                "volumes": [
                    {
                        "name": "config-volume",
                        "configMap": {
                            "defaultMode": 420,
                            "name": "coredns",
                            "items": [{"key": "Corefile", "path": "Corefile"}],
                        },
                    }
                ],
            }
        },
    },
}
"""As kubeadm made it, and as the API has it."""
_COREDNS = COREDNS["spec"]["template"]["spec"]["containers"][0]
_COREFILE, _HOSTS = ({"key": key, "path": key} for key in ("Corefile", "Hosts"))
PROXY: dict[str, Any] = {
    "kind": "DaemonSet",
    "metadata": {"name": "kube-proxy", "namespace": "kube-system"},
    "spec": {
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "kube-proxy",
                        "image": "registry.k8s.io/kube-proxy:v1.36.3",
                        "command": [
                            "/usr/local/bin/kube-proxy",
                            "--config=/var/lib/kube-proxy/config.conf",
                            "--hostname-override=$(NODE_NAME)",
                        ],
                        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
                        "resources": {},
                        "volumeMounts": [
                            {"name": "kube-proxy", "mountPath": "/var/lib/kube-proxy"},
                            {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
                            {"name": "lib-modules", "mountPath": "/lib/modules", "readOnly": True},
                        ],
                    }
                ],
                "hostNetwork": True,
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "priorityClassName": "system-node-critical",
                "tolerations": [{"operator": "Exists"}],
                "volumes": [
                    {"name": "kube-proxy", "configMap": {"defaultMode": 420, "name": "kube-proxy"}},
                    {"name": "xtables-lock", "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
                    {"name": "lib-modules", "hostPath": {"path": "/lib/modules", "type": ""}},
                ],
            }
        }
    },
}


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, with no cluster: rendering needs none."""
    adapter = HelmAdapter(tmp_path / "kubeconfig")
    yield adapter
    adapter.close()


def _values(
    helm: HelmAdapter, coredns: Mapping[str, Any] | None, proxy: Mapping[str, Any] | None, keys: tuple[str, ...] = ()
) -> Any:
    known = replace(facts(), dns_deployment=coredns, proxy_daemonset=proxy, dns_keys=keys)
    return derive_values(known, ("10.0.0.1",), {}, helm, charts_folder()).values["kubernetes"]


def _changed(workload: dict[str, Any], **spec: Any) -> dict[str, Any]:
    changed = copy.deepcopy(workload)
    changed["spec"]["template"]["spec"].update(spec)
    return changed


def test_kubeadms_own_are_taken_over(helm: HelmAdapter) -> None:
    """With the memory that an operator has given CoreDNS, and the nodes that it may run on."""
    dns = _changed(COREDNS, tolerations=[{"operator": "Exists"}])
    dns["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"memory": "1Gi"}}
    values = _values(helm, dns, PROXY)
    assert values["coredns"]["resources"] == {"limits": {"memory": "1Gi"}}
    assert values["coredns"]["tolerations"] == [{"operator": "Exists"}]
    assert "resources" not in values["kubeProxy"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"volumes": [{"name": "zones", "configMap": {"name": "coredns-custom"}}]},
            "volume zones (ConfigMap coredns-custom: all keys)",
        ),
        (
            {"volumes": [{"name": "config-volume", "configMap": {"name": "coredns", "items": [_COREFILE, _HOSTS]}}]},
            "volume config-volume (ConfigMap coredns: Corefile, Hosts)",
        ),
        (
            {"volumes": [{"name": "config-volume", "projected": {"sources": []}}, {"name": "tmp", "emptyDir": {}}]},
            "volume config-volume (projected), volume tmp (emptyDir)",
        ),
        ({"volumes": [{"name": "x", "hostPath": {"path": "/etc/dns", "type": ""}}]}, "volume x (/etc/dns of the node)"),
        ({"nodeSelector": {"role": "infra"}}, "another `nodeSelector`"),
        ({"affinity": {}}, ""),
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "`topologySpreadConstraints`"),
        ({"initContainers": [{"name": "fetch"}]}, "init container fetch"),
        (
            {"containers": [*COREDNS["spec"]["template"]["spec"]["containers"], {"name": "exporter"}]},
            "container exporter",
        ),
        (
            {
                "containers": [
                    {
                        "name": "coredns",
                        "args": ["-quiet"],
                        "env": [{"name": "GOGC"}],
                        "envFrom": [{}],
                        "volumeMounts": [{"mountPath": "/zones"}],
                    }
                ]
            },
            "`-quiet`, variable GOGC, a volume at /zones, `envFrom`",
        ),
        ({"tolerations": [{"key": "gpu"}]}, "another toleration"),
        ({"hostNetwork": True}, "`hostNetwork`"),
        ({"runtimeClassName": "gvisor"}, "`runtimeClassName`"),
        ({"containers": [{**_COREDNS, "lifecycle": {"preStop": {}}}]}, "`lifecycle`"),
        ({"containers": [{**_COREDNS, "ports": [{"containerPort": 853, "protocol": "TCP"}]}]}, "port 853/TCP"),
        ({"imagePullSecrets": [{"name": "registry"}]}, "`imagePullSecrets`"),
        ({"securityContext": {"runAsUser": 1000}}, "`securityContext`"),
        ({"serviceAccountName": "dns", "serviceAccount": "dns"}, "another `serviceAccountName`"),
        ({"terminationGracePeriodSeconds": 60}, "another `terminationGracePeriodSeconds`"),
        ({"schedulerName": "second"}, "another `schedulerName`"),
        ({"hostIPC": True, "shareProcessNamespace": True}, "`hostIPC`, `shareProcessNamespace`"),
        ({"fieldOfTheFuture": {"a": 1}}, "`fieldOfTheFuture`"),
        ({"containers": [{**_COREDNS, "workingDir": "/zones", "tty": True}]}, "`tty`, `workingDir`"),
        (
            {
                "containers": [
                    {**_COREDNS, "securityContext": {"capabilities": {"add": ["NET_RAW"]}, "privileged": True}}
                ]
            },
            "the capability NET_RAW, `securityContext.privileged`",
        ),
        (
            # As the API fills in what nobody wrote, and as older kubeadms and others wrote the same.
            {
                "dnsPolicy": "ClusterFirst",
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "serviceAccount": "coredns",
                "terminationGracePeriodSeconds": 30,
                "containers": [
                    {
                        **_COREDNS,
                        "command": ["/coredns"],
                        "securityContext": {"capabilities": {"drop": ["all"]}},
                        "terminationMessagePath": "/dev/termination-log",
                    }
                ],
            },
            "",
        ),
        (
            {"containers": [{**_COREDNS, "readinessProbe": {"httpGet": {"path": "/ready", "port": 8182}}}]},
            "another `readinessProbe`",
        ),
    ],
)
def test_what_the_chart_has_no_value_for_is_refused(spec: dict[str, Any], words: str) -> None:
    """CoreDNS's own zones in a volume would be gone, and with them the names in them."""
    rendered = _as_rendered(COREDNS)
    changed = _changed(COREDNS, **spec)
    if not words:
        check_addon(changed, rendered, {})
        return
    with pytest.raises(Blocked, match="Deployment kube-system/coredns has parts that the chart would remove") as caught:
        check_addon(changed, rendered, {})
    assert words in caught.value.message and "`coredns.enabled: false`" in caught.value.remedy


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"minReadySeconds": 30}, "`minReadySeconds`"),
        ({"updateStrategy": {"type": "OnDelete"}}, "`updateStrategy: OnDelete`"),
        ({"strategy": {"type": "Recreate"}}, "`strategy: Recreate`"),
        ({"selector": {"matchLabels": {"app": "dns"}}}, "another `selector`"),
        ({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}, "revisionHistoryLimit": 3}, ""),
    ],
)
def test_how_pods_are_replaced(spec: dict[str, Any], words: str) -> None:
    """The pace is the chart's, but an operator who replaces pods himself, one by one, is asked first."""
    charts = copy.deepcopy(COREDNS)
    charts["spec"]["selector"] = {"matchLabels": {"k8s-app": "kube-dns"}}
    changed = copy.deepcopy(charts)
    changed["spec"].update(spec)
    if not words:
        check_addon(changed, _as_rendered(charts), {})
        return
    with pytest.raises(Blocked, match="parts that the chart would remove") as caught:
        check_addon(changed, _as_rendered(charts), {})
    assert words in caught.value.message


def test_a_program_and_tolerations_in_other_words_are_no_loss(helm: HelmAdapter) -> None:
    """kube-proxy without its folder, and a toleration beside the one for every taint."""
    proxy = _changed(PROXY, tolerations=[{"key": "CriticalAddonsOnly", "operator": "Exists"}, {"operator": "Exists"}])
    command = proxy["spec"]["template"]["spec"]["containers"][0]["command"]
    command[0] = "kube-proxy"
    _values(helm, COREDNS, proxy)
    command.append("--v=4")
    with pytest.raises(Blocked, match=r"DaemonSet kube-system/kube-proxy .* would remove: `--v=4`$"):
        _values(helm, COREDNS, proxy)


def test_labels_and_annotations_of_pods_are_kept(helm: HelmAdapter) -> None:
    """A mesh's and monitoring's; but none of those that only restart pods, and no label that the chart needs."""
    marks = {"sidecar.istio.io/inject": "false"}
    gone = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T10:00:00Z", "checksum/config": "abc"}
    metadata = {"labels": {"k8s-app": "kube-dns", "team": "net"}, "annotations": {**marks, **gone}}
    dns, proxy = copy.deepcopy(COREDNS), copy.deepcopy(PROXY)
    dns["spec"]["template"]["metadata"] = metadata
    proxy["spec"]["template"]["metadata"] = {**metadata, "labels": {"k8s-app": "kube-proxy", "team": "net"}}
    values = _values(helm, dns, proxy)
    for part, kind, name in (("coredns", "Deployment", "coredns"), ("kubeProxy", "DaemonSet", "kube-proxy")):
        assert (values[part]["podLabels"], values[part]["podAnnotations"]) == ({"team": "net"}, marks)
        spec = ReleaseSpec("kubernetes", "kube-system", charts_folder() / "kubernetes", values)
        objects = objects_in(helm.render(spec, offline=True)).values()
        (template,) = (
            each["spec"]["template"] for each in objects if each["kind"] == kind and each["metadata"]["name"] == name
        )
        assert template["metadata"]["labels"]["team"] == "net"
        assert template["metadata"]["annotations"].items() >= marks.items()
    dns["spec"]["template"]["metadata"] = {"labels": {"app.kubernetes.io/name": "CoreDNS"}}
    with pytest.raises(Blocked, match=r"would remove: the label app\.kubernetes\.io/name=CoreDNS"):
        _values(helm, dns, proxy)


def test_ports_and_probes_of_kubeadms_are_the_charts(helm: HelmAdapter) -> None:
    """By number, as older kubeadms wrote them, and by name; the times of a probe are the chart's on purpose."""
    ports = [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in _PORTS.items()]
    for live, ready in ((8080, 8181), ("liveness-probe", "readiness-probe")):
        probes = {
            "livenessProbe": {"httpGet": {"path": "/health", "port": live, "scheme": "HTTP"}, "timeoutSeconds": 5},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": ready, "scheme": "HTTP"}},
        }
        _values(helm, _changed(COREDNS, containers=[{**_COREDNS, "ports": ports, **probes}]), PROXY)


def test_labels_and_annotations_of_an_add_ons_pods_are_kept(helm: HelmAdapter) -> None:
    """An autoscaler, a policy or monitoring goes by them; the operator's own values win. The time of a restart by
    kubectl isn't a setting.
    """
    metadata = {
        "labels": {"k8s-app": "kube-dns", "team": "network"},
        "annotations": {
            "example.com/safe-to-evict": "true",
            "kubectl.kubernetes.io/restartedAt": "2026-01-01T10:00:00Z",
        },
    }
    dns = copy.deepcopy(COREDNS)
    dns["spec"]["template"]["metadata"] = metadata
    values = _values(helm, dns, PROXY)
    assert values["coredns"]["podLabels"] == {"team": "network"}
    assert values["coredns"]["podAnnotations"] == {"example.com/safe-to-evict": "true"}
    assert not values["kubeProxy"].keys() & {"podLabels", "podAnnotations"}
    known = replace(facts(), dns_deployment=dns, proxy_daemonset=PROXY)
    own = {"kubernetes": {"coredns": {"podLabels": {"team": "platform"}}}}
    derived = derive_values(known, ("10.0.0.1",), own, helm, charts_folder()).values["kubernetes"]
    assert derived["coredns"]["podLabels"] == {"team": "platform"}
    proxy = copy.deepcopy(PROXY)
    proxy["spec"]["template"]["metadata"] = metadata | {"labels": {"k8s-app": "kube-proxy", "team": "network"}}
    assert _values(helm, COREDNS, proxy)["kubeProxy"]["podLabels"] == {"team": "network"}


def test_a_label_that_the_charts_pods_have_with_another_value_is_refused(helm: HelmAdapter) -> None:
    """Whatever selects CoreDNS's pods by it would find none."""
    dns = copy.deepcopy(COREDNS)
    dns["spec"]["template"]["metadata"] = {"labels": {"k8s-app": "kube-dns", "app.kubernetes.io/name": "dns"}}
    with pytest.raises(Blocked, match=r"would remove: the label app\.kubernetes\.io/name=dns"):
        _values(helm, dns, PROXY)


_DNS_PORTS = [
    {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
    {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": "dns-tcp"},
    {"name": "metrics", "port": 9153, "protocol": "TCP", "targetPort": 9153},
]
_DNS_SPEC = {
    "clusterIP": "10.96.0.10",
    "clusterIPs": ["10.96.0.10"],
    "internalTrafficPolicy": "Cluster",
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
    "ports": _DNS_PORTS,
    "selector": {"k8s-app": "kube-dns"},
    "sessionAffinity": "None",
    "type": "ClusterIP",
}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, ""),
        ({"ports": [*_DNS_PORTS, {"port": 853, "protocol": "TCP", "targetPort": 8853}]}, "port 853/TCP to 8853"),
        ({"ports": [{"port": 53, "protocol": "UDP", "targetPort": 1053}]}, "port 53/UDP to 1053"),
        ({"selector": {"k8s-app": "node-local-dns"}}, "another `selector`"),
        ({"internalTrafficPolicy": "Local", "externalIPs": ["192.0.2.53"]}, "`externalIPs`, `internalTrafficPolicy`"),
    ],
)
def test_what_the_charts_service_of_dns_would_lack_is_refused(
    helm: HelmAdapter, spec: dict[str, Any], words: str
) -> None:
    """Clients use it; kubeadm's own, as the API server returns it, is taken over."""
    ports = [{"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"}]
    dns = _changed(COREDNS, containers=[{**_COREDNS, "ports": ports}])
    service = {"metadata": {"name": "kube-dns"}, "spec": {**_DNS_SPEC, **spec}}
    found = replace(facts(), dns_deployment=dns, proxy_daemonset=PROXY, dns_service=service)
    if not words:
        derive_values(found, ("10.0.0.1",), {}, helm, charts_folder())
        return
    with pytest.raises(Blocked) as caught:
        derive_values(found, ("10.0.0.1",), {}, helm, charts_folder())
    assert caught.value.message == f"Service kube-system/kube-dns has parts that the chart would remove: {words}"
    assert "another Service" in caught.value.remedy and "`coredns.enabled: false`" in caught.value.remedy
    released = {**service, "metadata": {"name": "kube-dns", "annotations": {"meta.helm.sh/release-name": "kubernetes"}}}
    derive_values(replace(found, dns_service=released), ("10.0.0.1",), {}, helm, charts_folder())
    alone = replace(found, dns_deployment=None, dns_service=None)
    derive_values(alone, ("10.0.0.1",), {}, helm, charts_folder())


@pytest.mark.parametrize(
    ("live", "own", "wanted"),
    [("PreferSameZone", "", "PreferSameZone"), ("PreferClose", "PreferSameNode", "PreferSameNode"), ("", "", None)],
)
def test_clients_of_dns_prefer_the_same_pods(helm: HelmAdapter, live: str, own: str, wanted: str | None) -> None:
    """In a cluster of several zones, requests stay in their own; the operator's values may say otherwise."""
    service = {
        "metadata": {"name": "kube-dns"},
        "spec": {**_DNS_SPEC, **({"trafficDistribution": live} if live else {})},
    }
    dns = _changed(COREDNS, containers=[{**_COREDNS, "ports": [{"name": "dns-tcp", "containerPort": 53}]}])
    found = replace(facts(), dns_deployment=dns, proxy_daemonset=PROXY, dns_service=service)
    chosen = {"kubernetes": {"coredns": {"trafficDistribution": own}}} if own else {}
    values = derive_values(found, ("10.0.0.1",), chosen, helm, charts_folder()).values["kubernetes"]
    text = helm.render(ReleaseSpec("kubernetes", "kube-system", charts_folder() / "kubernetes", values), offline=True)
    (spec,) = (item["spec"] for item in objects_in(text).values() if item["kind"] == "Service")
    assert spec.get("trafficDistribution") == wanted


def test_rights_of_coredns_that_the_chart_would_remove(helm: HelmAdapter) -> None:
    """A plugin's, such as those for Services of other clusters: without them, CoreDNS never gets ready again."""
    more = {"apiGroups": ["multicluster.x-k8s.io"], "resources": ["serviceimports"], "verbs": ["list", "watch"]}
    kubeadms = [
        {"apiGroups": [""], "resources": ["endpoints", "services", "pods", "namespaces"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
    ]
    role = {"kind": "ClusterRole", "metadata": {"name": "system:coredns"}, "rules": [*kubeadms, more]}
    found = replace(facts(), dns_deployment=COREDNS, proxy_daemonset=PROXY, dns_role=role)
    with pytest.raises(
        Blocked,
        match=r"ClusterRole system:coredns .* would remove: list, watch serviceimports\.multicluster\.x-k8s\.io",
    ) as caught:
        derive_values(found, ("10.0.0.1",), {}, helm, charts_folder())
    assert "separate ClusterRole" in caught.value.remedy
    for unharmed in (
        {**role, "rules": kubeadms},
        {**role, "metadata": {"name": "system:coredns", "annotations": {"meta.helm.sh/release-name": "kubernetes"}}},
        None,
    ):
        derive_values(replace(found, dns_role=unharmed), ("10.0.0.1",), {}, helm, charts_folder())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no kubeconfig.conf"),
        ("clusters: []", "has no server"),
        ("clusters: [{cluster: {}}]", "has no server"),
        ("clusters: [{cluster: {server: 'https://a:1'}}, {cluster: {server: 'https://b:1'}}]", "2 clusters"),
        ("clusters: [{cluster: {server: 'https://a:1', tls-server-name: b}}]", "`tls-server-name`"),
    ],
)
def test_a_kubeconfig_of_kube_proxys_that_is_not_kubeadms(helm: HelmAdapter, text: str, why: str) -> None:
    """A kube-proxy that uses another file or address, or what the chart's kubeconfig would lack, is named."""
    found = replace(facts(), dns_deployment=COREDNS, proxy_daemonset=PROXY, proxy_kubeconfig=text)
    with pytest.raises(Blocked, match="ConfigMap kube-system/kube-proxy") as caught:
        derive_values(found, ("10.0.0.1",), {}, helm, charts_folder())
    assert why in caught.value.message and "`kubeProxy.enabled: false`" in caught.value.remedy


def test_a_release_that_is_there_has_the_last_word() -> None:
    """Adopting again changes nothing, and asks nothing."""
    changed = _changed(COREDNS, nodeSelector={"role": "infra"})
    changed["metadata"]["annotations"] = {"meta.helm.sh/release-name": "kubernetes"}
    check_addon(changed, _as_rendered(COREDNS), {})
    check_addon(_changed(COREDNS, nodeSelector={"role": "infra"}), "", {})


@pytest.mark.parametrize("which", ["deployment", "service", "role", "proxy"])
def test_what_another_release_of_helm_has_is_refused(helm: HelmAdapter, which: str) -> None:
    """CoreDNS by its own chart, say: the next upgrade of that release would change it back."""
    ports = [{"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"}]
    objects: dict[str, Any] = {
        "deployment": _changed(COREDNS, containers=[{**_COREDNS, "ports": ports}]),
        "service": {"kind": "Service", "metadata": {"name": "kube-dns"}, "spec": _DNS_SPEC},
        "role": {"kind": "ClusterRole", "metadata": {"name": "system:coredns"}, "rules": []},
        "proxy": copy.deepcopy(PROXY),
    }

    def derived() -> None:
        found = replace(
            facts(),
            dns_deployment=objects["deployment"],
            dns_service=objects["service"],
            dns_role=objects["role"],
            proxy_daemonset=objects["proxy"],
        )
        derive_values(found, ("10.0.0.1",), {}, helm, charts_folder())

    annotations = objects[which]["metadata"].setdefault("annotations", {})
    annotations |= {"meta.helm.sh/release-name": "dns", "meta.helm.sh/release-namespace": "kube-system"}
    with pytest.raises(Blocked, match=r"belongs to Helm release kube-system/dns, .*; nothing was changed") as caught:
        derived()
    section = "kubeProxy" if which == "proxy" else "coredns"
    assert f"`{section}.enabled: false`" in caught.value.remedy
    annotations["meta.helm.sh/release-name"] = "kubernetes"
    derived()


@pytest.mark.parametrize(
    ("where", "name", "tool"),
    [
        ("annotations", "argocd.argoproj.io/tracking-id", "Argo CD"),
        ("labels", "argocd.argoproj.io/instance", "Argo CD"),
        ("labels", "kustomize.toolkit.fluxcd.io/name", "Flux"),
    ],
)
def test_what_a_gitops_tool_applies_is_refused(where: str, name: str, tool: str) -> None:
    """They apply a chart's objects without a release of Helm's, and change them back. Once the objects are of the
    release `kubernetes`, what is left of such a mark asks nothing.
    """
    taken: dict[str, Any] = copy.deepcopy(COREDNS)
    taken["metadata"][where] = {name: "dns"}
    with pytest.raises(Blocked, match=f"Deployment kube-system/coredns is applied by {tool} .*; nothing was") as caught:
        check_addon(taken, _as_rendered(COREDNS), {})
    assert "`coredns.enabled: false`" in caught.value.remedy and f"-n kube-system {name}-" in caught.value.remedy
    taken["metadata"].setdefault("annotations", {})["meta.helm.sh/release-name"] = "kubernetes"
    check_addon(taken, _as_rendered(COREDNS), {})


def _as_rendered(workload: dict[str, Any]) -> str:
    return yaml.safe_dump(workload)


def test_an_add_on_of_somebody_elses_is_left_alone(helm: HelmAdapter) -> None:
    """Kubespray's CoreDNS, and a cluster whose kube-proxy Cilium replaces: the chart renders neither."""
    values = _values(helm, None, None)
    assert values["coredns"] == values["kubeProxy"] == {"enabled": False}
    assert left_alone({"coredns": {"enabled": False}, "kubeProxy": {"enabled": True}}) == {"coredns"}
    assert left_alone({"coredns": {}, "kubeProxy": None}) == frozenset()


def test_a_volume_of_all_keys_is_the_charts_own_where_the_corefile_is_the_only_one(helm: HelmAdapter) -> None:
    """As in CoreDNS's manifests that aren't kubeadm's. Nothing goes with it; with another key, that is named."""
    dns = _changed(COREDNS, volumes=[{"name": "config-volume", "configMap": {"name": "coredns", "defaultMode": 420}}])
    assert _values(helm, dns, PROXY, keys=("Corefile",))["coredns"]["replicas"] == 2
    with pytest.raises(Blocked, match=r"volume config-volume \(ConfigMap coredns: Corefile, NodeHosts\)"):
        _values(helm, dns, PROXY, keys=("Corefile", "NodeHosts"))
    other = _changed(COREDNS, volumes=[{"name": "zones", "configMap": {"name": "coredns-custom"}}])
    with pytest.raises(Blocked, match=r"volume zones \(ConfigMap coredns-custom: all keys\)"):
        _values(helm, other, PROXY, keys=("Corefile",))


def test_the_keys_of_the_config_map_are_read() -> None:
    """Also those that aren't text: a volume of all keys has them, too."""
    kube = FakeKube()
    contents: dict[str, dict[str, Any]] = {
        "kubeadm-config": {"data": {"ClusterConfiguration": "kubernetesVersion: v1.36.3"}},
        "coredns": {"data": {"Corefile": ".:53 {}"}, "binaryData": {"zone.gz": "AA=="}},
    }
    for name, content in contents.items():
        kube.put(_CONFIG_MAPS, {"metadata": {"name": name, "namespace": "kube-system"}, **content})
    meta = {"name": "kube-dns", "namespace": "kube-system"}
    kube.put(Kind("v1", "services"), {"metadata": meta, "spec": {"clusterIP": "10.96.0.10"}})
    kube.put(Kind("apps/v1", "deployments"), COREDNS)
    assert read_facts(kube, FakeHosts(), (), (), {"kubeProxy"}).dns_keys == ("Corefile", "zone.gz")


def test_add_ons_that_are_missing_are_named() -> None:
    """Nothing was changed, and the value is named that leaves them alone; then they aren't asked for."""
    kube, hosts = FakeKube(), FakeHosts()
    with pytest.raises(Blocked, match="kubeadm-config does not exist; nothing was changed"):
        read_facts(kube, hosts, (), ())
    kube.put(
        _CONFIG_MAPS,
        {
            "metadata": {"name": "kubeadm-config", "namespace": "kube-system"},
            "data": {"ClusterConfiguration": "kubernetesVersion: v1.36.3"},
        },
    )
    with pytest.raises(Blocked, match="configmaps kube-system/kube-proxy does not exist") as caught:
        read_facts(kube, hosts, (), ())
    assert "`kubeProxy.enabled: false`" in caught.value.remedy
    found = read_facts(kube, hosts, (), (), {"kubeProxy", "coredns"})
    assert found.dns_deployment is None and found.proxy_daemonset is None


_BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in pairwise("abcdefghijklmnopqrstuvwxyz"))


@pytest.mark.parametrize("text", [_BOMB, "[" * 5000, "a: [", "- a"], ids=["anchors", "nested", "broken", "list"])
@pytest.mark.parametrize("key", ["config.conf", "kubeconfig.conf", "ClusterConfiguration"])
def test_a_config_map_that_would_take_all_memory_is_refused(key: str, text: str) -> None:
    """Who writes ConfigMaps in kube-system ends adoption with a sentence, and not this machine's memory."""
    kube = FakeKube()
    contents = {
        "kubeadm-config": {"ClusterConfiguration": "kubernetesVersion: v1.36.3"},
        "kube-proxy": {"config.conf": "mode: nftables", "kubeconfig.conf": "clusters: []"},
    }
    for name, data in contents.items():
        meta = {"name": name, "namespace": "kube-system"}
        kube.put(_CONFIG_MAPS, {"metadata": meta, "data": data | ({key: text} if key in data else {})})
    with pytest.raises(Blocked, match=f"{key}: it .*; nothing was changed"):
        read_facts(kube, FakeHosts(), (), (), {"coredns"})


def test_only_the_first_document_of_kube_proxys_files_counts(helm: HelmAdapter) -> None:
    """As for kube-proxy: what follows it, a `---` at the end, say, is ignored."""
    kube = FakeKube()
    kubeconfig = "clusters: [{cluster: {server: 'https://api:6443'}}]\n---\nclusters: []\n"
    contents = {
        "kubeadm-config": {"ClusterConfiguration": "kubernetesVersion: v1.36.3"},
        "kube-proxy": {"config.conf": "mode: ipvs\n---\nmode: nftables\n", "kubeconfig.conf": kubeconfig},
    }
    for name, data in contents.items():
        kube.put(_CONFIG_MAPS, {"metadata": {"name": name, "namespace": "kube-system"}, "data": data})
    kube.put(Kind("apps/v1", "daemonsets"), PROXY)
    found = read_facts(kube, FakeHosts(), facts().controllers[:0], (), {"coredns"})
    known = replace(facts(), proxy_config=found.proxy_config, proxy_kubeconfig=found.proxy_kubeconfig)
    values = derive_values(known, ("10.0.0.1",), {}, helm, charts_folder()).values["kubernetes"]["kubeProxy"]
    assert values["config"] == {"mode": "ipvs"} and values["server"] == "https://api:6443"


def test_resources_that_nobody_gave() -> None:
    """kubeadm's kube-proxy has none."""
    assert addon_values(PROXY) == {}
