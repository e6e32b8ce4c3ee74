"""The kube-apiserver chart: what an operator relies on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.conftest import Refused, Render, Rendered

ONE: dict[str, Any] = {"kubernetesVersion": "v1.36.3", "endpoints": {"addresses": ["192.0.2.11"]}}
THREE: dict[str, Any] = {"kubernetesVersion": "v1.36.3", "replicas": 3}
NAME = ("Deployment", "kube-apiserver")
API = (*NAME, "kube-apiserver")


def _variables(rendered: Rendered) -> dict[str, str]:
    """The environment of HAProxy's container, without what the kubelet fills in."""
    return {e["name"]: e["value"] for e in rendered.container(*NAME, "haproxy")["env"] if "value" in e}


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
    """kube-apiserver is started at the address that its init container chose, and advertises the node's address."""
    rendered = render("kube-apiserver", ONE)
    command = rendered.container(*API)["command"]
    assert command[-2:] == ["/run/kube-apiserver/files/start.sh", "kube-apiserver"]
    flags = rendered.flags(*API)
    assert "bind-address" not in flags
    assert flags["advertise-address"] == ["$(HOST_IP)"]
    assert flags["permit-port-sharing"] == ["true"]


def test_old_kubelets_can_run_it(render: Render) -> None:
    """Nothing asks a kubelet to read a file into the environment (v1.35), or to keep an init container (v1.33)."""
    pod = render("kube-apiserver", ONE).pod(*NAME)["spec"]
    containers = pod["initContainers"] + pod["containers"]
    sources = {key for c in containers for e in c.get("env", []) for key in e.get("valueFrom", {})}
    assert sources == {"fieldRef"}
    assert not any("restartPolicy" in container for container in containers)


def test_haproxy_can_not_change_what_starts_kube_apiserver(render: Render) -> None:
    """The init container alone writes the shell, the address and the token: elsewhere they are mounted read-only."""
    pod = render("kube-apiserver", ONE).pod(*NAME)["spec"]
    mounted = {c["name"]: m for c in pod["containers"] for m in c["volumeMounts"] if m["name"] == "runtime"}
    assert mounted.keys() == {"kube-apiserver", "haproxy"}
    assert all(mount["readOnly"] is True for mount in mounted.values())


def test_kube_apiserver_sees_that_its_proxy_moves_clients(render: Render) -> None:
    """Its container has the folder in which the proxy says so, where it can't write."""
    found = {mount["name"]: mount for mount in render("kube-apiserver", ONE).container(*API)["volumeMounts"]}
    assert found["listener"] == {"name": "listener", "mountPath": "/run/kube-apiserver-proxy", "readOnly": True}


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


def test_from_one_replica_to_three_the_service_keeps_an_endpoint(render: Render) -> None:
    """The chart's own EndpointSlice stays as long as its address is set: the leases of three instances appear later."""
    one, three = (render("kube-apiserver", ONE | {"replicas": count}) for count in (1, 3))
    assert three.flags(*API)["endpoint-reconciler-type"] == ["lease"]
    kept, before = (each.get("EndpointSlice", "kube-apiserver")["endpoints"] for each in (three, one))
    assert kept == before


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
    assert 'bind "${HOST_IP}:7443"' in front and 'bind "${ANY_ADDRESS}:6443" v4v6' in front
    assert rendered.get("EndpointSlice", "kube-apiserver")["ports"][0]["port"] == 7443


def test_more_addresses_are_served_wherever_they_are(render: Render) -> None:
    """HAProxy binds to an address that the node doesn't have yet, on the same port; no other address is added."""
    extra = {"extraAddresses": ["192.0.2.9", "2001:db8::9"]}
    front = render("kube-apiserver", ONE | extra).get("ConfigMap", "kube-apiserver-proxy")["data"]["front.cfg"]
    assert [line.strip() for line in front.splitlines() if "bind " in line] == [
        'bind "${HOST_IP}:6443"',
        'bind "192.0.2.9:6443" transparent',
        'bind "2001:db8::9:6443" transparent',
    ]


