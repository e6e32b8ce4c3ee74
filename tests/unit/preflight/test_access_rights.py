"""Whether the operator's credentials are enough, also for a rollback, is known before a run."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.gates.builders import add_daemonset, add_deployment, add_pod, add_stateful_set, running
from tests.unit.preflight.conftest import CONTROLLER, World
from upgrader.errors import ApiError, ApiUnavailable, ConfigError
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.kubernetes_kinds import LEASES, NODES
from upgrader.gates.node_return import NodeReturn
from upgrader.model.check_ids import READ_BY_CHECKS_ONLY
from upgrader.model.gate_settings import GatePolicy, WorkloadGate
from upgrader.model.node_settings import DrainPolicy, NodePool, NodeSource
from upgrader.model.outcome import VerdictKind
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind
from upgrader.preflight.access_rights import check_access, missing_right
from upgrader.preflight.all_checks import CHECKS, blocking, run_checks
from upgrader.preflight.kubeconfig_credentials import check_credentials
from upgrader.steps.nodes.cordon import Cordons
from upgrader.steps.nodes.drain import Drain
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.release.plan import Action, PlannedRelease
from upgrader.steps.step_document import NodeChange

SECURITY = Path(__file__).parents[3] / "docs/security.md"
READS = ("get", "list", "each", "count")


def forbidden(message: str = "HTTP 403 forbidden") -> ApiError:
    """What the API server answers to those who lack a right."""
    error = ApiError(message)
    error.status = 403
    return error


def test_an_administrator_is_asked_once(world: World) -> None:
    """Whoever may do everything passes, with one request."""
    assert world.find(check_access) == {}


def test_a_smaller_role_that_has_all_that_is_needed_passes(world: World) -> None:
    """What the releases don't need isn't asked for."""
    world.kube.denied = {("delete", "nodes")}
    assert world.find(check_access) == {}


@pytest.mark.parametrize(
    ("hours", "says"), [(0.5, "30 min 00 s"), (-1, "0.0 s"), (11, "11 h 00 min"), (13, ""), (None, "")]
)
def test_credentials_that_end_during_a_run(world: World, hours: float | None, says: str) -> None:
    """An OIDC token in the kubeconfig, say: its rollback would be refused, too. Nothing is said of what is renewed."""
    end = None if hours is None else world.clock.now() + timedelta(hours=hours)
    context = replace(world.context(), credentials_end=lambda: end)
    found = list(check_credentials(context))
    assert [item.id for item in found] == (["access.credentials-expiring"] if says else [])
    assert all(item.title.endswith(f"expire in {says}") and not item.blocking for item in found)


def test_a_kubeconfig_that_is_just_being_written_is_read_again(world: World) -> None:
    """A login that replaces it at this moment doesn't end the command; a file that stays damaged does."""
    end, reads = world.clock.now() + timedelta(hours=1), list[bool]()

    def read(written: int) -> datetime:
        reads.append(True)
        if len(reads) < written:
            raise ConfigError("kubeconfig:7: not YAML")
        return end

    found = list(check_credentials(replace(world.context(), credentials_end=lambda: read(2))))
    assert [item.id for item in found] == ["access.credentials-expiring"] and len(reads) == 2
    with pytest.raises(ConfigError, match="kubeconfig:7"):
        list(check_credentials(replace(world.context(), credentials_end=lambda: read(9))))
    assert len(reads) == 4


def test_missing_rights_block_the_run(world: World) -> None:
    """Each missing right is named, with what it is needed for, and why cluster-admin is asked for."""
    world.kube.denied = {("create", "secrets"), ("escalate", "clusterroles")}
    found = world.find(check_access)["access.missing"]
    assert found.blocking
    assert "create secrets in kube-system" in found.title and "escalate clusterroles" in found.title
    assert "Helm's release records (Secrets)" in found.diagnosis and "to roll back" in found.diagnosis
    assert "cluster-admin" in found.remedy and "docs/security.md" in found.remedy


@pytest.mark.parametrize("pulls", [True, False])
def test_pods_are_created_only_before_a_change(world: World, pulls: bool) -> None:
    """Where no image is pulled, and no component is started anew, a run works without that right."""
    world.kube.denied = {("create", "pods"), ("delete", "pods")}
    context = replace(world.context(), pulls_images=pulls)
    assert [found.title for found in check_access(context)] == (
        ["the kubeconfig's user is not allowed to create pods in kube-system, delete pods in kube-system"]
        if pulls
        else []
    )


