"""The program of a rehearsal: real versions of kube-apiserver on copies of an etcd's data, without a network."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from testkit.lab_cluster import OLD, TARGET
from testkit.rehearsed_data import RehearsedData, program_images, run_out_of_space, storing
from testkit.rehearsed_objects import (
    CONFIG_MAPS,
    CRDS,
    SECRET,
    SECRETS,
    SERVICES,
    STATEFUL_SETS,
    crd,
    create_when_served,
    helm_record,
    item,
    key,
    large_pod,
    permit_exec,
    stateful_set_with_max_unavailable,
    usual_objects,
)
from testkit.waiting import stretched
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import HostError
from upgrader.model.audit_log import Requests
from upgrader.onhost.sending.shipped_program import program
from upgrader.ports import Kind
from upgrader.steps.rehearsal.client_requests import ClientRequests
from upgrader.steps.rehearsal.differences import Difference, findings_of
from upgrader.steps.rehearsal.result import Result

BAD_ADDRESS = "010.20.30.40"
STORED = "--feature-gates=StrictIPCIDRValidation=false,GenericWorkload=true"
"""As in releases before it was on by default: a Service with such an address may be in any older cluster."""
GONE = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
"""Its objects, of which `GenericWorkload` reads one kind: without this, a server with that gate is never ready."""
UNTIL_1_34 = "--feature-gates=AuthorizePodWebsocketUpgradeCreatePermission=false"
HOOKS = Kind("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False)
NAMESPACES = Kind("v1", "namespaces", namespaced=False)
ADDED = ("rehearsal.added", "statefulsets.apps")
DEFAULT = "spec.updateStrategy.rollingUpdate.maxUnavailable"
NEW_CEL = "--min-compatibility-version=1.37"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of both versions."""
    return program_images(tmp_path_factory.mktemp("programs"), OLD, TARGET)


Found = Mapping[tuple[str, str], Difference]
"""By the finding's id, and the resource."""


def found_in(result: Result) -> Found:
    """All that was found."""
    assert SECRET not in str(result) and BAD_ADDRESS not in str(result)
    findings = findings_of(result.differences)
    return {(finding.id, each.resource): each for finding, each in zip(findings, result.differences, strict=True)}


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory, images: Path) -> RehearsedData:
    """Data without mistakes."""
    with storing(tmp_path_factory.mktemp("ordinary"), images, OLD) as (site, kube):
        usual_objects(kube)
        kube.create(Kind("v1", "pods"), large_pod("large"), "default")
    return site


def test_an_ordinary_cluster_has_no_warning(ordinary: RehearsedData) -> None:
    """Objects of many kinds are read, updated and created as before; a default that the target adds is information.

    A host of the inventory's group says so, which is sent the data, and the keys that flags name, compares where
    nothing can be reached, and keeps nothing. On a controller, the same data with mistakes has no other finding than
    these: see `seeded`.
    """
    site = ordinary
    result = site.rehearse_elsewhere(site.server(OLD), site.server(TARGET))
    found = found_in(result)
    assert found.keys() == {ADDED}, result
    assert found[ADDED].reason == DEFAULT
    counts = result.counts
    assert counts["created"] > 100 and counts["updated"] > 100 and counts["unproven"] < 10, result
    assert counts["manifests"] == 4, result
    assert (result.controller, result.rehearsal_host) == ("controller-1", "build-1")
    assert not site.elsewhere.exists() and not any(site.units.iterdir())


def test_a_cluster_whose_etcd_has_no_space_is_rehearsed(tmp_path: Path, images: Path) -> None:
    """Its alarm is in each snapshot, and would refuse whatever the servers of a copy have to write."""
    with storing(tmp_path, images, OLD) as (site, kube):
        kube.create(CONFIG_MAPS, item("v1", "ConfigMap", "web", data={"a": "b"}), "default")
    run_out_of_space(tmp_path)
    result = site.rehearse(site.server(OLD), site.server(TARGET))
    assert not found_in(result) and result.counts["created"] > 100, result


