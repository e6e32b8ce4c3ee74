"""The chart of guard: what an operator relies on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.charts.conftest import Refused, Render, Rendered
from upgrader.in_cluster.guard.commands.flags import Settings, parse
from upgrader.in_cluster.guard.core.generator import FINALIZER
from upgrader.in_cluster.guard.core.ingress import NODE_ANNOTATIONS
from upgrader.in_cluster.guard.core.selectors import (
    LONGEST_KEY,
    LONGEST_VALUE,
    MOST_EXPRESSIONS,
    MOST_LABELS,
    MOST_VALUES,
)
from upgrader.model.workload import selects

DEPLOYMENT = ("Deployment", "guard")
CONFIGURATION = "guard-no-downscale-ops"


def chart(render: Render, **values: Any) -> Rendered:
    """In the namespace `ops`."""
    return render("guard", values, "ops")


def webhooks(rendered: Rendered) -> list[Any]:
    """Of its only configuration."""
    found: list[Any] = rendered.get("ValidatingWebhookConfiguration", CONFIGURATION)["webhooks"]
    return found


def test_it_never_is_in_kube_system(render: Render) -> None:
    """There its webhooks would stand between the control plane and its own repair."""
    with pytest.raises(Refused, match="guard doesn't run in kube-system"):
        render("guard", {}, "kube-system")


def test_guard_takes_its_arguments(render: Render) -> None:
    """The flags are those that the program has, and name the Service that the webhooks call."""
    rendered = chart(render, dryRun=True, logLevel="warn", certificate={"expiration": "90d"})
    settings = parse(rendered.container(*DEPLOYMENT, "guard")["args"])
    assert settings.namespaces == ("ops",) and settings.dns_name == "guard.ops.svc"
    assert settings.dry_run and settings.log_level == "warning" and settings.life.days == 90
    (client,) = {str(webhook["clientConfig"]["service"]) for webhook in webhooks(rendered)}
    assert "'name': 'guard'" in client and "'namespace': 'ops'" in client
    service = rendered.get("Service", "guard")["spec"]
    ports = {port["name"]: port["containerPort"] for port in rendered.container(*DEPLOYMENT, "guard")["ports"]}
    assert {port["port"]: ports[port["targetPort"]] for port in service["ports"]} == {
        443: settings.tls_port,
        9090: settings.port,
    }
    assert selects({"matchLabels": service["selector"]}, rendered.pod(*DEPLOYMENT)["metadata"]["labels"])


def test_two_answer_and_one_may_go(render: Render) -> None:
    """Two replicas on two nodes if there are two, one more while they are replaced; with one there is no budget that
    would keep a node from being drained.
    """
    rendered = chart(render)
    spec = rendered.get(*DEPLOYMENT)["spec"]
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]) == (2, {"maxUnavailable": 0, "maxSurge": 1})
    affinity = spec["template"]["spec"]["affinity"]["podAntiAffinity"]
    (term,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    budget = rendered.get("PodDisruptionBudget", "guard")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert "PodDisruptionBudget" not in {each["kind"] for each in chart(render, replicas=1).objects}


def loses_pods(webhook: Any) -> bool:
    """Whether it is asked about what may lose pods: fewer replicas, and another first ordinal; a Scale has none."""
    expression = webhook["matchConditions"][0]["expression"]
    by_scale = webhook["rules"][0]["resources"][0].endswith("/scale")
    return "object.spec.replicas < oldObject.spec.replicas" in expression and (
        ("oldObject.spec.ordinals.start" in expression) is not by_scale
    )


def test_webhooks_leave_the_control_plane_alone(render: Render) -> None:
    """Not in kube-system, not in their own namespace; ten seconds at most; nothing that grows is ever asked about."""
    for webhook in webhooks(chart(render)):
        for name, asked in (("kube-system", False), ("ops", False), ("shop", True)):
            assert selects(webhook["namespaceSelector"], {"kubernetes.io/metadata.name": name}) is asked
        assert webhook["timeoutSeconds"] <= 10 and webhook["sideEffects"] == "None"
        assert loses_pods(webhook)
    by_object, by_scale = webhooks(chart(render))
    assert by_object["objectSelector"] == {"matchLabels": {"grafana.com/no-downscale": "true"}}
    assert "objectSelector" not in by_scale, "a Scale has no labels"
    assert all(resource.endswith("/scale") for resource in by_scale["rules"][0]["resources"])


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_values_of_the_webhooks(render: Render, policy: str) -> None:
    """failurePolicy, timeout and namespaces; kube-system can't be among these."""
    values = {"failurePolicy": policy, "timeoutSeconds": 3, "namespaces": ["shop"]}
    for webhook in webhooks(chart(render, noDownscale=values)):
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == (policy, 3)
        for name, asked in (("shop", True), ("other", False)):
            assert selects(webhook["namespaceSelector"], {"kubernetes.io/metadata.name": name}) is asked
    with pytest.raises(Refused, match="schema"):
        chart(render, noDownscale={"namespaces": ["kube-system"]})
    with pytest.raises(Refused, match="schema"):
        chart(render, noDownscale={"timeoutSeconds": 11})


