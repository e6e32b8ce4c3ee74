"""What can't be taken over is refused by name: the controller, the pod, the part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_pods import FLAGS, PKI, kubeadm_facts, kubeadm_pod, volume
from upgrader.adopt import manifest_fields, static_pod_parts
from upgrader.adopt.client_addresses import ApiPod
from upgrader.adopt.facts import MANIFESTS, StaticPod, read_controllers
from upgrader.adopt.static_pod_parts import check_static_pods
from upgrader.adopt.values import base_values
from upgrader.adopt.volumes import extra_volumes, innermost_mount
from upgrader.errors import Blocked
from upgrader.model.cluster import Cluster, Host

_KMS = {"name": "kms-plugin", "image": "registry.example.org/kms:v1"}


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b"", ""),
        (b"kind: PodList\nitems: []\n", ""),
        (b"spec: {containers: []}\n", ""),
        (b"spec: {containers: [{name: kube-scheduler}]}\n", ""),
        (b"spec:\n  containers:\n  -\tname: kube-scheduler\n", ", line 3"),
        (b"\xff\xfe", ""),
        (b"spec: {volumes: [{hostPath: {path: /x}}], CONTAINERS}", ": a volume has no `name`"),
        (b"spec: {volumes: [{name: x, hostPath: {}}], CONTAINERS}", ": the volume x has no `path`"),
        (b"spec: {volumes: [x], CONTAINERS}", ""),
        (b"spec: {CONTAINERS_AND [{mountPath: /x}]}]}", ": a mount has no `name`"),
        (b"spec: {volumes: [{name: x}], CONTAINERS_AND [{name: x}]}]}", ": the mount x has no `mountPath`"),
        (b"spec: {CONTAINERS_AND [{name: x, mountPath: /x}]}]}", ": the pod has no volume for the mount x"),
        (b"spec: {CONTAINERS}", ": it has no `apiVersion: v1`"),
        (b"apiVersion: 1\nkind: Pod\nspec: {CONTAINERS}", ": its `apiVersion` is 1, not v1"),
        (b"apiVersion: v1\nkind: pod\nspec: {CONTAINERS}", ": its `kind` is pod, not Pod"),
    ],
)
def test_a_manifest_that_is_none(tmp_path: Path, content: bytes, where: str) -> None:
    """A file that a full disk has emptied, or a tab has spoilt, or that lacks what Kubernetes requires: the kubelet
    runs none of them, and it is named.
    """
    hosts = FakeHosts()
    one = b"containers: [{name: kube-scheduler, image: x"
    content = content.replace(b"CONTAINERS_AND", one + b", volumeMounts:").replace(b"CONTAINERS", one + b"}]")
    hosts.files["controller-1", f"{MANIFESTS}/kube-scheduler.yaml"] = content
    controllers = (Host("controller-1", "10.0.0.1"),)
    cluster = Cluster(tmp_path, tmp_path / "kubeconfig", "", tmp_path / "hosts.yml", controllers)
    with pytest.raises(
        Blocked, match=f"controller-1: {MANIFESTS}/kube-scheduler.yaml is not a manifest .*{where};"
    ) as caught:
        read_controllers(hosts, cluster)
    assert "journalctl -u kubelet" in caught.value.remedy


def fields(model: type[Any]) -> set[str]:
    """Those of a type of the newest Kubernetes API, by the client library."""
    return set(model.attribute_map.values())


@pytest.mark.parametrize(
    ("known", "model", "former"),
    [
        (manifest_fields._POD, client.V1PodSpec, {"workloadRef"}),
        (manifest_fields._CONTAINER, client.V1Container, set()),
        (manifest_fields._MOUNT, client.V1VolumeMount, set()),
        (manifest_fields._VOLUME, client.V1Volume, set()),
        (manifest_fields._RESOURCES, client.V1ResourceRequirements, set()),
        (manifest_fields._SOURCES["emptyDir"], client.V1EmptyDirVolumeSource, set()),
        (manifest_fields._SOURCES["hostPath"], client.V1HostPathVolumeSource, set()),
    ],
)
def test_the_fields_are_those_of_the_newest_kubernetes(
    known: frozenset[str], model: type[Any], former: set[str]
) -> None:
    """None is said to be unknown to Kubernetes that it has; and no other, but those of earlier versions."""
    assert known == fields(model) | former


@pytest.mark.parametrize(
    ("part", "model", "taken_over"),
    [
        ("spec", client.V1PodSpec, static_pod_parts._POD),
        ("container", client.V1Container, static_pod_parts.CONTAINER_FIELDS),
        ("pod's context", client.V1PodSecurityContext, frozenset()),
        ("container's context", client.V1SecurityContext, frozenset({"readOnlyRootFilesystem"})),
    ],
)
def test_what_the_newest_kubernetes_has_is_taken_over_or_refused(
    part: str, model: type[Any], taken_over: frozenset[str]
) -> None:
    """Each field of a pod, of a container and of their security contexts, by its name: none is dropped in silence."""
    for name in sorted(fields(model) - taken_over):
        given: dict[str, Any] = {name: {"add": ["SYS_TIME"]} if name == "capabilities" else [{"name": "x"}]}
        if part.endswith("context"):
            given = {"securityContext": given}
        spec, container = ({}, given) if part.startswith("container") else (given, {})
        pod = kubeadm_pod("kube-scheduler", spec=spec, container=container)
        with pytest.raises(Blocked, match=rf"has `(securityContext\.)?{name}`.*which would be lost"):
            check_static_pods(kubeadm_facts(pod).controllers)


@pytest.mark.parametrize("component", FLAGS)
def test_what_kubeadm_writes_is_all_known(component: str) -> None:
    """A plain cluster's static pods, and stricter ones, are adopted."""
    strict = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsUser": 0}
    check_static_pods(kubeadm_facts(kubeadm_pod(component, container={"securityContext": strict})).controllers)