def test_a_backup_on_this_machine_finds_the_same_and_keeps_nothing(
    ordinary: RehearsedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """etcd's data is made of the snapshot where nothing can be reached; no controller does anything."""
    site = ordinary
    result, taken = site.rehearse_backup(site.server(OLD), site.server(TARGET), monkeypatch)
    assert found_in(result).keys() == {ADDED}, result
    assert (result.controller, result.rehearsal_host) == ("controller-1", "this machine")
    assert result.counts["created"] > 100 and result.counts["unproven"] < 10, result
    assert f"{taken:%F}" == "2026-11-23"
    assert not site.elsewhere.exists() and not any(site.units.iterdir())


def test_a_host_that_lacks_an_image_is_told_before_anything_is_sent(ordinary: RehearsedData) -> None:
    """It can't be pulled here. A host without systemd is the other case: the tests' machine."""
    site = ordinary
    with pytest.raises(HostError, match=r"build-1: image v1\.0\.0 is not on this host"):
        site.rehearse_elsewhere(site.server(OLD), site.server("v1.0.0"))
    assert not site.elsewhere.exists() and not (site.folder / "upgrader").exists()


class Seeded(NamedTuple):
    """A rehearsal of data with mistakes, and of what would be called on the cluster."""

    found: Found
    sent: Mapping[str, int]
    """What was sent, as `sent` has it."""


_COUNTERS = "cat /proc/net/dev /proc/net/snmp"
"""Prints what the kernel counts in the network that it runs in."""


def sent(counters: str) -> dict[str, int]:
    """Interface → how many packets it has sent; and `OutNoRoutes`: how many could not be, as no route leads there."""
    interfaces = re.findall(r"(?m)^ *(\S+):((?: +\d+){16})$", counters)
    heading, values = re.findall(r"(?m)^Ip: (.*)$", counters)
    counted = {name: int(numbers.split()[9]) for name, numbers in interfaces}
    return counted | {"OutNoRoutes": int(values.split()[heading.split().index("OutNoRoutes")])}


@pytest.fixture(scope="module")
def seeded(rehearsed: Seeded) -> Found:
    """What is found of data with mistakes."""
    return rehearsed.found


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Seeded:
    """Once for all tests."""
    folder = tmp_path_factory.mktemp("seeded")
    site = RehearsedData(folder)
    with storing(folder, images, OLD, STORED, GONE) as (_, kube):
        usual_objects(kube)
        permit_exec(kube, "jane", "get")
        permit_exec(kube, "ann", "get", "create")
        ports = {"ports": [{"port": 80}], "externalIPs": [BAD_ADDRESS]}
        kube.create(SERVICES, item("v1", "Service", "old-address", spec=ports), "default")
        kube.create(SECRETS, helm_record("shop", item("v1", "Service", "of-helm", spec=ports)), "default")
        workload = item("scheduling.k8s.io/v1alpha2", "PodGroup", "group", spec={"schedulingPolicy": {"basic": {}}})
        kube.create(Kind("scheduling.k8s.io/v1alpha2", "podgroups"), workload, "default")
        webhook = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": WEBHOOK}}
        kube.create(CRDS, crd("converteds", {"type": "object"}, conversion=webhook))
        service = {"service": {"name": "metrics", "namespace": "default"}, "insecureSkipTLSVerify": True}
        remote = {"group": "metrics.k8s.io", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
        made = item("apiregistration.k8s.io/v1", "APIService", "v1.metrics.k8s.io", spec=remote | service)
        kube.create(Kind("apiregistration.k8s.io/v1", "apiservices", namespaced=False), made)
        everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
        hook = {"name": "all.example.com", "clientConfig": WEBHOOK, "rules": [everything], "sideEffects": "None"}
        hook |= {"admissionReviewVersions": ["v1"]}
        made = item("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "all", webhooks=[hook])
        refuse_plains(kube)
        kube.create(HOOKS, made)
    requests = (
        Requests("jane", "kubectl", "scheduling.k8s.io/v1alpha2", "podgroups", ("list",), 1, ""),
        Requests("jane", "kubectl", "v1", "pods/eviction", ("create",), 1, ""),
        Requests("jane", "kubectl", "apps/v1", "deployments", ("get", "patch", "watch"), 1, ""),
        Requests("jane", "python", "v1", "pods/exec", ("get",), 1, "", ("people",), ("default", "kube-system")),
        Requests("robot, as ann", "python", "v1", "pods/exec", ("get",), 1, "", (), ("default",)),
    )
    servers = site.server(OLD, STORED, GONE, UNTIL_1_34), site.server(TARGET)
    script = f'"$@"; code=$?; {_COUNTERS} >{folder / "counters"}; exit $code'
    counting = ("unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script, "sh")
    found = found_in(site.rehearse(*servers, *counting, requests=ClientRequests(requests)))
    return Seeded(found, sent((folder / "counters").read_text()))


WEBHOOK = {"url": "https://192.0.2.9/"}
PLAINS = "plains.example.com"


def refuse_plains(kube: KubeAdapter) -> None:
    """A policy refuses each request for them, and says what they have and what a ConfigMap has."""
    group = "admissionregistration.k8s.io/v1"
    kube.create(CONFIG_MAPS, item("v1", "ConfigMap", "params", data={"word": SECRET}), "default")
    rule = {"apiGroups": ["example.com"], "apiVersions": ["*"], "operations": ["*"], "resources": ["plains"]}
    said = {"expression": "false", "messageExpression": "'value of ' + object.spec.token + params.data.word"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [said]}
    spec["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    made = item(group, "ValidatingAdmissionPolicy", "refuses", spec=spec)
    kube.create(Kind(group, "validatingadmissionpolicies", namespaced=False), made)
    param = {"name": "params", "namespace": "default", "parameterNotFoundAction": "Deny"}
    bound = {"policyName": "refuses", "validationActions": ["Deny"], "paramRef": param}
    made = item(group, "ValidatingAdmissionPolicyBinding", "everywhere", spec=bound)
    kube.create(Kind(group, "validatingadmissionpolicybindings", namespaced=False), made)


def test_objects_of_an_api_that_goes_are_named(seeded: Found) -> None:
    """The target doesn't serve their group any more."""
    assert seeded["rehearsal.gone", "podgroups.scheduling.k8s.io"].names == ("default/group",)


@pytest.mark.parametrize(("current", "finding"), [("a", "rehearsal.unreadable"), ("b", "rehearsal.unlisted")])
def test_objects_that_no_key_decrypts_are_named(tmp_path: Path, images: Path, current: str, finding: str) -> None:
    """The planned encryption configuration lacks the key that they are encrypted with, so that the target never is
    ready. Where the running version's lacks it, too, that one still is, as it was before it lost the key.
    """
    site = RehearsedData(tmp_path)
    old_key, new_key = site.encryption("old", key("a")), site.encryption("new", key("b"))
    with storing(tmp_path, images, OLD, f"--encryption-provider-config={old_key}") as (_, kube):
        kube.create(SECRETS, item("v1", "Secret", "web", stringData={"password": SECRET}), "default")
    running = site.server(OLD, encryption={"a": old_key, "b": new_key}[current])
    result = site.rehearse(running, site.server(TARGET, encryption=new_key))
    found = found_in(result)
    assert found.keys() == {("rehearsal.start", ""), (finding, "secrets")}, result
    assert "informer-sync" in found["rehearsal.start", ""].reason
    unread = found[finding, "secrets"]
    assert "no matching key" in unread.reason, unread
    assert unread.names == (("default/web",) if finding == "rehearsal.unreadable" else ())


def test_policies_whose_parameters_are_secrets_are_unknown(tmp_path: Path, images: Path) -> None:
    """Both versions refuse what they select, although the running one admits it on the cluster."""
    group = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "'word' in params.data"}]}
    spec["paramKind"] = {"apiVersion": "v1", "kind": "Secret"}
    param = {"name": "params", "namespace": "default", "parameterNotFoundAction": "Deny"}
    bound = {"policyName": "allows", "validationActions": ["Deny"], "paramRef": param}
    with storing(tmp_path, images, OLD) as (site, kube):
        kube.create(SECRETS, item("v1", "Secret", "params", stringData={"word": SECRET}), "default")
        made = item(group, "ValidatingAdmissionPolicy", "allows", spec=spec)
        kube.create(Kind(group, "validatingadmissionpolicies", namespaced=False), made)
        made = item(group, "ValidatingAdmissionPolicyBinding", "everywhere", spec=bound)
        kube.create(Kind(group, "validatingadmissionpolicybindings", namespaced=False), made)
    found = found_in(site.rehearse(site.server(OLD), site.server(TARGET)))
    assert found["rehearsal.parameters", "validatingadmissionpolicies.admissionregistration.k8s.io"].names == (
        "allows",
    )
    assert ("rehearsal.unproven", "configmaps") in found


def test_an_object_that_only_a_new_one_would_fail_for_is_named(seeded: Found) -> None:
    """The target's validation is stricter. It tolerates what is stored, so an update without a change passes."""
    found = seeded["rehearsal.create", "services"]
    assert found.names == ("default/old-address",) and "spec.externalIPs[0]" in found.reason, found
    assert ("rehearsal.update", "services") not in seeded


def test_objects_of_an_alpha_version_that_only_the_target_serves_again_are_named(tmp_path: Path, images: Path) -> None:
    """The running version serves them no more, and the target a later version of theirs: it can list none."""
    with storing(tmp_path, images, OLD, STORED, GONE) as (site, kube):
        workload = item("scheduling.k8s.io/v1alpha2", "PodGroup", "group", spec={"schedulingPolicy": {"basic": {}}})
        kube.create(Kind("scheduling.k8s.io/v1alpha2", "podgroups"), workload, "default")
    later = "--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true"
    found = found_in(site.rehearse(site.server(OLD), site.server(TARGET, *later)))
    assert ("rehearsal.left", "podgroups.scheduling.k8s.io") in found, found


def test_an_object_that_a_full_quota_refuses_today_is_named_all_the_same(tmp_path: Path, images: Path) -> None:
    """The quota is full of objects like it. Another Service is accepted, and must not hide that this one is invalid."""
    with storing(tmp_path, images, OLD, STORED, GONE) as (site, kube):
        kube.create(NAMESPACES, item("v1", "Namespace", "full"))
        ports = {"ports": [{"port": 80}], "externalIPs": [BAD_ADDRESS]}
        kube.create(SERVICES, item("v1", "Service", "old-address", spec=ports), "full")
        quota = item("v1", "ResourceQuota", "all", spec={"hard": {"services": "1"}})
        kube.create(Kind("v1", "resourcequotas"), quota, "full")
    found = found_in(site.rehearse(site.server(OLD, STORED, GONE), site.server(TARGET)))
    assert found["rehearsal.create", "services"].names == ("full/old-address",), found


def test_a_manifest_that_helm_could_not_apply_any_more_is_named(seeded: Found) -> None:
    """With its release: the object itself was deleted."""
    found = seeded["rehearsal.manifest", "services"]
    assert found.names == ("default/of-helm of release default/shop",) and "spec.externalIPs[0]" in found.reason, found


def test_what_a_webhook_converts_is_unknown(seeded: Found) -> None:
    """It can't be asked."""
    assert seeded["rehearsal.conversion", "converteds.example.com"].names == ("converteds.example.com",)


def test_what_the_running_version_refuses_too_is_unknown(seeded: Found) -> None:
    """A policy of the cluster's refuses each request: nothing is known of the target. Its own words are not shown."""
    found = seeded["rehearsal.unproven", PLAINS]
    assert found.names == ("default/one",)
    assert found.reason == "ValidatingAdmissionPolicy refuses with binding everywhere denied request: …"


def test_a_value_that_the_target_does_not_read_is_a_warning(ordinary: RehearsedData) -> None:
    """Here, a default that only the running version has: what uses it works otherwise with the target."""
    site = ordinary
    without = site.server(TARGET, "--feature-gates=MaxUnavailableStatefulSet=false")
    found = found_in(site.rehearse(site.server(TARGET), without))
    assert found["rehearsal.changed", "statefulsets.apps"].reason == DEFAULT, found


def test_a_field_that_the_target_drops_when_it_writes_is_named(tmp_path: Path, images: Path) -> None:
    """Its feature gate is off there. What is stored is read, and updated, with it; what is created lacks it."""
    with storing(tmp_path, images, TARGET) as (site, kube):
        kube.create(STATEFUL_SETS, stateful_set_with_max_unavailable(), "default")
    without = site.server(TARGET, "--feature-gates=MaxUnavailableStatefulSet=false")
    found = found_in(site.rehearse(site.server(TARGET), without))
    assert found.keys() == {("rehearsal.dropped", "statefulsets.apps")}, found
    assert found["rehearsal.dropped", "statefulsets.apps"].reason == DEFAULT
    assert not found_in(site.rehearse(site.server(TARGET), site.server(TARGET)))


def test_a_user_who_could_not_connect_to_pods_any_more_is_named(seeded: Found) -> None:
    """Each is asked for as itself: this program may do everything. Where a user may not do so today, nothing is new."""
    found = seeded["rehearsal.denied", "v1 pods/exec"]
    assert found.names == ("default/jane",) and "is forbidden" in found.reason


def test_nothing_else_is_found(seeded: Found) -> None:
    """A webhook that refuses everything, and an API that another server serves, are not there."""
    assert seeded.keys() == {
        ("rehearsal.gone", "podgroups.scheduling.k8s.io"),
        ("rehearsal.client", "scheduling.k8s.io/v1alpha2 podgroups list"),
        ("rehearsal.denied", "v1 pods/exec"),
        ADDED,
        ("rehearsal.create", "services"),
        ("rehearsal.manifest", "services"),
        ("rehearsal.unproven", PLAINS),
        ("rehearsal.conversion", "converteds.example.com"),
    }


def test_tokens_and_ports_that_the_target_does_not_take_are_named(tmp_path: Path, images: Path) -> None:
    """The planned issuer and ranges are other ones: each object is as before, but each pod's client would be refused
    (401), and so would a Service with this port. Its address stays in a range: that of a ServiceCIDR, not of the flag.
    """
    with storing(tmp_path, images, OLD) as (site, kube):
        kube.create(Kind("v1", "serviceaccounts"), item("v1", "ServiceAccount", "web"), "default")
        spec = {"type": "NodePort", "ports": [{"port": 80, "nodePort": 32000}]}
        kube.create(SERVICES, item("v1", "Service", "web", spec=spec), "default")
    target = site.server(TARGET)
    flags = tuple(flag.replace("https://issuer.example", "https://other.example") for flag in target.flags)
    flags = tuple(flag.replace("10.96.0.0/16", "10.97.0.0/16") for flag in flags)
    more = "--service-node-port-range=30000-30100"
    found = found_in(site.rehearse(site.server(OLD), replace(target, flags=(*flags, more))))
    assert found.keys() == {("rehearsal.token", "serviceaccounts"), ("rehearsal.service-range", "services")}, found
    assert found["rehearsal.service-range", "services"].names == ("default/web (32000)",)
    assert found["rehearsal.token", "serviceaccounts"].names == ("default/web",)
    assert not found_in(site.rehearse(site.server(OLD), target))


def test_a_rule_that_the_target_does_not_compile_is_named(tmp_path: Path, images: Path) -> None:
    """A CustomResourceDefinition uses a function of CEL that the target doesn't have; here, it is the older version. So
    does a webhook's condition: no webhook is called, but its configuration is compared as any other object; so is one
    that stays in use.
    """
    schema = {
        "type": "object",
        "properties": {"names": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 20}}},
    }
    rule = {"rule": f"!has(self.names) || !self.names.includes('{SECRET}')"}
    with storing(tmp_path, images, TARGET, NEW_CEL) as (site, kube):
        kube.create(CRDS, crd("ruleds", schema | {"x-kubernetes-validations": [rule]}))
        create_when_served(kube, "ruleds", item("example.com/v1", "Ruled", "one", spec={"names": ["x"]}))
        create_hooks(kube)  # after all that they would be asked about
    found = found_in(site.rehearse(site.server(TARGET, NEW_CEL), site.server(OLD)))
    assert ("rehearsal.create", "customresourcedefinitions.apiextensions.k8s.io") in found, found
    assert "rule compile error" in found["rehearsal.create", "ruleds.example.com"].reason, found
    resource = "validatingwebhookconfigurations.admissionregistration.k8s.io"
    assert found["rehearsal.create", resource].names == ("new",), found