def test_grace_periods_add_up(render: Render) -> None:
    """The grace period is longer than the drain and the end of watches together."""
    rendered = render("kube-apiserver", ONE)
    drain = rendered.container(*API)["lifecycle"]["preStop"]["sleep"]["seconds"]
    watches = int(rendered.flags(*API)["shutdown-watch-termination-grace-period"][0].removesuffix("s"))
    hold = int(_variables(rendered)["HOLD_SECONDS"])
    assert rendered.pod(*NAME)["spec"]["terminationGracePeriodSeconds"] > drain + max(watches, hold)
    assert int(_variables(rendered)["DRAIN_SECONDS"]) == drain


def test_the_proxy_outlives_a_short_grace_period(render: Render) -> None:
    """HAProxy's container has a hook that tells its script to end, as only a hook that lasts makes the kubelet wait
    with SIGKILL until kube-apiserver, which has one too, has got its own signal.
    """
    proxy = render("kube-apiserver", ONE).container(*NAME, "haproxy")
    assert proxy["lifecycle"]["preStop"]["exec"]["command"] == [*proxy["command"][:-1], "stop"]


def test_a_grace_period_that_is_too_short_is_refused(render: Render) -> None:
    """Short grace periods are refused, as they would kill connections during the drain."""
    with pytest.raises(Refused, match="terminationSeconds"):
        render("kube-apiserver", ONE | {"gracefulShutdown": {"terminationSeconds": 20}})
    with pytest.raises(Refused, match="holdSeconds"):
        render("kube-apiserver", ONE | {"gracefulShutdown": {"holdSeconds": 40}})
    with pytest.raises(Refused, match="holdSeconds"):  # the hold may take a second more, until the 429 begins
        render("kube-apiserver", ONE | {"gracefulShutdown": {"holdSeconds": 20, "terminationSeconds": 36}})
    without_hold = {"holdSeconds": 0, "watchSeconds": 0, "terminationSeconds": 16}
    assert render("kube-apiserver", ONE | {"gracefulShutdown": without_hold}).pod(*NAME)


@pytest.mark.parametrize(("flags", "sorted_out"), [({}, True), ({"disable-http2-serving": "true"}, False)])
def test_http2_has_a_process_of_its_own(render: Render, flags: dict[str, str], sorted_out: bool) -> None:
    """A client that offers HTTP/2 goes through the process that can pause; none does where HTTP/2 is switched off."""
    files = render("kube-apiserver", ONE | {"extraArgs": flags}).get("ConfigMap", "kube-apiserver-proxy")["data"]
    assert ("use-server http2 if { req.ssl_alpn -m reg (^|,)h2(,|$) }" in files["front.cfg"]) is sorted_out
    assert 'source "${PRIVATE_ADDRESS}"' in files["front.cfg"] and 'source "' not in files["http2.cfg"]
    assert 'bind "unix@${STATE}/http2.sock"' in files["http2.cfg"]


def test_the_check_authenticates_with_a_token_that_only_this_pod_has(render: Render) -> None:
    """The pod makes the token, kube-apiserver reads it, and no other container has it in a file, manifest or flag."""
    rendered = render("kube-apiserver", ONE)
    (file,) = rendered.flags(*API)["token-auth-file"]
    assert _variables(rendered)["TOKEN_FILE"] == file
    volumes = {v["name"]: v for v in rendered.pod(*NAME)["spec"]["volumes"]}
    mounts = {m["mountPath"]: m["name"] for m in rendered.container(*API)["volumeMounts"]}
    assert "emptyDir" in volumes[mounts[file.rpartition("/")[0]]]
    check = rendered.get("ConfigMap", "kube-apiserver-proxy")["data"]["check.cfg"]
    assert check.count('hdr Authorization "Bearer ${TOKEN}"') == 2


def test_the_checkers_page_forwards_one_request_alone(render: Render) -> None:
    """Other processes of the node reach its address: only the request that proxy.sh holds back is passed on."""
    check = render("kube-apiserver", ONE).get("ConfigMap", "kube-apiserver-proxy")["data"]["check.cfg"]
    forwarded = [line.strip() for line in check.splitlines() if "_backend " in line]
    assert forwarded == ["use_backend held if METH_POST { path /apis/authentication.k8s.io/v1/selfsubjectreviews }"]
    assert "\n  timeout http-request 2s\n" in check