def rules(rendered: Rendered, kind: str, name: str) -> list[tuple[Any, ...]]:
    """(verbs, resources, names) of a role."""
    return [
        (tuple(rule["verbs"]), tuple(rule["resources"]), tuple(rule.get("resourceNames", ())))
        for rule in rendered.get(kind, name)["rules"]
    ]


def test_least_privilege(render: Render) -> None:
    """One Secret by name; the labels of what is scaled; its own configuration; no token of a kubelet, no root."""
    rendered = chart(render)
    assert rules(rendered, "Role", "guard") == [
        (("create",), ("secrets",), ()),
        (("get", "update"), ("secrets",), ("guard-certificate",)),
    ]
    configurations = ("validatingwebhookconfigurations", "mutatingwebhookconfigurations")
    assert rules(rendered, "ClusterRole", "guard-ops") == [
        (("list", "watch"), configurations, ()),
        (("patch",), ("validatingwebhookconfigurations",), (CONFIGURATION,)),
        (("get",), ("deployments", "replicasets", "statefulsets"), ()),
    ]
    pod = rendered.pod(*DEPLOYMENT)["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    context = rendered.container(*DEPLOYMENT, "guard")["securityContext"]
    assert context["capabilities"] == {"drop": ["ALL"]} and context["readOnlyRootFilesystem"] is True


def test_rights_follow_what_is_enabled(render: Render) -> None:
    """In named namespaces by a Role each; without the webhook none for it, and none of its configuration."""
    narrow = chart(render, noDownscale={"namespaces": ["shop"]})
    (role,) = (r for r in narrow.objects if r["kind"] == "Role" and r["metadata"]["namespace"] == "shop")
    assert role["rules"][0]["verbs"] == ["get"]
    assert len(rules(narrow, "ClusterRole", "guard-ops")) == 2
    off = chart(render, noDownscale={"enabled": False}, certificate={"configurations": ["theirs"]})
    assert "ValidatingWebhookConfiguration" not in {each["kind"] for each in off.objects}
    assert [names for _, _, names in rules(off, "ClusterRole", "guard-ops")] == [(), ("theirs",)]
    others = chart(render, certificate={"configurations": ["theirs"]})
    patched = [
        (kinds, names) for verbs, kinds, names in rules(others, "ClusterRole", "guard-ops") if verbs == ("patch",)
    ]
    validating, mutating = "validatingwebhookconfigurations", "mutatingwebhookconfigurations"
    assert patched == [((validating,), (CONFIGURATION,)), ((validating, mutating), ("theirs",))]


def test_groups_are_rolled_only_where_that_is_asked_for(render: Render) -> None:
    """Then in named namespaces, by a Role each, and by the replica that has a Lease; never without a namespace."""
    plain = parse(chart(render).container(*DEPLOYMENT, "guard")["args"])
    assert (plain.roles, plain.namespaces) == (("webhook",), ("ops",))
    rolling = chart(render, rollouts={"enabled": True, "namespaces": ["shop", "storage"]})
    settings = parse(rolling.container(*DEPLOYMENT, "guard")["args"])
    assert (settings.roles, settings.namespaces) == (("rollout", "webhook"), ("shop", "storage"))
    assert (("create", "get", "update", "list", "watch"), ("leases",), ()) in rules(rolling, "Role", "guard")
    assert rules(rolling, "Role", "guard-rollouts-ops") == [
        (("list", "watch", "delete"), ("pods",), ()),
        (("get", "list", "watch"), ("statefulsets",), ()),
        (("update",), ("statefulsets/status",), ()),
        (("create",), ("events",), ()),
    ]
    with pytest.raises(Refused, match="schema"):
        chart(render, rollouts={"enabled": True})


def test_unknown_values_are_refused(render: Render) -> None:
    """The schema refuses mistakes, and an image of nobody's."""
    with pytest.raises(Refused, match="schema"):
        chart(render, noDownScale={"enabled": False})
    with pytest.raises(Refused, match="no image of guard is published"):
        chart(render, image={"tag": "0.1.0"})


def test_zone_budgets(render: Render) -> None:
    """Off unless asked for. In the namespaces alone that are named: webhooks, rights and flags; and the kind, which a
    release upgrades and its end leaves.
    """
    off = chart(render)
    assert "CustomResourceDefinition" not in {each["kind"] for each in off.objects}
    assert parse(off.container(*DEPLOYMENT, "guard")["args"]).budget_namespaces == ()
    given = {"enabled": True, "namespaces": ["shop", "store"], "failurePolicy": "Ignore", "timeoutSeconds": 3}
    rendered = chart(render, zoneBudget=given)
    settings = parse(rendered.container(*DEPLOYMENT, "guard")["args"])
    assert settings.budget_namespaces == ("shop", "store") and settings.roles == ("webhook",)
    crd = rendered.get("CustomResourceDefinition", "zoneawarepoddisruptionbudgets.rollout-operator.grafana.com")
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    evicts, validates = rendered.get("ValidatingWebhookConfiguration", "guard-zone-budget-ops")["webhooks"]
    for webhook in (evicts, validates):
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 3)
        for name, asked in (("kube-system", False), ("ops", False), ("other", False), ("shop", True)):
            assert selects(webhook["namespaceSelector"], {"kubernetes.io/metadata.name": name}) is asked
    assert (evicts["sideEffects"], evicts["rules"][0]["resources"]) == ("NoneOnDryRun", ["pods/eviction"])
    (role,) = (each for each in rendered.objects if each["kind"] == "Role" and each["metadata"]["namespace"] == "shop")
    assert rules(rendered, "Role", role["metadata"]["name"]) == [
        (("get", "list", "watch"), ("zoneawarepoddisruptionbudgets",), ()),
        (("update",), ("zoneawarepoddisruptionbudgets/status",), ()),
        (("get", "list", "watch"), ("pods",), ()),
        (("list",), ("statefulsets",), ()),
        (("list",), ("poddisruptionbudgets",), ()),
    ]
    assert ("guard-zone-budget-ops", CONFIGURATION) in [r[2] for r in rules(rendered, "ClusterRole", "guard-ops")]
    with pytest.raises(Refused, match="schema"):
        chart(render, zoneBudget={"enabled": True})