def create_hooks(kube: KubeAdapter) -> None:
    """Two webhooks for everything, one of which has a condition with a function of CEL that the older version lacks."""
    hook: dict[str, Any] = {"clientConfig": WEBHOOK, "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    hook["rules"] = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]
    condition = {"name": "some", "expression": "object.metadata.finalizers.includes('x')"}
    hooks = {"new": {**hook, "matchConditions": [condition]}, "plain": hook}
    kind = "ValidatingWebhookConfiguration"
    for name, each in hooks.items():
        kube.create(HOOKS, item(HOOKS.api_version, kind, name, webhooks=[{**each, "name": "any.example.com"}]))


def test_a_target_that_does_not_start_is_a_finding(ordinary: RehearsedData) -> None:
    """With its last words; test_trial.py has them of other mistakes."""
    site = ordinary
    found = found_in(site.rehearse(site.server(OLD), site.server(TARGET, "--feature-gates=NoSuchGate=true")))
    assert found.keys() == {("rehearsal.start", "")}, found
    assert "unrecognized feature gate: NoSuchGate" in found["rehearsal.start", ""].reason, found


def test_keys_of_a_plugin_are_unknown(ordinary: RehearsedData) -> None:
    """The plugin is in use by the running API server: it isn't asked, and nothing is started."""
    site = ordinary
    plugin = site.encryption("kms", "{kms: {apiVersion: v2, name: k, endpoint: 'unix:///run/kms.sock'}}")
    found = found_in(site.rehearse(site.server(OLD, encryption=plugin), site.server(TARGET)))
    assert found.keys() == {("rehearsal.kms", "current")}


def test_nothing_is_started_where_anything_can_be_reached(ordinary: RehearsedData) -> None:
    """It looks at the network that it has, whatever it was promised."""
    site = ordinary
    with pytest.raises(HostError, match="Nothing was started"):
        site.rehearse(site.server(OLD), site.server(TARGET), "env")
    link = "ip link add veth-a type veth peer veth-b && ip link set veth-a up && exec"
    words = ("unshare", "--net", "sh", "-c", f'{link} "$@"', "sh")
    with pytest.raises(HostError, match="could reach veth-a"):
        site.rehearse(site.server(OLD), site.server(TARGET), *words)


def test_no_packet_leaves_and_none_is_tried(rehearsed: Seeded) -> None:
    """In a whole rehearsal, whose data names webhooks for everything and an API of another server, by the counters of
    the kernel: only the loopback has sent any, and no program has looked for a route.
    """
    counted = dict(rehearsed.sent)
    assert counted.pop("lo") > 0, "this test proves nothing"
    assert not any(counted.values()), counted


def test_nothing_is_reached_from_where_it_runs() -> None:
    """A connection to any address but the loopback fails at once, as there is no route; and the kernel counts it."""
    script = "from upgrader.onhost.rehearsal.isolation import require_isolation\nrequire_isolation()\n"
    script += "import socket, subprocess; print(socket.socket().connect_ex(('192.0.2.1', 443)), flush=True)\n"
    script += f"subprocess.run({_COUNTERS.split()!r}, check=True)"
    program_ = program("rehearse", "rehearsal").replace(b"main(*sys.argv[1:], *SECRETS)", b"").decode() + script
    words = ["unshare", "--net", sys.executable, "-I", "-"]
    done = subprocess.run(words, input=program_, capture_output=True, text=True, check=False, timeout=stretched(60))
    refused, _, counted = done.stdout.partition("\n")
    assert refused == str(errno.ENETUNREACH), done.stderr
    assert sent(counted)["OutNoRoutes"] == 1 and not sent(counted)["lo"]
