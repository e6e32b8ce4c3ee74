"""The kubernetes chart: controller-manager, scheduler, kube-proxy and CoreDNS as an operator relies on them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.charts.conftest import Refused, Render

VALUES: dict[str, Any] = {
    "kubernetesVersion": "v1.36.3",
    "network": {"podSubnet": "10.244.0.0/16"},
    "kubeProxy": {"server": "https://192.0.2.10:6443"},
}
LEADERS = ["kube-controller-manager", "kube-scheduler"]


@pytest.mark.parametrize("name", LEADERS)
def test_the_replacement_is_ready_first(render: Render, name: str) -> None:
    """A rollout keeps the old pod until the new one is Ready, as a controller-manager creates its own successor."""
    deployment = render("kubernetes", VALUES).get("Deployment", name)
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


@pytest.mark.parametrize("name", LEADERS)
def test_two_fit_on_one_node(render: Render, name: str) -> None:
    """Two instances fit on a node: each binds its own address, and no anti-affinity forbids it."""
    pod = render("kubernetes", VALUES).pod("Deployment", name)["spec"]
    assert not pod.get("hostNetwork")
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in pod["affinity"]["podAntiAffinity"]


@pytest.mark.parametrize("name", LEADERS)
def test_probes_reach_the_pod_itself(render: Render, name: str) -> None:
    """It listens on its own address, and every probe goes there."""
    rendered = render("kubernetes", VALUES)
    assert rendered.flags("Deployment", name, name)["bind-address"] == ["0.0.0.0"]
    container = rendered.container("Deployment", name, name)
    assert all("host" not in container[p]["httpGet"] for p in container if p.endswith("Probe"))


@pytest.mark.parametrize("name", LEADERS)
def test_it_comes_back_without_anybody_to_create_it(render: Render, name: str) -> None:
    """Their checkpoints wait until there is no leader."""
    pod = render("kubernetes", VALUES).pod("Deployment", name)
    annotations = pod["metadata"]["annotations"]
    assert annotations["checkpointer.upgrader.io/checkpoint"] == "true"
    assert annotations["checkpointer.upgrader.io/lease"] == name
    assert pod["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize(
    ("flag", "value", "accepted"),
    [
        ("leader-elect", "false", False),
        ("leader-elect", ["true", "0"], False),
        ("leader-elect", "True", True),
        ("leader-elect-resource-name", "other", False),
        ("leader-elect-resource-name", "kube-scheduler", True),
        ("leader-elect-resource-namespace", "default", False),
        ("leader-elect-resource-namespace", "kube-system", True),
        ("leader-elect-retry-period", "3s", True),
    ],
)
def test_another_lease_is_refused(render: Render, flag: str, value: object, accepted: bool) -> None:
    """While a rollout changes the Lease, two pods would act at once; and the standby pod waits for Kubernetes' own."""
    values = {**VALUES, "scheduler": {"extraArgs": {flag: value}}}
    if accepted:
        assert render("kubernetes", values).flags("Deployment", "kube-scheduler", "kube-scheduler")[flag] == [value]
        return
    with pytest.raises(Refused, match=f"extraArgs of kube-scheduler: .*{flag}"):
        render("kubernetes", values)


@pytest.mark.parametrize("name", LEADERS)
def test_anti_affinity_matches_the_pods_it_is_about(render: Render, name: str) -> None:
    """The anti-affinity selects a label that the pods have."""
    pod = render("kubernetes", VALUES).pod("Deployment", name)
    (term,) = pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_kubeadms_names_and_selectors(render: Render) -> None:
    """Names and selectors are kubeadm's, so that Helm can take ownership of its objects."""
    rendered = render("kubernetes", VALUES)
    assert rendered.get("DaemonSet", "kube-proxy")["spec"]["selector"]["matchLabels"] == {"k8s-app": "kube-proxy"}
    assert rendered.get("Deployment", "coredns")["spec"]["selector"]["matchLabels"] == {"k8s-app": "kube-dns"}
    assert rendered.get("Service", "kube-dns")["spec"]["selector"] == {"k8s-app": "kube-dns"}
    assert rendered.names("ClusterRoleBinding") == {"kubeadm:node-proxier", "system:coredns"}


@pytest.mark.parametrize(("values", "wanted"), [({}, "10%"), ({"maxUnavailable": 3}, 3)])
def test_kube_proxy_is_replaced_on_a_tenth_of_the_nodes(render: Render, values: dict[str, Any], wanted: Any) -> None:
    """One node after the other would exceed Helm's timeout from some 20 nodes on."""
    rendered = render("kubernetes", {**VALUES, "kubeProxy": {**VALUES["kubeProxy"], **values}})
    strategy = rendered.get("DaemonSet", "kube-proxy")["spec"]["updateStrategy"]
    assert strategy["rollingUpdate"] == {"maxUnavailable": wanted}