def test_downscales_are_prepared_only_where_that_is_asked_for(render: Render) -> None:
    """In the namespaces that are rolled, and never without: two webhooks that call nobody on a dry run, and the rights
    to follow the groups' Leases and to show the last downscale.
    """
    assert "prepare-downscale" not in chart(render).text
    values = {"enabled": True, "failurePolicy": "Ignore", "timeoutSeconds": 3, "podsTimeout": "2s"}
    rendered = chart(render, rollouts={"enabled": True, "namespaces": ["shop"]}, downscale=values)
    by_object, by_scale = rendered.get("ValidatingWebhookConfiguration", "guard-downscale-ops")["webhooks"]
    for webhook in (by_object, by_scale):
        assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 3)
        assert webhook["clientConfig"]["service"]["path"] == "/admission/prepare-downscale"
        assert webhook["sideEffects"] == "NoneOnDryRun"
        assert loses_pods(webhook)
        for name, asked in (("shop", True), ("other", False), ("kube-system", False), ("ops", False)):
            assert selects(webhook["namespaceSelector"], {"kubernetes.io/metadata.name": name}) is asked
    resources = [webhook["rules"][0]["resources"] for webhook in (by_object, by_scale)]
    assert resources == [["statefulsets"], ["statefulsets/scale"]]
    settings = parse(rendered.container(*DEPLOYMENT, "guard")["args"])
    assert (settings.pods_timeout_seconds, settings.cluster_domain) == (2.0, "cluster.local.")
    assert rules(rendered, "Role", "guard-downscale-ops") == [
        (("patch",), ("statefulsets",), ()),
        (("patch",), ("statefulsets/scale",), ()),
        (("get",), ("replicatemplates/scale",), ()),
        (("patch",), ("replicatemplates/status",), ()),
    ]
    crd = rendered.get("CustomResourceDefinition", "replicatemplates.rollout-operator.grafana.com")
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    patched = [names for verbs, _, names in rules(rendered, "ClusterRole", "guard-ops") if verbs == ("patch",)]
    assert patched == [(CONFIGURATION, "guard-downscale-ops")]
    with pytest.raises(Refused, match=r"downscale\.enabled needs rollouts.enabled"):
        chart(render, downscale={"enabled": True})