@pytest.mark.parametrize(
    ("spec", "container"),
    [
        ({"hostUsers": True}, {}),
        ({"os": {"name": "linux"}}, {}),
        ({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}, {}),
        ({"securityContext": {"fsGroupChangePolicy": "Always", "supplementalGroupsPolicy": "Merge"}}, {}),
        ({}, {"securityContext": {"procMount": "Default", "appArmorProfile": {"type": "RuntimeDefault"}}}),
        ({}, {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}),
        ({}, {"restartPolicy": "Always"}),
    ],
)
def test_what_kubernetes_does_by_itself_is_no_loss(spec: dict[str, Any], container: dict[str, Any]) -> None:
    """Fields with the value that they have where a manifest says nothing, as in the chart's pod."""
    pod = kubeadm_pod("kube-scheduler", spec=spec, container=container)
    check_static_pods(kubeadm_facts(pod).controllers)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"containers": [kubeadm_pod("kube-apiserver").container, _KMS]}, "another container, kms-plugin"),
        ({"containers": [_KMS, kubeadm_pod("kube-apiserver").container]}, "another container, kms-plugin"),
        ({"initContainers": [{"name": "wait", "image": "busybox"}]}, r"`initContainers` \(wait\)"),
        ({"hostAliases": [{"ip": "10.0.0.7", "hostnames": ["idp.example.org"]}]}, "`hostAliases`"),
        ({"hostPID": True}, "`hostPID`"),
        ({"hostUsers": False}, "`hostUsers`"),
        ({"os": {"name": "windows"}}, "`os`"),
        ({"dnsPolicy": "ClusterFirstWithHostNet"}, "`dnsPolicy: ClusterFirstWithHostNet`"),
        ({"securityContext": {"runAsUser": 2001, "supplementalGroups": [2004]}}, r"`securityContext\.runAsUser`"),
    ],
)
def test_a_pod_with_more_than_the_charts_have(spec: dict[str, Any], words: str) -> None:
    """Sidecars, a user of kubeadm's RootlessControlPlane, names of hosts…"""
    with pytest.raises(Blocked, match=f"kube-apiserver's static pod on controller-1 has {words}") as caught:
        check_static_pods(kubeadm_facts(kubeadm_pod("kube-apiserver", spec=spec)).controllers)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"envFrom": [{"secretRef": {"name": "x"}}]}, "`envFrom`"),
        ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}, "`resizePolicy`"),
        ({"restartPolicy": "OnFailure"}, "`restartPolicy`"),
        ({"lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}}}, "`lifecycle`"),
        (
            {"env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]},
            "the environment variable NODE",
        ),
        ({"securityContext": {"privileged": True}}, r"`securityContext\.privileged`"),
        ({"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}}, r"`securityContext\.capabilities`"),
        ({"command": ["/bin/sh", "-c", "exec kube-apiserver --v=2"]}, "the command `/bin/sh` instead"),
        ({"command": ["/opt/bin/kube-apiserver"]}, "`/opt/bin/kube-apiserver`, which the chart's pod wouldn't find"),
        ({"command": ["./kube-apiserver"]}, r"`\./kube-apiserver`, which the chart's pod wouldn't find"),
        ({"command": ["/kube-apiserver"]}, "`/kube-apiserver`, which the chart's pod wouldn't find"),
    ],
)
def test_a_container_with_more_than_the_charts_have(container: dict[str, Any], words: str) -> None:
    """A shell around the component would hide every flag: none of them would be taken over."""
    with pytest.raises(Blocked, match=words):
        check_static_pods(kubeadm_facts(kubeadm_pod("kube-apiserver", container=container)).controllers)


@pytest.mark.parametrize(
    ("of_volume", "of_mount", "words"),
    [
        ({}, {"readonly": True}, "`readonly` in the mount of audit at /srv/audit"),
        ({"hostpath": {"path": "/srv/audit"}}, {}, "`hostpath` in the volume audit"),
        ({"hostPath": {"path": "/srv/audit", "kind": "Directory"}}, {}, r"`hostPath\.kind` in the volume audit"),
    ],
)
def test_a_field_that_kubernetes_does_not_have(of_volume: dict[str, Any], of_mount: dict[str, Any], words: str) -> None:
    """A slip of the pen: the kubelet ignores it, but the API would refuse the chart's pod, halfway through."""
    (one, mount) = volume("audit", "/srv/audit")
    pod = kubeadm_pod("kube-apiserver", {}, ({**one, **of_volume}, {**mount, **of_mount}))
    with pytest.raises(
        Blocked, match=f"static pod on controller-1 has {words}, a field that Kubernetes doesn't have"
    ) as caught:
        check_static_pods(kubeadm_facts(pod).controllers)
    assert "Correct its name" in caught.value.remedy


@pytest.mark.parametrize(
    ("of_volume", "of_mount", "words"),
    [
        ({"emptyDir": {"mode": 0o1777}}, {}, r"`emptyDir\.mode` in the volume scratch"),
        ({"emptyDir": {}}, {"bindMountOptions": ["noexec"]}, "`bindMountOptions` in the mount of scratch at /scratch"),
    ],
)
def test_a_field_that_only_a_later_kubernetes_has(
    of_volume: dict[str, Any], of_mount: dict[str, Any], words: str
) -> None:
    """v1.37 has it, and takes it over; v1.36 would refuse the chart's pod. An image without a version doesn't tell."""
    pod = kubeadm_pod(
        "kube-apiserver",
        {},
        ({"name": "scratch", **of_volume}, {"name": "scratch", "mountPath": "/scratch"} | of_mount),
    )
    image = "registry.example.org/kube-apiserver"
    for tag in (":v1.37.0", ":v1.37.1-vendor.2", f":v1.37.1@sha256:{'0' * 64}", f"@sha256:{'0' * 64}"):
        check_static_pods(kubeadm_facts(replace(pod, image=image + tag)).controllers)
    with pytest.raises(Blocked, match=f"{words}, which Kubernetes has only since v1.37: ") as caught:
        check_static_pods(kubeadm_facts(replace(pod, image=f"{image}:v1.36.3")).controllers)
    assert "remove it" in caught.value.remedy


@pytest.mark.parametrize("component", FLAGS)
def test_a_path_without_its_beginning(component: str) -> None:
    """Of the working folder, which is the root, the program finds it; adoption would look for no such file, and mount
    none. What only looks like a path is none.
    """
    secrets = volume("secrets", "/srv/secrets", at="/etc/secrets")
    pod = kubeadm_pod(component, {"token-auth-file": "etc/secrets/tokens.csv"}, secrets)
    words = r"static pod on controller-1 has --token-auth-file=etc/secrets/tokens\.csv, which is not an absolute path"
    with pytest.raises(Blocked, match=words) as caught:
        check_static_pods(kubeadm_facts(pod).controllers)
    assert "/etc/secrets/tokens.csv" in caught.value.remedy
    harmless = kubeadm_pod(component, {"feature-gates": "etc", "runtime-config": "apps/v1"}, secrets)
    check_static_pods(kubeadm_facts(harmless).controllers)


@pytest.mark.parametrize("component", FLAGS)
def test_a_resource_by_a_wrong_name(component: str) -> None:
    """The chart's schema would refuse it, and name only the chart; what is right is no slip of the pen."""
    pod = kubeadm_pod(component, container={"resources": {"limit": {"memory": "1Gi"}}})
    with pytest.raises(Blocked, match=r"on controller-1 has `resources\.limit`, a field that Kubernetes doesn't have"):
        check_static_pods(kubeadm_facts(pod).controllers)
    claims = {"claims": [{"name": "gpu"}], "limits": {"cpu": "1"}}
    with pytest.raises(Blocked, match=r"has `resources\.claims`, which would be lost"):
        check_static_pods(kubeadm_facts(kubeadm_pod(component, container={"resources": claims})).controllers)
    fine = {"limits": {"cpu": 1}, "requests": None}
    check_static_pods(kubeadm_facts(kubeadm_pod(component, container={"resources": fine})).controllers)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("secure-port", ""),
        ("secure-port", "https"),
        ("secure-port", "0"),
        ("secure-port", "65536"),
        ("secure-port", "08443"),
        ("bind-address", "localhost"),
        ("advertise-address", "node-1"),
    ],
)
def test_an_address_that_is_none(flag: str, value: str) -> None:
    """kube-apiserver ends at it, so the file was changed since, or never worked: it is named, and no traceback."""
    pod = kubeadm_pod("kube-apiserver", {flag: value})
    with pytest.raises(Blocked, match=f"static pod on controller-1 has --{flag}={value}, which isn't ") as caught:
        check_static_pods(kubeadm_facts(pod).controllers)
    assert "Correct it" in caught.value.remedy


@pytest.mark.parametrize("port", ["0x1A0B", "6_667", "0o15013", "015013"])
def test_a_port_in_gos_spelling(port: str) -> None:
    """kube-apiserver starts with it, at that port; the chart gets the number."""
    pod = kubeadm_pod("kube-apiserver", {"secure-port": port})
    check_static_pods(kubeadm_facts(pod).controllers)
    assert base_values(kubeadm_facts(pod), ("10.0.0.1",), {})["kube-apiserver"]["port"] == 6667
    assert ApiPod(Host("controller-1", "10.0.0.1"), pod.flags).port == 6667


_ISSUER = "service-account-issuer"


@pytest.mark.parametrize(
    ("issuers", "words"),
    [
        ((), f"no --{_ISSUER}"),
        (("",), f"an empty --{_ISSUER}"),
        (("https://a", ""), f"an empty --{_ISSUER}"),
        (("https://a", "https://b", "https://a"), f"--{_ISSUER}=https://a twice"),
    ],
)
def test_an_issuer_with_which_kube_apiserver_does_not_start(issuers: tuple[str, ...], words: str) -> None:
    """Manifests of years ago have none. It is named, instead of a traceback, or an error about the chart's values."""
    flags = [f"--{name}={value}" for name, value in FLAGS["kube-apiserver"].items() if name != _ISSUER]
    command = ["kube-apiserver", *flags, *(f"--{_ISSUER}={each}" for each in issuers)]
    pod = kubeadm_pod("kube-apiserver", container={"command": command})
    with pytest.raises(Blocked, match=f"kube-apiserver's static pod on controller-1 has {words}: ") as caught:
        check_static_pods(kubeadm_facts(pod).controllers)
    assert "nothing was changed" in caught.value.message and f"--{_ISSUER}" in caught.value.remedy


_SIGNING_KEY = "service-account-signing-key-file"


@pytest.mark.parametrize("given", [(), ("",)])
def test_no_key_with_which_kube_apiserver_could_sign(given: tuple[str, ...]) -> None:
    """It ends without one, as without an issuer: advice about the issuer alone would leave it so."""
    flags = [f"--{name}={value}" for name, value in FLAGS["kube-apiserver"].items() if name != _SIGNING_KEY]
    keys = [f"--{_SIGNING_KEY}={each}" for each in given]
    pod = kubeadm_pod("kube-apiserver", container={"command": ["kube-apiserver", *flags, *keys]})
    with pytest.raises(Blocked, match=f"static pod on controller-1 has no --{_SIGNING_KEY}: ") as caught:
        check_static_pods(kubeadm_facts(pod).controllers)
    assert f"{PKI}/sa.key" in caught.value.remedy
    neither = [each for each in flags if f"--{_ISSUER}=" not in each]
    pod = kubeadm_pod("kube-apiserver", container={"command": ["kube-apiserver", *neither, *keys]})
    with pytest.raises(Blocked, match=f"no --{_ISSUER} and no --{_SIGNING_KEY}: ") as caught:
        check_static_pods(kubeadm_facts(pod).controllers)
    assert f"--{_ISSUER}" in caught.value.remedy and f"--{_SIGNING_KEY}" in caught.value.remedy


def test_a_program_that_signs_tokens_needs_no_key() -> None:
    """kube-apiserver refuses a key beside it."""
    flags = [f"--{name}={value}" for name, value in FLAGS["kube-apiserver"].items() if name != _SIGNING_KEY]
    signer = "--service-account-signing-endpoint=/run/signer.sock"
    pod = kubeadm_pod("kube-apiserver", container={"command": ["kube-apiserver", *flags, signer]})
    check_static_pods(kubeadm_facts(pod).controllers)


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        (kubeadm_pod("kube-controller-manager", container={"commad": ["kube-controller-manager"]}), "commad"),
        (kubeadm_pod("kube-scheduler", spec={"hostnetwork": True}), "hostnetwork"),
    ],
    ids=["of the container", "of the pod"],
)
def test_a_misspelt_field_is_not_said_to_be_lost(pod: StaticPod, field: str) -> None:
    """The kubelet ignores it, so the chart's pod lacks nothing: its name is to be corrected."""
    with pytest.raises(Blocked, match=f"has `{field}`, a field that Kubernetes doesn't have: ") as caught:
        check_static_pods(kubeadm_facts(pod).controllers)
    assert "would be lost" not in caught.value.message and "Correct its name" in caught.value.remedy


