"""The kube-apiserver chart: what an operator relies on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.conftest import Refused, Render

ONE: dict[str, Any] = {"kubernetesVersion": "v1.36.3", "endpoints": {"addresses": ["192.0.2.11"]}}
THREE: dict[str, Any] = {"kubernetesVersion": "v1.36.3", "replicas": 3}
NAME = ("Deployment", "kube-apiserver")
API = (*NAME, "kube-apiserver")


def test_the_old_instance_stays_until_the_new_one_is_ready(render: Render) -> None:
    """A rollout adds an instance before it removes one: a bad version can't make the API unreachable."""
    spec = render("kube-apiserver", ONE).get(*NAME)["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert spec["minReadySeconds"] > 0


def test_two_instances_fit_on_one_node(render: Render) -> None:
    """Neither host ports nor required anti-affinity prevent a second instance on a single controller."""
    pod = render("kube-apiserver", ONE).pod(*NAME)["spec"]
    assert pod["hostNetwork"] is True
    assert not any("ports" in container for container in pod["containers"] + pod["initContainers"])
    assert list(pod["affinity"]["podAntiAffinity"]) == ["preferredDuringSchedulingIgnoredDuringExecution"]


def test_anti_affinity_matches_the_pods_it_is_about(render: Render) -> None:
    """The anti-affinity selects a label that the instances have."""
    pod = render("kube-apiserver", THREE).pod(*NAME)
    (term,) = pod["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert term["podAffinityTerm"]["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_each_controller_gets_an_instance(render: Render) -> None:
    """Instances of one revision are spread evenly over nodes; older revisions don't count."""
    pod = render("kube-apiserver", THREE).pod(*NAME)
    (spread,) = pod["spec"]["topologySpreadConstraints"]
    assert (spread["maxSkew"], spread["whenUnsatisfiable"]) == (1, "DoNotSchedule")
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["matchLabelKeys"] == ["pod-template-hash"]
    assert spread["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()


def test_first_instances_may_take_turns(render: Render) -> None:
    """The number of instances doesn't change the pod template."""
    all_of_them, first = (render("kube-apiserver", THREE | {"rollout": {"instances": n}}) for n in (None, 1))
    assert [rendered.get(*NAME)["spec"]["replicas"] for rendered in (all_of_them, first)] == [3, 1]
    assert all_of_them.pod(*NAME) == first.pod(*NAME)


def test_no_probe_goes_to_the_shared_address(render: Render) -> None:
    """Every probe runs in the pod, as another instance could answer a request to the node's address."""
    pod = render("kube-apiserver", ONE).pod(*NAME)["spec"]
    probes = [c[p] for c in pod["containers"] for p in c if p.endswith("Probe")]
    assert probes and all("exec" in probe for probe in probes)


def test_each_instance_has_an_address_of_its_own(render: Render) -> None:
    """kube-apiserver binds the address that its init container chose, and advertises the node's address."""
    rendered = render("kube-apiserver", ONE)
    flags = rendered.flags(*API)
    assert flags["bind-address"] == ["$(PRIVATE_ADDRESS)"]
    assert flags["advertise-address"] == ["$(HOST_IP)"]
    assert flags["permit-port-sharing"] == ["true"]
    env = {e["name"]: e["valueFrom"] for e in rendered.container(*API)["env"]}
    assert "fileKeyRef" in env["PRIVATE_ADDRESS"]


def test_same_values_make_the_same_manifest(render: Render) -> None:
    """Rendering is deterministic, so that a plan's diff shows only real changes."""
    assert render("kube-apiserver", ONE).text == render("kube-apiserver", ONE).text


def test_only_the_version_changes_with_the_version(render: Render) -> None:
    """An upgrade changes the image, and no other field of the pods."""
    old = render("kube-apiserver", ONE).pod(*NAME)
    new = render("kube-apiserver", ONE | {"kubernetesVersion": "v1.37.1"}).pod(*NAME)
    api = next(c for c in new["spec"]["containers"] if c["name"] == "kube-apiserver")
    assert api["image"] == "registry.k8s.io/kube-apiserver:v1.37.1"
    api["image"] = "registry.k8s.io/kube-apiserver:v1.36.3"
    assert new == old


def test_the_pod_runs_without_an_api(render: Render) -> None:
    """It can run as a static pod: no token, no claim, no Secret in its environment."""
    pod = render("kube-apiserver", ONE).pod(*NAME)
    assert pod["metadata"]["annotations"]["checkpointer.upgrader.io/checkpoint"] == "true"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert not any("projected" in v or "persistentVolumeClaim" in v for v in pod["spec"]["volumes"])
    assert "secretKeyRef" not in str(pod["spec"]["containers"])


def test_one_replica_keeps_its_own_endpoint(render: Render) -> None:
    """With one instance the Service's endpoints never become empty; no reconciler owns the slice."""
    rendered = render("kube-apiserver", ONE)
    assert rendered.flags(*API)["endpoint-reconciler-type"] == ["none"]
    piece = rendered.get("EndpointSlice", "kube-apiserver")
    assert piece["metadata"]["namespace"] == "default"
    assert piece["metadata"]["labels"]["kubernetes.io/service-name"] == "kubernetes"
    assert piece["endpoints"][0]["addresses"] == ["192.0.2.11"]
    assert piece["ports"] == [{"name": "https", "port": 6443, "protocol": "TCP"}]


def test_several_replicas_register_themselves(render: Render) -> None:
    """With several controllers instances hold leases, as a static list would keep a dead controller."""
    rendered = render("kube-apiserver", THREE)
    assert rendered.flags(*API)["endpoint-reconciler-type"] == ["lease"]
    assert not rendered.names("EndpointSlice")


def test_one_replica_without_an_address_is_refused(render: Render) -> None:
    """Without the controller's address the chart fails and names the missing value."""
    with pytest.raises(Refused, match=r"endpoints\.addresses"):
        render("kube-apiserver", {})


@pytest.mark.parametrize(("values", "budget"), [(ONE, {"minAvailable": 1}), (THREE, {"maxUnavailable": 1})])
def test_evictions_leave_an_instance(render: Render, values: dict[str, Any], budget: dict[str, int]) -> None:
    """One replica is never evicted; of several, one at a time."""
    spec = render("kube-apiserver", values).get("PodDisruptionBudget", "kube-apiserver")["spec"]
    assert budget.items() <= spec.items()


def test_extra_flags_win_and_may_be_repeated(render: Render) -> None:
    """A user's flag replaces the chart's own; a list repeats it in order."""
    extra = {"authorization-mode": "Node,RBAC,Webhook", "service-account-issuer": ["https://new", "https://old"]}
    flags = render("kube-apiserver", ONE | {"extraArgs": extra}).flags(*API)
    assert flags["authorization-mode"] == ["Node,RBAC,Webhook"]
    assert flags["service-account-issuer"] == ["https://new", "https://old"]


@pytest.mark.parametrize("flag", ["bind-address", "secure-port", "advertise-address", "endpoint-reconciler-type"])
def test_flags_of_the_hand_over_can_not_be_set(render: Render, flag: str) -> None:
    """extraArgs can't set the flags that let two instances share a node; the schema names the flag."""
    with pytest.raises(Refused, match=flag):
        render("kube-apiserver", ONE | {"extraArgs": {flag: "x"}})


@pytest.mark.parametrize(
    "values", [{"replica": 2}, {"image": {"tags": "x"}}, {"extraArgs": {"v": 2}}, {"kubernetesVersion": "1.36"}]
)
def test_a_slip_in_the_values_is_refused(render: Render, values: dict[str, Any]) -> None:
    """The schema refuses unknown keys at any level and values of a wrong type."""
    with pytest.raises(Refused, match="schema"):
        render("kube-apiserver", ONE | values)


def test_exposed_on_all_interfaces(render: Render) -> None:
    """The in-cluster port moves to 7443, as a specific address and 0.0.0.0 can't share 6443."""
    rendered = render("kube-apiserver", ONE | {"exposeOnAllInterfaces": True})
    assert rendered.flags(*API)["secure-port"] == ["7443"]
    front = rendered.get("ConfigMap", "kube-apiserver-proxy")["data"]["front.cfg"]
    assert 'bind "${HOST_IP}:7443"' in front and 'bind "0.0.0.0:6443"' in front
    assert rendered.get("EndpointSlice", "kube-apiserver")["ports"][0]["port"] == 7443


def test_grace_periods_add_up(render: Render) -> None:
    """The grace period is longer than the drain and the end of watches together."""
    rendered = render("kube-apiserver", ONE)
    drain = rendered.container(*API)["lifecycle"]["preStop"]["sleep"]["seconds"]
    watches = int(rendered.flags(*API)["shutdown-watch-termination-grace-period"][0].removesuffix("s"))
    assert rendered.pod(*NAME)["spec"]["terminationGracePeriodSeconds"] > drain + watches


def test_a_grace_period_that_is_too_short_is_refused(render: Render) -> None:
    """Short grace periods are refused, as they would kill connections during the drain."""
    with pytest.raises(Refused, match="terminationSeconds"):
        render("kube-apiserver", ONE | {"gracefulShutdown": {"terminationSeconds": 20}})


def test_all_instances_run_as_one_user(render: Render) -> None:
    """HAProxy's user is fixed, as the kernel shares a port only among sockets of one user."""
    pod = render("kube-apiserver", ONE).pod(*NAME)["spec"]
    assert pod["securityContext"]["runAsUser"] == 0
    assert not any("runAsUser" in c["securityContext"] for c in pod["containers"])


def test_keys_from_a_secret(render: Render) -> None:
    """The Secret's keys are mounted under kubeadm's file names, so that no flag differs."""
    rendered = render("kube-apiserver", ONE | {"pki": {"source": "secret"}})
    volume = next(v for v in rendered.pod(*NAME)["spec"]["volumes"] if v["name"] == "pki")
    paths = {item["path"] for item in volume["secret"]["items"]}
    used = {v[0].removeprefix("/etc/kubernetes/pki/") for v in rendered.flags(*API).values() if "/pki/" in v[0]}
    assert used <= paths


def test_a_change_of_the_proxy_rolls_the_pods(render: Render) -> None:
    """A change of the proxy's configuration changes the checksum, and so rolls the pods."""
    old = render("kube-apiserver", ONE).pod(*NAME)["metadata"]["annotations"]["checksum/proxy"]
    new = render("kube-apiserver", ONE | {"haproxy": {"idleHours": 1}}).pod(*NAME)
    assert new["metadata"]["annotations"]["checksum/proxy"] != old


def test_images_by_digest(render: Render) -> None:
    """A digest has precedence over every tag."""
    digest = "sha256:" + "0" * 64
    values = ONE | {"image": {"digest": digest, "tag": "x"}, "haproxy": {"image": {"digest": digest}}}
    pod = render("kube-apiserver", values).pod(*NAME)["spec"]
    assert all(c["image"].endswith("@" + digest) for c in pod["containers"] + pod["initContainers"])