def test_runs_hold_groups_unless_that_is_switched_off(render: Render) -> None:
    """By default where groups are rolled: the flag, webhooks for sets in groups alone and for their scales, in the
    namespaces that are rolled, and the right to read one Lease of kube-system. `hold: none`, or no rollouts: none of
    it.
    """
    rollouts = {"enabled": True, "namespaces": ["shop"]}
    held = chart(render, rollouts=rollouts, noDownscale={"enabled": False}, holdFailurePolicy="Ignore")
    assert parse(held.container(*DEPLOYMENT, "guard")["args"]).hold
    assert rules(held, "Role", "guard-hold-ops") == [(("get",), ("leases",), ("upgrader",))]
    assert held.get("Role", "guard-hold-ops")["metadata"]["namespace"] == "kube-system"
    assert held.get("RoleBinding", "guard-hold-ops")["metadata"]["namespace"] == "kube-system"
    by_object, by_scale = webhooks(held)
    assert [webhook["name"].partition(".")[0] for webhook in (by_object, by_scale)] == ["hold", "hold-scale"]
    assert loses_pods(by_object) and loses_pods(by_scale)
    for labels, asked in (({"rollout-group": "db"}, True), ({}, False)):
        assert selects(by_object["objectSelector"], labels) is asked
    assert [webhook["rules"][0]["resources"] for webhook in (by_object, by_scale)] == [
        ["statefulsets"],
        ["statefulsets/scale"],
    ]
    for webhook in (by_object, by_scale):
        assert webhook["failurePolicy"] == "Ignore"
        for name, asked in (("shop", True), ("other", False), ("kube-system", False), ("ops", False)):
            assert selects(webhook["namespaceSelector"], {"kubernetes.io/metadata.name": name}) is asked
    assert (CONFIGURATION,) in [names for _, _, names in rules(held, "ClusterRole", "guard-ops")]
    assert len(webhooks(chart(render, rollouts=rollouts))) == 4
    for nobody in (chart(render), chart(render, rollouts=rollouts, hold="none")):
        assert not parse(nobody.container(*DEPLOYMENT, "guard")["args"]).hold
        assert "kube-system" not in {each["metadata"].get("namespace") for each in nobody.objects}
        assert len(webhooks(nobody)) == 2
    with pytest.raises(Refused, match="schema"):
        chart(render, hold="always")


def test_runs_hold_ingress_daemon_sets_too(render: Render) -> None:
    """The role that keeps them has the flag, and its account alone the right to read that Lease where nothing else is
    rolled; with both, both have.
    """
    ingress = {"enabled": True, "namespaces": ["edge"]}
    held = chart(render, ingress=ingress)
    assert role_flags(held, "ingress").hold and not parse(held.container(*DEPLOYMENT, "guard")["args"]).hold
    assert rules(held, "Role", "guard-hold-ops") == [(("get",), ("leases",), ("upgrader",))]
    both = chart(render, ingress=ingress, rollouts={"enabled": True, "namespaces": ["shop"]})
    for rendered, names in ((held, ["guard-ingress"]), (both, ["guard", "guard-ingress"])):
        subjects = rendered.get("RoleBinding", "guard-hold-ops")["subjects"]
        assert [each["name"] for each in subjects] == names and {each["namespace"] for each in subjects} == {"ops"}
    free = chart(render, ingress=ingress, hold="none")
    assert not role_flags(free, "ingress").hold
    assert "kube-system" not in {each["metadata"].get("namespace") for each in free.objects}