@pytest.mark.parametrize("component", FLAGS)
@pytest.mark.parametrize("name", ["featureGates", "log.level", "Authorization.Mode"])
def test_a_flag_by_a_name_that_no_component_has(component: str, name: str) -> None:
    """`featureGates` in kubeadm's `extraArgs`: the chart's schema refuses it, and names a value that isn't there."""
    pod = kubeadm_pod(component, words=[f"--{name}=X: true"])
    with pytest.raises(Blocked, match=f"{component}'s static pod on controller-1 has --{name}, ") as caught:
        check_static_pods(kubeadm_facts(pod).controllers)
    assert "lower-case letters" in caught.value.message and "kubeadm-config" in caught.value.remedy


def test_a_volume_without_a_source_is_an_empty_folder(tmp_path: Path) -> None:
    """`hostPath: null` is as if the line weren't there, for the kubelet and for the API: an emptyDir."""
    pods = [
        kubeadm_pod("kube-apiserver", {}, ({"name": "x", **source}, {"name": "x", "mountPath": "/x"}))
        for source in ({"hostPath": None}, {})
    ]
    given = []
    for pod in pods:
        hosts = FakeHosts()
        hosts.files["controller-1", f"{MANIFESTS}/kube-apiserver.yaml"] = pod.manifest
        at = Host("controller-1", "10.0.0.1")
        controllers = read_controllers(hosts, Cluster(tmp_path, tmp_path, "", tmp_path, (at,)))
        check_static_pods(controllers)
        given.append(extra_volumes(pod, {"volumes": [], "containers": []}, "/etc/kubernetes/pki"))
        assert innermost_mount(pod, "/x/y") is None
    assert given[0] == given[1]
    assert {"name": "x"} in given[0]["extraVolumes"]


