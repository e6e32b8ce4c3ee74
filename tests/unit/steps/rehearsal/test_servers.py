"""Which flags, files and images a rehearsal starts both versions with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from upgrader.errors import UsageError
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan import Plan
from upgrader.steps.rehearsal.differences import findings_of
from upgrader.steps.rehearsal.servers import CHANGED_FLAGS, kept_elsewhere, servers_of
from upgrader.steps.release.plan import PlannedRelease

SERVER = """
kind: Deployment
metadata: {name: kube-apiserver}
spec:
  template:
    spec:
      containers:
        - name: kube-apiserver
          image: registry.k8s.io/kube-apiserver:v1.36.3
          command: [/run/sh, -c, 'exec "$0" "$@"', kube-apiserver]
          args:
            - --etcd-servers=https://10.0.0.1:2379
            - --audit-log-path=/var/log/audit.log
            - --egress-selector-config-file=/etc/kubernetes/egress.yaml
            - --authorization-mode=Node,RBAC
            - --encryption-provider-config=/keys/encryption.yaml
            - --service-cluster-ip-range=$(RANGE)
            - --feature-gates
            - A=true
            - --allow-privileged
            - --etcd-prefix=/other
          env: [{name: RANGE, value: 10.96.0.0/16}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]
          volumeMounts: [{name: keys, mountPath: /keys}]
      volumes: [{name: keys, hostPath: {path: /etc/kubernetes/keys}}]
"""
TARGET = SERVER.replace("v1.36.3", "v1.37.1").replace("A=true", "A=false")


def plan(before: str = SERVER, after: str = TARGET, action: str = "upgrade") -> Plan:
    """Of kube-apiserver's release."""
    release = PlannedRelease(ReleaseSpec("kube-apiserver", "kube-system", Path("/c")), "upgrade", "", before, after, ())
    versions = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
    return Plan(*versions, (replace(release, action=action),))  # type: ignore[arg-type]


def test_both_versions_have_the_flags_that_decide_what_becomes_of_objects() -> None:
    """Today's and the planned ones, with paths on the controller. Others are left out."""
    servers = servers_of(plan())
    current, target = servers["current"], servers["target"]
    assert current.image == "registry.k8s.io/kube-apiserver:v1.36.3"
    assert target.image == "registry.k8s.io/kube-apiserver:v1.37.1"
    assert current.flags == (
        "--encryption-provider-config=/etc/kubernetes/keys/encryption.yaml",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--feature-gates=A=true",
        "--allow-privileged=true",
        "--etcd-prefix=/other",
        *CHANGED_FLAGS,
        "--advertise-address=192.0.2.1",
    )
    assert "--feature-gates=A=false" in target.flags
    assert target.encryption == ("/etc/kubernetes/keys/encryption.yaml",)
    assert target.prefix == "/other"


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (
            "NodeRestriction,ValidatingAdmissionWebhook, MutatingAdmissionWebhook,PodSecurity",
            "NodeRestriction,PodSecurity",
        ),
        ("NodeRestriction", "NodeRestriction"),
        ("MutatingAdmissionWebhook", ""),
        ("ImagePolicyWebhook,AlwaysPullImages", "AlwaysPullImages"),  # its kubeconfig may name a program to run
    ],
)
def test_no_webhook_is_called(given: str, left: str) -> None:
    """Their plugins are disabled, also where the cluster's flags enable them: both at once are refused."""
    enabled = f"--enable-admission-plugins={given}"
    found = servers_of(plan(after=TARGET.replace("--allow-privileged", f"'{enabled}'")))["target"].flags
    assert f"--enable-admission-plugins={left}" in found
    assert "--disable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook" in found


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ("NamespaceLifecycle,ValidatingAdmissionWebhook,PodSecurity", "NamespaceLifecycle,PodSecurity"),
        ("ImagePolicyWebhook", ""),
    ],
)
def test_the_one_list_of_all_admission_plugins_is_kept(given: str, left: str) -> None:
    """The deprecated `--admission-control` names all that run: without it, others would decide. What it doesn't name is
    disabled, and kube-apiserver refuses to start with a list of disabled ones beside it.
    """
    found = servers_of(plan(after=TARGET.replace("--allow-privileged", f"--admission-control={given}")))["target"].flags
    assert f"--admission-control={left}" in found
    assert not any(flag.startswith("--disable-admission-plugins") for flag in found)
    assert set(CHANGED_FLAGS) - set(found) == {flag for flag in CHANGED_FLAGS if "admission" in flag}