PROTECTOR = {"enabled": True}
REMOTE = {
    "enabled": True,
    "core": False,
    "workerCellId": "west",
    "coreCluster": {"secretName": "core"},
    "webhook": {"url": "https://guard.example:8843/", "caCertificate": "PEM"},
}
PROTECTING = ("ValidatingWebhookConfiguration", "guard-protector-ops")


def role_flags(rendered: Rendered, role: str) -> Settings:
    """What the Deployment of a role tells it."""
    return parse(rendered.container("Deployment", f"guard-{role}", "guard")["args"])


def test_pods_are_protected_only_where_that_is_asked_for(render: Render) -> None:
    """By default there is no resource, no webhook, no account and no right for it."""
    plain = chart(render)
    kinds = [each["kind"] for each in plain.objects]
    assert kinds.count("Deployment") == 1 and kinds.count("ServiceAccount") == 1
    assert "podseidon" not in plain.text


def test_each_role_of_protectors_has_an_account_and_a_deployment(render: Render) -> None:
    """And no more rights than its own; their pods are not those that the Service finds."""
    rendered = chart(render, protector=PROTECTOR)
    kinds = ("get", "list", "watch")
    assert rules(rendered, "ClusterRole", "guard-protector-ops") == [
        (kinds, ("podprotectors",), ()),
        (("update",), ("podprotectors/status",), ()),
        (("get",), ("pods",), ()),
        (("list",), ("poddisruptionbudgets",), ()),
    ]
    assert rules(rendered, "ClusterRole", "guard-generator-protector-ops") == [
        ((*kinds, "create", "update", "delete"), ("podprotectors",), ()),
        (("update",), ("podprotectors/status",), ()),
        ((*kinds, "patch"), ("deployments",), ()),
    ]
    assert rules(rendered, "ClusterRole", "guard-aggregator-protector-ops") == [
        (kinds, ("podprotectors",), ()),
        (("update",), ("podprotectors/status",), ()),
        (kinds, ("pods",), ()),
    ]
    service = rendered.get("Service", "guard")["spec"]["selector"]
    for role in ("generator", "aggregator"):
        name = f"guard-{role}"
        assert rules(rendered, "Role", name)[1] == (("get", "update"), ("leases",), (name,))
        assert role_flags(rendered, role).roles == (role,)
        pod = rendered.pod("Deployment", name)
        assert pod["spec"]["serviceAccountName"] == name and pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert not selects({"matchLabels": service}, pod["metadata"]["labels"])
        assert selects(rendered.get("Deployment", name)["spec"]["selector"], pod["metadata"]["labels"])
    own = parse(rendered.container(*DEPLOYMENT, "guard")["args"]).protector
    assert (dict(own.cells), own.prefix) == ({"default": None}, "/protector")


def test_network_policy_lets_api_servers_alone_in(render: Render) -> None:
    """Off by default, as the chart can't know their addresses; it holds for every pod of the chart."""
    assert chart(render).names("NetworkPolicy") == set()
    policy = {"enabled": True, "apiServers": ["10.0.0.11/32", "fd00::1/128"], "metricsFrom": [{"podSelector": {}}]}
    everything = {"protector": {"enabled": True}, "ingress": {"enabled": True, "namespaces": ["edge"]}}
    rendered = chart(render, networkPolicy=policy, **everything)
    spec = rendered.get("NetworkPolicy", "guard")["spec"]
    https, http = spec["ingress"]
    assert [each["ipBlock"]["cidr"] for each in https["from"]] == ["10.0.0.11/32", "fd00::1/128"]
    assert (https["ports"], http["ports"]) == ([{"port": "https"}], [{"port": "http"}])
    for kind in ("Deployment", "Job"):
        for name in rendered.names(kind):
            assert selects(spec["podSelector"], rendered.pod(kind, name)["metadata"]["labels"])
    assert rendered.names("Deployment") == {"guard", "guard-aggregator", "guard-generator", "guard-ingress"}
    closed = chart(render, networkPolicy={**policy, "metricsFrom": []}).get("NetworkPolicy", "guard")["spec"]
    assert len(closed["ingress"]) == 1
    with pytest.raises(Refused, match="apiServers"):
        chart(render, networkPolicy={"enabled": True})