def test_uninstalling_leaves_proxy_and_dns(render: Render) -> None:
    """Uninstalling the release keeps every object of kube-proxy and CoreDNS, and deletes the others."""
    for item in render("kubernetes", VALUES).objects:
        kept = item["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
        assert kept is (item["metadata"]["labels"]["app.kubernetes.io/name"] in ("kube-proxy", "coredns"))


def test_kube_proxy_configuration_comes_out_as_it_went_in(render: Render) -> None:
    """The chart's kube-proxy configuration has kubeadm's keys and values."""
    config = {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": "10.9.0.0/16",
        "clientConnection": {"kubeconfig": "/var/lib/kube-proxy/kubeconfig.conf", "qps": 0},
        "conntrack": {"maxPerCore": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"},
    }
    values = VALUES | {"kubeProxy": {"server": "https://192.0.2.10:6443", "config": config}}
    data = render("kubernetes", values).get("ConfigMap", "kube-proxy")["data"]
    assert yaml.safe_load(data["config.conf"]) == config
    assert yaml.safe_load(data["kubeconfig.conf"])["clusters"][0]["cluster"]["server"] == "https://192.0.2.10:6443"


@pytest.mark.parametrize(
    ("bound", "host", "port"),
    [(None, "127.0.0.1", 10256), ("127.0.0.1:99", "127.0.0.1", 99), ("[::]:10256", "127.0.0.1", 10256)],
)
def test_kube_proxys_probe_follows_its_configuration(render: Render, bound: str | None, host: str, port: int) -> None:
    """The probes use the address where kube-proxy serves its health."""
    config = {"healthzBindAddress": bound} if bound else {}
    values = VALUES | {"kubeProxy": VALUES["kubeProxy"] | {"config": config}}
    probe = render("kubernetes", values).container("DaemonSet", "kube-proxy", "kube-proxy")["readinessProbe"]["httpGet"]
    assert (probe["host"], probe["port"]) == (host, port)


def test_kube_proxy_needs_the_apis_address(render: Render) -> None:
    """Without the API's address the chart fails and names the value: kube-proxy can't use its own Service."""
    with pytest.raises(Refused, match=r"kubeProxy\.server"):
        render("kubernetes", VALUES | {"kubeProxy": {}})


def test_parts_can_be_left_out(render: Render) -> None:
    """kube-proxy and CoreDNS can be disabled, for clusters that have replacements."""
    rendered = render("kubernetes", {"kubeProxy": {"enabled": False}, "coredns": {"enabled": False}})
    assert rendered.names("Deployment") == set(LEADERS)
    assert not rendered.names("DaemonSet") and not rendered.names("ConfigMap")


def test_a_corefile_is_taken_as_it_is(render: Render) -> None:
    """The user's Corefile replaces the default one, and rolls the pods, so that an invalid one fails the rollout."""
    rendered = render("kubernetes", VALUES | {"coredns": {"corefile": ".:53 {\n    ready\n}\n"}})
    assert rendered.get("ConfigMap", "coredns")["data"]["Corefile"] == ".:53 {\n    ready\n}\n"
    before = render("kubernetes", VALUES).pod("Deployment", "coredns")["metadata"]["annotations"]
    assert rendered.pod("Deployment", "coredns")["metadata"]["annotations"] != before


@pytest.mark.parametrize(
    "text",
    [
        "    # zones\n.:53 {\n    ready\n}\n",
        "\n\t.:53 {\n\tready\n}",
        ".:53 {\r\n\tready\r\n}\r\n",
        '. {\n answer "{{ .Name }}"\n}\n',
    ],
    ids=["the first line is indented", "a tab", "Windows' line breaks", "a template"],
)
def test_a_corefile_of_any_shape_is_taken_as_it_is(render: Render, text: str) -> None:
    """Its first line doesn't decide how the others are read."""
    rendered = render("kubernetes", VALUES | {"coredns": {"corefile": text}})
    assert rendered.get("ConfigMap", "coredns")["data"] == {"Corefile": text}


def test_no_range_of_pods_stays_none_for_kube_proxy(render: Render) -> None:
    """`clusterCIDR: ""` is kube-proxy's own word for it, whatever ranges kube-controller-manager gives to nodes."""
    values = VALUES | {"network": {"podSubnet": "10.244.0.0/16"}}
    for config, wanted in (({"clusterCIDR": ""}, ""), ({}, "10.244.0.0/16")):
        part = {"kubeProxy": VALUES["kubeProxy"] | {"config": config}}
        data = render("kubernetes", values | part).get("ConfigMap", "kube-proxy")["data"]
        assert yaml.safe_load(data["config.conf"])["clusterCIDR"] == wanted


def test_the_version_is_that_of_kubernetes_only(render: Render) -> None:
    """One value sets the version of the Kubernetes images; CoreDNS keeps its own."""
    rendered = render("kubernetes", VALUES | {"kubernetesVersion": "v1.37.1"})
    for kind, name in [("Deployment", LEADERS[0]), ("Deployment", LEADERS[1]), ("DaemonSet", "kube-proxy")]:
        assert rendered.container(kind, name, name)["image"] == f"registry.k8s.io/{name}:v1.37.1"
    assert rendered.container("Deployment", "coredns", "coredns")["image"].endswith(":v1.14.2")


@pytest.mark.parametrize("name", LEADERS)
def test_several_replicas_are_evicted_one_at_a_time(render: Render, name: str) -> None:
    """One replica is never evicted; of several, one at a time."""
    one = render("kubernetes", VALUES).get("PodDisruptionBudget", name)["spec"]
    part = {"controllerManager": {"replicas": 3}, "scheduler": {"replicas": 3}}
    three = render("kubernetes", VALUES | part).get("PodDisruptionBudget", name)["spec"]
    assert one["minAvailable"] == 1 and three["maxUnavailable"] == 1


def test_unknown_values_are_refused(render: Render) -> None:
    """The schema refuses mistakes at any level."""
    with pytest.raises(Refused, match="schema"):
        render("kubernetes", VALUES | {"scheduler": {"extraArg": {}}})


def test_number_of_coredns_pods_can_be_left_to_an_autoscaler(render: Render) -> None:
    """With `null` the chart doesn't set it, and no more pods than a quarter are unavailable in a rollout."""
    spec = render("kubernetes", VALUES | {"coredns": {"replicas": None}}).get("Deployment", "coredns")["spec"]
    assert "replicas" not in spec
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == "25%"
    spec = render("kubernetes", VALUES).get("Deployment", "coredns")["spec"]
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]["maxUnavailable"]) == (2, 1)