@pytest.mark.parametrize(
    ("given", "prefix"),
    [("$(RANGE)", "/10.96.0.0/16"), ("other", "/other"), ("/other/", "/other"), ("/", ""), ("", "")],
)
def test_the_prefix_is_the_one_that_the_keys_have(given: str, prefix: str) -> None:
    """As kube-apiserver reads it: with another, other servers' APIs would stay in the copies."""
    found = servers_of(plan(SERVER.replace("/other", given), TARGET.replace("/other", given)))
    assert found["current"].prefix == prefix


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("/$$(RANGE)", "/$(RANGE)"),  # `$$` stands for `$`
        ("/$(my-base.v1)", "/10.96.0.0/16/x"),  # a name may have dashes and dots, and its value may refer to another
        ("/$(IP)", "/$(IP)"),
        ("/$(TWICE)", "/second"),
    ],
)
def test_variables_are_replaced_as_the_kubelet_does_it(given: str, seen: str) -> None:
    """Both versions read the same values as they do in the cluster; one that only a node knows stays as it is."""
    variables = "{name: my-base.v1, value: $(RANGE)/x}, {name: TWICE, value: first}, {name: TWICE, value: second}, "
    texts = (each.replace("/other", given).replace("{name: IP", f"{variables}{{name: IP") for each in (SERVER, TARGET))
    assert servers_of(plan(*texts))["current"].prefix == seen


def test_an_address_of_the_services_family_is_advertised() -> None:
    """kube-apiserver refuses another one."""
    found = servers_of(plan(after=TARGET.replace("10.96.0.0/16", "fd00:96::/112,10.96.0.0/16")))
    assert "--advertise-address=2001:db8::1" in found["target"].flags


def test_a_file_that_is_not_on_the_disk_is_refused() -> None:
    """A Secret's content, for example, is not there to be read."""
    secret = TARGET.replace("hostPath: {path: /etc/kubernetes/keys}", "secret: {secretName: keys}")
    with pytest.raises(UsageError, match=r"--encryption-provider-config=/keys/encryption\.yaml is in a volume"):
        servers_of(plan(after=secret))


def test_a_server_whose_tokens_another_program_signs_is_refused() -> None:
    """Without the signer it doesn't start, which would be told as a fault of the target."""
    address = "--service-cluster-ip-range="
    assert address in TARGET
    signed = TARGET.replace(address, f"--service-account-signing-endpoint=/run/signer.sock\n            - {address}")
    with pytest.raises(UsageError, match="another program signs its tokens"):
        servers_of(plan(after=signed))


@pytest.mark.parametrize("without", [plan(action="unchanged"), plan(before=""), plan(after="")])
def test_a_plan_that_starts_no_other_server_is_refused(without: Plan) -> None:
    """There would be nothing to compare."""
    with pytest.raises(UsageError, match="nothing to rehearse"):
        servers_of(without)


@pytest.mark.parametrize("changed", ["before", "after"])
def test_objects_in_an_etcd_of_their_own_are_unknown(changed: str) -> None:
    """The copy has none of them, in whichever of both versions they are there. Events expire by themselves."""
    etcd = "https://10.0.0.1:2479;https://10.0.0.2:2479"
    flag = f"--etcd-servers-overrides=/events#{etcd},events.k8s.io/events#{etcd},/pods#{etcd}, apps/deployments#{etcd}"
    given = {"before": SERVER, "after": TARGET}
    given[changed] = given[changed].replace("--allow-privileged", f"'{flag}'")
    servers = servers_of(plan(**given))
    found = list(findings_of(kept_elsewhere(servers)))
    assert [(each.id, each.severity) for each in found] == [("rehearsal.elsewhere", "unknown")] * 2
    assert "pods" in found[0].title and "deployments.apps" in found[1].title
    assert not any("2479" in flag for server in servers.values() for flag in server.flags)
    assert not list(kept_elsewhere(servers_of(plan())))