def test_every_field_of_a_mount_is_known() -> None:
    """What Kubernetes has there is no slip of the pen."""
    mount = {"mountPropagation": "None", "recursiveReadOnly": "Disabled", "subPath": "x"}
    named = [volume("a", "/srv/a"), ({"name": "b", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "b", "mountPath": "/b"})]
    pod = kubeadm_pod("kube-scheduler", {}, *[(one, {**each, **mount}) for one, each in named])
    check_static_pods(kubeadm_facts(pod).controllers)


@pytest.mark.parametrize("component", ["kube-controller-manager", "kube-scheduler"])
@pytest.mark.parametrize("words", [["--leader-elect=false"], ["--leader_elect=0"], ["--leader-elect=F"]])
def test_no_leader_election(component: str, words: list[str]) -> None:
    """A single controller works without it. The charts' pods don't: each is replaced by another beside it, and its
    standby starts where nobody renews the Lease; both would act.
    """
    with pytest.raises(Blocked, match=f"{component}'s static pod on controller-1 has --leader-elect=") as caught:
        check_static_pods(kubeadm_facts(kubeadm_pod(component, words=words)).controllers)
    assert "Remove the flag" in caught.value.remedy
    check_static_pods(kubeadm_facts(kubeadm_pod(component, words=[*words, "--leader-elect=True"])).controllers)