def test_rights_are_asked_for_where_they_are_needed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Helm's Secrets are in each release's namespace, and pods pull images in those of the workloads: a right in
    kube-system is none there.
    """
    asked: set[tuple[str, str, str]] = set()

    def create(_kind: Kind, review: dict[str, Any], *_: Any) -> dict[str, Any]:
        about = review["spec"]["resourceAttributes"]
        asked.add((about["verb"], about["resource"], about["namespace"]))
        return {"status": {"allowed": about["verb"] != "*" and about["namespace"] != "shop"}}

    monkeypatch.setattr(world.kube, "create", create)
    context = world.context()
    assert context.plan is not None
    pods = "kind: Pod\nmetadata: {name: web, namespace: stock}\nspec: {containers: [{name: web, image: web}]}\n"
    release = PlannedRelease(ReleaseSpec("web", "shop", Path("/c")), "upgrade", "", "", pods, ())
    (found,) = check_access(replace(context, plan=replace(context.plan, steps=(release,)), pulls_images=True))
    assert "create secrets in shop" in found.title
    assert {("update", "secrets", "shop"), ("create", "pods", "stock"), ("create", "leases", "kube-system")} <= asked


Right = tuple[str, str, str, str]
"""Verb, group, resource and namespace."""


def asked_for(world: World, *steps: PlannedNodes | PlannedRelease, gates: tuple[WorkloadGate, ...] = ()) -> set[Right]:
    """What the check asks for somebody who may do all of it, and no more."""
    asked: set[Right] = set()

    def review(_kind: Kind, manifest: dict[str, Any], *_: Any) -> dict[str, Any]:
        about = manifest["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (about["resource"], about.get("subresource"))))
        asked.add((about["verb"], about["group"], resource, about["namespace"]))
        return {"status": {"allowed": about["verb"] != "*"}}

    context = world.context()
    assert context.plan is not None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(world.kube, "create", review)
        asked_of = replace(context, plan=replace(context.plan, steps=steps), workload_gates=gates)
        assert not list(check_access(asked_of))
    return asked


def recorded(world: World, monkeypatch: pytest.MonkeyPatch) -> set[Right]:
    """What is asked of the API from now on."""
    used: set[Right] = set()
    verbs = {"get": "get", "list": "list", "each": "list", "patch": "patch", "watch": "watch"}
    for method, verb in verbs.items():
        real = getattr(world.kube, method)

        def call(kind: Kind, *arguments: Any, real: Any = real, verb: str = verb, **more: Any) -> Any:
            at = 1 if verb in ("get", "patch") else 0
            namespace = arguments[at] if kind.namespaced and len(arguments) > at else ""
            used.add((verb, kind.api_version.rpartition("/")[0], kind.plural, namespace))
            return real(kind, *arguments, **more)

        monkeypatch.setattr(world.kube, method, call)
    evict = world.kube.evict

    def evicted(pod: str, namespace: str, *, uid: str) -> None:
        # As the adapter does: it reads first which pod has that name now.
        used.update({("get", "", "pods", namespace), ("create", "", "pods/eviction", namespace)})
        evict(pod, namespace, uid=uid)

    monkeypatch.setattr(world.kube, "evict", evicted)
    return used


def not_asked(used: set[Right], asked: set[Right]) -> list[Right]:
    """A right in all namespaces is one in each."""
    return sorted(right for right in used if not {right, (*right[:3], "")} & asked)


def fill(world: World) -> None:
    """A controller and a worker, with a pod of each kind that gates know."""
    add_deployment(world.kube, "kube-apiserver")
    add_pod(world.kube, "kube-apiserver", running("kube-apiserver"), node=CONTROLLER, host_ip="10.0.0.2")
    add_daemonset(world.kube, "kube-proxy", desired=2)
    world.kube.silent_kubelets = set()
    world.kube.raw_answers["/readyz"] = "ok"
    for name in (CONTROLLER, "worker-1"):
        node = world.node(name)
        node["status"]["nodeInfo"]["kubeletVersion"] = "v1.36.3"
        world.kube.put(NODES, node)
        world.kube.put(
            LEASES, {"metadata": {"name": name}, "spec": {"renewTime": "2026-01-01T00:00:00+00:00"}}, "kube-node-lease"
        )
        add_pod(world.kube, "kube-proxy", node=name, daemon=True, priority_class="system-node-critical")


def test_all_that_gates_read_is_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a role of just what the check asks for, no gate behind the first step lacks a right: the run would fail."""
    asked = asked_for(world)
    fill(world)
    used = recorded(world, monkeypatch)
    catalog = GateCatalog(world.kube, world.clock, world.cluster, GatePolicy())
    manifest = (
        "kind: Deployment\nmetadata: {name: kube-apiserver}\n---\nkind: DaemonSet\nmetadata: {name: kube-proxy}\n"
    )
    gates = catalog.of_release("kube-apiserver", manifest, namespace="kube-system", target=None)
    for _ in range(3):
        verdicts = [run.gate.check() for run in gates]
        world.clock.sleep(10.0)
    waits = [verdict.reason for verdict in verdicts if verdict.kind is not VerdictKind.HOLDS]
    assert waits == [], "what isn't reached isn't asked"
    assert not_asked(used, asked) == []