def test_uninstalling_releases_what_guard_keeps(render: Render) -> None:
    """By a hook before anything is deleted, with the generator's account; only where there is a generator."""
    rendered = chart(render, protector={"enabled": True, "namespaces": ["shop"]})
    job = rendered.get("Job", "guard-release")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    pod = job["spec"]["template"]
    assert pod["spec"]["serviceAccountName"] == "guard-generator"
    assert pod["spec"]["containers"][0]["args"] == ["release", "-kubernetes.namespace=ops", "-protector.namespace=shop"]
    labels = pod["metadata"]["labels"]
    for kind, name in (("Deployment", "guard"), ("Deployment", "guard-generator"), ("PodDisruptionBudget", "guard")):
        assert not selects(rendered.get(kind, name)["spec"]["selector"], labels)
    assert not selects({"matchLabels": rendered.get("Service", "guard")["spec"]["selector"]}, labels)
    for values in ({"enabled": False}, {"enabled": True, "releaseOnUninstall": False}):
        assert chart(render, protector=values).names("Job") == set()


def test_the_generator_changes_a_deployments_finalizer_alone(render: Render) -> None:
    """By a policy, as RBAC has no fields: of its account and no other, where there is a generator; tests/contract has
    what it lets through.
    """
    rendered = chart(render, protector=PROTECTOR)
    (policy,) = (each for each in rendered.objects if each["kind"] == "ValidatingAdmissionPolicy")
    spec = policy["spec"]
    (condition,) = spec["matchConditions"]
    assert condition["expression"] == "request.userInfo.username == 'system:serviceaccount:ops:guard-generator'"
    assert spec["failurePolicy"] == "Fail" and FINALIZER in spec["validations"][0]["expression"]
    (binding,) = (each for each in rendered.objects if each["kind"] == "ValidatingAdmissionPolicyBinding")
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
    for values in ({"enabled": False}, REMOTE):
        assert chart(render, protector=values).names("ValidatingAdmissionPolicy") == set()


def test_pods_are_asked_about_but_not_the_control_planes(render: Render) -> None:
    """Nor guard's own, nor those that terminate; on a dry run nothing is written; evictions have no labels."""
    values = {**PROTECTOR, "namespaces": ["shop"], "webhook": {"objectSelector": {"matchLabels": {"a": "b"}}}}
    deletion, eviction = chart(render, protector=values).get(*PROTECTING)["webhooks"]
    for webhook in (deletion, eviction):
        for name, asked in (("kube-system", False), ("ops", False), ("shop", True), ("other", False)):
            assert selects(webhook["namespaceSelector"], {"kubernetes.io/metadata.name": name}) is asked
        assert webhook["timeoutSeconds"] <= 10 and webhook["sideEffects"] == "NoneOnDryRun"
        assert webhook["clientConfig"]["service"]["path"] == "/protector/default"
    assert "deletionTimestamp" in deletion["matchConditions"][0]["expression"]
    assert "objectSelector" in deletion and "objectSelector" not in eviction
    assert [webhook["rules"][0]["resources"] for webhook in (deletion, eviction)] == [["pods"], ["pods/eviction"]]
    without = chart(render, protector={**PROTECTOR, "webhook": {"handleEviction": False}})
    assert len(without.get(*PROTECTING)["webhooks"]) == 1


def test_rights_for_protectors_are_those_of_their_namespaces(render: Render) -> None:
    """A Role in each, and no ClusterRole."""
    rendered = chart(render, protector={**PROTECTOR, "namespaces": ["shop"]})
    assert rendered.names("ClusterRole") == {"guard-ops"}
    (role,) = (r for r in rendered.objects if r["kind"] == "Role" and r["metadata"]["name"] == "guard-protector-ops")
    assert role["metadata"]["namespace"] == "shop"
    assert role_flags(rendered, "aggregator").protector.namespaces == ("shop",)