def test_without_a_token_the_check_is_anonymous(render: Render) -> None:
    """`health.token: false` leaves no trace of a token."""
    rendered = render("kube-apiserver", ONE | {"health": {"token": False}})
    assert "token-auth-file" not in rendered.flags(*API)
    assert "TOKEN_FILE" not in _variables(rendered)
    assert "Authorization" not in rendered.get("ConfigMap", "kube-apiserver-proxy")["data"]["check.cfg"]


@pytest.mark.parametrize(
    "values",
    [
        {"extraArgs": {"token-auth-file": "/etc/kubernetes/tokens.csv"}},
        *(
            {"extraArgs": {"anonymous-auth": off}, "health": {"token": False}}
            for off in ("false", "False", "FALSE", "f", "F", "0", ["true", "False"])
        ),
    ],
)
def test_a_check_that_can_never_succeed_is_refused(render: Render, values: dict[str, Any]) -> None:
    """No second token file, and no anonymous check of a server that refuses anonymous requests, however that is spelled
    (Kubespray writes `False`).
    """
    with pytest.raises(Refused, match=r"health\.token"):
        render("kube-apiserver", ONE | values)


def test_no_anonymous_requests(render: Render) -> None:
    """`anonymous-auth=false` is accepted, as the check authenticates."""
    flags = render("kube-apiserver", ONE | {"extraArgs": {"anonymous-auth": "false"}}).flags(*API)
    assert flags["anonymous-auth"] == ["false"] and "token-auth-file" in flags


def test_only_the_files_that_a_flag_names_are_mounted(render: Render) -> None:
    """No container sees a CA's key, nor the folder that has it; a file of the operator's flags is mounted as well."""
    more = {"service-account-key-file": ["/etc/kubernetes/pki/sa.pub", "/etc/kubernetes/pki/old/sa.pub"]}
    more["tls-sni-cert-key"] = ["/etc/kubernetes/pki/x.crt,/etc/kubernetes/pki/x.key:*.example.org"]
    rendered = render("kube-apiserver", ONE | {"extraArgs": more})
    paths = {v["hostPath"]["path"] for v in rendered.pod(*NAME)["spec"]["volumes"] if "hostPath" in v}
    mounts = {m["mountPath"] for m in rendered.container(*API)["volumeMounts"]}
    pki = {path for path in paths if path.startswith("/etc/kubernetes")}
    assert pki == {path for path in mounts if path.startswith("/etc/kubernetes")}
    assert {"old/sa.pub", "x.crt", "x.key", "sa.key", "etcd/ca.crt"} <= {
        p.removeprefix("/etc/kubernetes/pki/") for p in pki
    }
    assert not any(path.endswith(("ca.key", "/pki", "/kubernetes")) for path in pki)
    proxy = {m["mountPath"] for m in rendered.container(*NAME, "haproxy")["volumeMounts"]}
    assert proxy == {"/run/kube-apiserver", "/run/kube-apiserver-proxy"}


def test_a_file_that_the_operator_mounts_is_not_mounted_twice(render: Render) -> None:
    """A mount of `extraVolumeMounts` has precedence over the chart's own mount of the same file."""
    own = {"name": "own", "mountPath": "/etc/kubernetes/pki/etcd"}
    values = {"extraVolumes": [{"name": "own", "emptyDir": {}}], "extraVolumeMounts": [own]}
    mounts = [m["mountPath"] for m in render("kube-apiserver", ONE | values).container(*API)["volumeMounts"]]
    assert "/etc/kubernetes/pki/etcd" in mounts and "/etc/kubernetes/pki/etcd/ca.crt" not in mounts


def test_haproxy_is_not_root_once_it_listens(render: Render) -> None:
    """All HAProxy processes change their user; only the capabilities for that, and for ending them, are added."""
    rendered = render("kube-apiserver", ONE)
    for file in ("check.cfg", "front.cfg", "http2.cfg"):
        assert "\n  uid 99\n  gid 99\n" in rendered.get("ConfigMap", "kube-apiserver-proxy")["data"][file]
    capabilities = rendered.container(*NAME, "haproxy")["securityContext"]["capabilities"]
    assert capabilities == {"drop": ["ALL"], "add": ["SETUID", "SETGID", "KILL"]}


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