def test_all_that_gates_of_other_namespaces_read_is_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A right in kube-system is none where a chart's StatefulSets, a rollout group or a PodProtector are."""
    manifest = "\n---\n".join(
        f"kind: {kind}\nmetadata: {{name: {name}, namespace: shop, labels: {{{label}}}}}"
        for kind, name, label in (
            ("Deployment", "web", ""),
            ("DaemonSet", "agent", ""),
            ("StatefulSet", "queue", ""),
            ("StatefulSet", "db-a", "rollout-group: db"),
        )
    )
    release = PlannedRelease(ReleaseSpec("shop", "shop", Path("/c")), "upgrade", "", "", manifest, ())
    given = (
        WorkloadGate("rolloutGroup", "stock", "db", GatePolicy()),
        WorkloadGate("protector", "shop", "web", GatePolicy()),
        WorkloadGate("statefulset", "more", "db", GatePolicy()),
    )
    asked = asked_for(world, release, gates=given)
    add_stateful_set(world.kube, "db-a", group="db")
    used = recorded(world, monkeypatch)
    catalog = GateCatalog(world.kube, world.clock, world.cluster, GatePolicy())
    gates = [
        *catalog.own("shop", manifest, namespace="shop", target=None),
        *(catalog.of_workload(gate) for gate in given),
    ]
    for run in gates:
        run.gate.check()
    assert {
        ("list", "apps", "statefulsets", "shop"),
        ("get", "podseidon.kubewharf.io", "podprotectors", "shop"),
    } <= used
    assert not_asked(used, asked) == []
    assert ("get", "apps", "statefulsets", "shop") in asked and ("get", "apps", "statefulsets", "stock") not in asked


def test_all_that_nodes_need_is_asked_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of a cordon, a drain and the wait for a kubelet."""
    change = NodeChange("worker-1", KubernetesVersion(1, 36, 3), world.target)
    pool = NodePool("workers")
    asked = asked_for(world, PlannedNodes(pool, (change,), world.target, NodeSource("packages"), 300.0, 1, Path("/p")))
    fill(world)
    add_pod(world.kube, "web", node="worker-1")
    used = recorded(world, monkeypatch)
    back = NodeReturn(world.kube)
    Cordons(world.kube, world.clock).cordon("worker-1", "drain")
    drain = Drain(world.kube, world.clock, DrainPolicy(4.0), (), back.problem, lambda: None)
    assert drain.run(["worker-1"], list[str]().append) == {}
    back.back("worker-1", world.target)()
    assert {("patch", "", "nodes", ""), ("create", "", "pods/eviction", "kube-system")} <= used
    assert not_asked(used, asked) == []


def test_trial_of_programs_needs_its_files_rights(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of planned files are created where the program will run, and removed, also those of a killed run."""
    asked: set[tuple[str, str, str]] = set()

    def create(_kind: Kind, review: dict[str, Any], *_: Any) -> dict[str, Any]:
        about = review["spec"]["resourceAttributes"]
        asked.add((about["verb"], about["resource"], about["namespace"]))
        return {"status": {"allowed": about["verb"] != "*"}}

    monkeypatch.setattr(world.kube, "create", create)
    context = world.context()
    assert context.plan is not None
    proxy = (
        "kind: DaemonSet\nmetadata: {name: kube-proxy}\n"
        "spec: {template: {spec: {containers: [{name: kube-proxy, image: p, args: [--v=2]}]}}}\n"
    )
    release = PlannedRelease(ReleaseSpec("net", "net", Path("/c")), "upgrade", "", "", proxy, ())
    assert not list(check_access(replace(context, plan=replace(context.plan, steps=(release,)))))
    for verb in ("list", "create", "delete"):
        assert {(verb, "configmaps", "net"), (verb, "secrets", "net")} <= asked


AGENT = "kind: DaemonSet\nmetadata: {name: agent, namespace: net}\nspec: {template: {spec: {}}}\n"


def may_delete_pods(world: World, after: str, before: str = "", *, action: Action = "upgrade") -> bool:
    """Whether somebody who may delete no pods passes."""
    world.kube.denied = {("delete", "pods")}
    context = world.context()
    assert context.plan is not None
    release = PlannedRelease(ReleaseSpec("agents", "agents", Path("/c")), action, "", before, after, ())
    found = list(check_access(replace(context, plan=replace(context.plan, steps=(release,)), pulls_images=False)))
    assert all("delete pods in net" in each.title and "workers that are down" in each.diagnosis for each in found)
    return not found