def test_one_pod_of_each_role_may_go_at_a_time(render: Render) -> None:
    """Where a role has several: a drain takes none of them all at once, and one that isn't ready never keeps a node. A
    single pod has no budget, which would keep its node from being drained.
    """
    namespaces = ["edge"]
    two = chart(render, protector=PROTECTOR, ingress={**INGRESS, "namespaces": namespaces})
    assert two.names("PodDisruptionBudget") == {"guard", "guard-generator", "guard-aggregator", "guard-ingress"}
    for name in two.names("PodDisruptionBudget"):
        budget = two.get("PodDisruptionBudget", name)["spec"]
        assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
        pods = {each: two.pod("Deployment", each)["metadata"]["labels"] for each in two.names("Deployment")}
        assert [each for each, labels in pods.items() if selects(budget["selector"], labels)] == [name]
    ingress = {**INGRESS, "namespaces": namespaces, "replicas": 1}
    one = chart(render, protector={**PROTECTOR, "replicas": 1}, ingress=ingress, replicas=1)
    assert one.names("PodDisruptionBudget") == set()


def test_a_core_without_pods_of_its_own_reads_none(render: Render) -> None:
    """Those of other cells are read by the kubeconfig of each."""
    cells = [{"name": "west", "secretName": "west"}]
    rendered = chart(render, protector={**PROTECTOR, "worker": False, "cells": cells})
    granted = [resources for _, resources, _ in rules(rendered, "ClusterRole", "guard-protector-ops")]
    assert granted == [("podprotectors",), ("podprotectors/status",)]
    with_own = chart(render, protector={**PROTECTOR, "cells": cells})
    assert (("get",), ("pods",), ()) in rules(with_own, "ClusterRole", "guard-protector-ops")


def test_a_cell_of_another_core_cluster(render: Render) -> None:
    """It counts its pods there, and its API server asks there; PodProtectors are none here."""
    rendered = chart(render, protector=REMOTE)
    assert rendered.names("Deployment") == {"guard", "guard-aggregator"}
    assert "CustomResourceDefinition" not in {each["kind"] for each in rendered.objects}
    own = role_flags(rendered, "aggregator").protector
    assert (own.cell, str(own.core)) == ("west", "/etc/guard/core/kubeconfig")
    (volume,) = rendered.pod("Deployment", "guard-aggregator")["spec"]["volumes"]
    assert volume["secret"]["secretName"] == "core"
    assert rules(rendered, "ClusterRole", "guard-aggregator-protector-ops") == [
        (("get", "list", "watch"), ("pods",), ())
    ]
    found = rendered.get(*PROTECTING)
    client = found["webhooks"][0]["clientConfig"]
    assert client == {"url": "https://guard.example:8843/protector/west", "caBundle": "UEVN"}
    assert "grafana.com/namespace" not in found["metadata"]["labels"], "its authority is another guard's"
    for missing in ("coreCluster", "webhook"):
        with pytest.raises(Refused, match="is not set: without core"):
            chart(render, protector={key: value for key, value in REMOTE.items() if key != missing})


def test_the_core_answers_for_other_cells(render: Render) -> None:
    """By a kubeconfig of each."""
    cells = [{"name": "west.1", "secretName": "west", "key": "config"}]
    rendered = chart(render, protector={**PROTECTOR, "cells": cells})
    own = parse(rendered.container(*DEPLOYMENT, "guard")["args"]).protector
    assert {name: file and str(file) for name, file in own.cells.items()} == {
        "default": None,
        "west.1": "/etc/guard/cells/west.1/config",
    }
    (mount,) = rendered.container(*DEPLOYMENT, "guard")["volumeMounts"]
    (volume,) = rendered.pod(*DEPLOYMENT)["spec"]["volumes"]
    assert (mount["mountPath"], mount["name"]) == ("/etc/guard/cells/west.1", volume["name"])
    with pytest.raises(Refused, match="schema"):
        chart(render, protector={**PROTECTOR, "cells": [{"name": "a/b", "secretName": "x"}]})