@pytest.mark.parametrize("component", ["kube-controller-manager", "kube-scheduler"])
@pytest.mark.parametrize(
    ("flag", "own"), [("leader-elect-resource-name", ""), ("leader-elect-resource-namespace", "kube-system")]
)
def test_another_lease(component: str, flag: str, own: str) -> None:
    """The charts' standby pods and the gates look for Kubernetes' own Lease. Removing the flag on one controller after
    the other would have two leaders, so the remedy stops all of them first. The last value counts.
    """
    words = [f"--{flag}=mine"]
    with pytest.raises(Blocked, match=f"{component}'s static pod on controller-1 has --{flag}=mine: ") as caught:
        check_static_pods(kubeadm_facts(kubeadm_pod(component, words=words)).controllers)
    assert f"use Lease kube-system/{component}" in caught.value.message
    assert f"first stop {component} on all controllers" in caught.value.remedy
    words += [f"--{flag.replace('-', '_')}={own or component}"]
    check_static_pods(kubeadm_facts(kubeadm_pod(component, words=words)).controllers)


@pytest.mark.parametrize(
    ("context", "owners"),
    [
        ({"runAsUser": 65534}, True),
        ({"supplementalGroups": [2004]}, True),
        ({"seLinuxOptions": {"type": "spc_t"}}, False),
        ({"privileged": True}, False),
    ],
)
def test_what_to_do_about_a_security_context(context: dict[str, Any], owners: bool) -> None:
    """Owners of files matter only where the pod has another user: not with SELinux's options, or with all rights."""
    pod = kubeadm_pod("kube-controller-manager", container={"securityContext": context})
    with pytest.raises(Blocked) as caught:
        check_static_pods(kubeadm_facts(pod).controllers)
    assert ("RootlessControlPlane" in caught.value.remedy) is owners
    assert caught.value.remedy