def test_rollouts_past_a_worker_that_is_down_need_a_right(world: World) -> None:
    """A run would only learn of it once the release is written, and its rollback would stop at the same worker. So it
    is, too, where only the revision to go back to wants a pod there.
    """
    world.node("worker-1")
    assert may_delete_pods(world, AGENT)
    world.down("worker-1")
    assert not may_delete_pods(world, AGENT)
    assert not may_delete_pods(world, "", AGENT)


def test_rollouts_that_no_dead_worker_stops_need_no_right(world: World) -> None:
    """Where nothing changes, where no DaemonSet wants a pod there, and where others replace its pods; a controller that
    is down blocks the run itself.
    """
    world.down("worker-1")
    assert may_delete_pods(world, AGENT, AGENT, action="unchanged")
    assert may_delete_pods(world, AGENT.replace("DaemonSet", "Deployment"))
    assert may_delete_pods(world, AGENT.replace("spec: {}", "spec: {nodeSelector: {a: b}}"))
    assert may_delete_pods(world, AGENT.replace("{template", "{updateStrategy: {type: OnDelete}, template"))
    world.node("worker-1")
    world.down(CONTROLLER)
    assert may_delete_pods(world, AGENT)


def test_whoever_may_not_list_nodes_is_told_that(world: World) -> None:
    """Which of them are down isn't known then: the right that is missing is named all the same."""
    world.kube.denied = {("list", "nodes")}
    assert "list nodes" in world.find(check_access)["access.missing"].title


def test_a_list_that_is_long_is_cut(world: World) -> None:
    """Another cluster's kubeconfig misses everything: a few examples are enough."""
    world.kube.denied = {("*", "*")}
    assert world.find(check_access)["access.missing"].title.endswith("…")


def test_an_unanswered_question_is_unknown(world: World) -> None:
    """Rights that can't be asked for are not known to be there."""
    world.kube.unavailable = True
    assert world.find(check_access)["family.unknown"].blocking


@pytest.mark.parametrize("family", sorted(READ_BY_CHECKS_ONLY))
def test_right_that_only_a_check_needs(world: World, family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a run gets through, so it is a warning; which right it is stands in the title."""

    def refused(kind: Kind, *_: Any, **__: Any) -> Any:
        group = kind.api_version.rpartition("/")[0]
        raise forbidden(f'User "ci" cannot list resource "{kind.plural}" in API group "{group}" at the cluster scope')

    for method in READS:
        monkeypatch.setattr(world.kube, method, refused)
    if family == "protectors":  # a kind that the API server doesn't know needs no right
        monkeypatch.setattr(world.kube, "raw", lambda *_, **__: "{}")
    (found,) = run_checks(world.context(), [(family, dict(CHECKS)[family])])
    assert (found.id, found.severity) == (f"{family}.forbidden", "warning") and not blocking([found])
    assert re.search(r"the kubeconfig's user is not allowed to list [a-z.0-9]+$", found.title)
    assert 'User "ci"' in found.diagnosis and "docs/security.md" in found.remedy


@pytest.mark.parametrize(
    ("message", "right"),
    [
        (
            'cannot list resource "apiservices" in API group "apiregistration.k8s.io"',
            "list apiservices.apiregistration.",
        ),
        ('cannot get resource "services" in API group "" in the namespace "a"', "get services"),
        ('cannot get path "/metrics"', "get /metrics"),
        ("denied by another authorizer", "read all that they need"),
    ],
)
def test_right_is_named_in_the_servers_words(message: str, right: str) -> None:
    """Of any group, of none, and of what isn't a resource; other authorizers have words of their own."""
    found = missing_right("apis", forbidden(message))
    assert found is not None and f"is not allowed to {right}" in found.title and found.diagnosis.startswith(message)


def test_other_failures_of_a_check_stay_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What isn't a missing right, and a right that a run needs: neither is let pass."""
    assert missing_right("apis", ApiUnavailable("gone")) is None
    assert missing_right("apis", ApiError("HTTP 500")) is None
    assert missing_right("nodes", forbidden()) is None

    def refused(*_: Any, **__: Any) -> Any:
        raise forbidden()

    monkeypatch.setattr(world.kube, "list", refused)
    (found,) = run_checks(world.context(), [("nodes", dict(CHECKS)["nodes"])])
    assert found.id == "nodes.unknown" and blocking([found])


def test_security_page_lists_what_only_checks_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever makes a role from the page misses nothing."""
    asked: set[str] = set()
    for method in READS:
        real = getattr(world.kube, method)

        def read(kind: Kind, *arguments: Any, real: Any = real, **more: Any) -> Any:
            asked.add(kind.plural)
            return real(kind, *arguments, **more)

        monkeypatch.setattr(world.kube, method, read)
    run_checks(world.context(), [(family, check) for family, check in CHECKS if family in READ_BY_CHECKS_ONLY])
    assert len(asked) > 8
    page = SECURITY.read_text()
    assert [plural for plural in sorted(asked) if f"`{plural}`" not in page] == []