def test_the_definition_stays_when_guard_is_uninstalled(render: Render) -> None:
    """All PodProtectors would go with it; and whoever installs it otherwise leaves it out."""
    rendered = chart(render, protector=PROTECTOR)
    found = rendered.get("CustomResourceDefinition", "podprotectors.podseidon.kubewharf.io")
    assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    columns = {each["name"]: each["jsonPath"] for each in found["spec"]["versions"][0]["additionalPrinterColumns"]}
    assert columns["Estimated"] == ".status.summary.estimatedAvailableReplicas"
    spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for each in ("selector", "aggregationSelector"):
        labels, expressions = (spec[each]["properties"][kind] for kind in ("matchLabels", "matchExpressions"))
        one = expressions["items"]["properties"]
        limits = (labels["maxProperties"], expressions["maxItems"], one["values"]["maxItems"])
        assert limits == (MOST_LABELS, MOST_EXPRESSIONS, MOST_VALUES), "as guard reads it"
        texts = (one["key"], labels["additionalProperties"], one["values"]["items"])
        assert [text["maxLength"] for text in texts] == [LONGEST_KEY, LONGEST_VALUE, LONGEST_VALUE]
        assert labels["x-kubernetes-validations"][0]["rule"] == f"self.all(key, size(key) <= {LONGEST_KEY})"
    without = chart(render, protector={**PROTECTOR, "crd": False})
    assert "podprotectors.podseidon.kubewharf.io" not in without.names("CustomResourceDefinition")


INGRESS = {"enabled": True, "namespaces": ["edge", "shop"]}


def test_ingress_daemon_sets_are_kept_only_where_that_is_asked_for(render: Render) -> None:
    """By an account of its own, in named namespaces, by the replica that has a Lease; never without a namespace."""
    assert "ingress" not in chart(render).text.lower()
    rendered = chart(render, ingress=INGRESS)
    settings = parse(rendered.container("Deployment", "guard-ingress", "guard")["args"])
    assert (settings.roles, settings.ingress.namespaces) == (("ingress",), ("edge", "shop"))
    assert settings.ingress.node_annotations == NODE_ANNOTATIONS
    assert settings.ingress.image == rendered.container(*DEPLOYMENT, "guard")["image"]
    assert rendered.pod("Deployment", "guard-ingress")["spec"]["serviceAccountName"] == "guard-ingress"
    service = rendered.get("Service", "guard")["spec"]["selector"]
    assert not selects({"matchLabels": service}, rendered.pod("Deployment", "guard-ingress")["metadata"]["labels"])
    with pytest.raises(Refused):
        chart(render, ingress={"enabled": True})
    with pytest.raises(Refused):
        chart(render, ingress={**INGRESS, "nodeAnnotations": []})


def test_rights_for_ingress_daemon_sets_are_those_that_it_needs(render: Render) -> None:
    """Nodes in the whole cluster; Deployments and DaemonSets in its namespaces; health checkers read Deployments."""
    rendered = chart(render, ingress={**INGRESS, "namespaces": ["edge"], "healthCheckers": ["checker"]})
    kinds = ("get", "list", "watch")
    assert rules(rendered, "ClusterRole", "guard-ingress-ops") == [((*kinds, "patch"), ("nodes",), ())]
    assert rules(rendered, "Role", "guard-ingress-ops") == [
        (kinds, ("ingressdaemonsets",), ()),
        (("update",), ("ingressdaemonsets/status",), ()),
        (("list", "watch", "create", "update", "patch", "delete"), ("deployments",), ()),
        (("list", "watch", "create", "update", "delete"), ("daemonsets",), ()),
    ]
    assert rules(rendered, "Role", "guard-ingress") == [
        (("create",), ("leases",), ()),
        (("get", "update"), ("leases",), ("guard-ingress",)),
    ]
    assert rules(rendered, "Role", "guard-ingress-health-ops") == [(("list", "watch"), ("deployments",), ())]
    (subject,) = rendered.get("RoleBinding", "guard-ingress-health-ops")["subjects"]
    assert (subject["name"], subject["namespace"]) == ("checker", "edge")
    none = chart(render, ingress={**INGRESS, "healthCheckers": []})
    assert "guard-ingress-health-ops" not in {each["metadata"]["name"] for each in none.objects}


def test_ingress_daemon_sets_stay_when_guard_is_uninstalled(render: Render) -> None:
    """Their pods would go with their definition; both spellings of the document are known."""
    rendered = chart(render, ingress=INGRESS)
    definition = rendered.get("CustomResourceDefinition", "ingressdaemonsets.ingressdaemonsets.mumoshu.github.io")
    assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    (version,) = definition["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    rolling = spec["updateStrategy"]["properties"]["rollingUpdate"]["properties"]
    assert {"maxUnavaiablePodsPerNode", "maxUnavailablePodsPerNode"} <= rolling.keys()
    without = chart(render, ingress={**INGRESS, "crd": False})
    assert "CustomResourceDefinition" not in {each["kind"] for each in without.objects}