@pytest.mark.parametrize("words", [["-v=4"], ["--audit-log-path", "/var/log/audit.log"]])
def test_flags_of_another_form(words: list[str]) -> None:
    """They are flags to the component, and would have been lost, or have got the value `true`."""
    with pytest.raises(Blocked, match="among its flags"):
        check_static_pods(kubeadm_facts(kubeadm_pod("kube-apiserver", words=words)).controllers)


@pytest.mark.parametrize("folder", ["/usr/local/bin/", "/usr/bin/", "/sbin/", ""])
def test_a_program_in_a_folder_of_path_is_found(folder: str) -> None:
    """The chart starts it by its name."""
    flags = [f"--{_ISSUER}=x", f"--{_SIGNING_KEY}=/x"]
    pod = kubeadm_pod("kube-apiserver", container={"command": [f"{folder}kube-apiserver", *flags]})
    check_static_pods(kubeadm_facts(pod).controllers)


def test_underscores_in_a_flags_name_are_dashes() -> None:
    """As the components read them."""
    pod = kubeadm_pod("kube-apiserver", words=["--audit_log_maxage=30"])
    assert pod.flags["audit-log-maxage"] == ("30",)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"name": "k8s-apiserver", "namespace": "kube-system"}, "kube-system/k8s-apiserver"),
        ({"name": "kube-apiserver"}, "default/kube-apiserver"),
        ({"name": "kube-apiserver", "namespace": "control-plane"}, "control-plane/kube-apiserver"),
        (None, "default/None"),
    ],
)
def test_a_pod_of_another_name(metadata: dict[str, str] | None, words: str) -> None:
    """It is awaited by its mirror pod: one that has another name would count as gone while it runs."""
    pod = kubeadm_pod("kube-apiserver")
    manifest = yaml.safe_dump({**pod.pod, "metadata": metadata}).encode()
    with pytest.raises(
        Blocked, match=rf"controller-1: the pod in {MANIFESTS}/kube-apiserver\.yaml is {words}, not"
    ) as caught:
        check_static_pods(kubeadm_facts(replace(pod, manifest=manifest)).controllers)
    assert "`metadata.namespace`" in caught.value.remedy
