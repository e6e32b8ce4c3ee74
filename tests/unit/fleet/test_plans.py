"""Classes of equal plans: what people approve instead of reading a plan for each cluster."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from io import StringIO
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import FLEET, write_fleet
from testkit.plan_documents import document
from upgrader.app.event_lines import CommandEnded, error_form, line_of
from upgrader.app.plan_refusal import plan_refusal
from upgrader.cli.ui.fleet import print_new_traits, print_shared, print_unrehearsed, print_without_room
from upgrader.errors import ApiUnavailable
from upgrader.fleet.cron import Cron
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.model import Fleet
from upgrader.fleet.outcomes import command_end, result_of
from upgrader.fleet.plans import NoRoom, PlannedCluster, SharedCause, plan_fleet, shared_causes, without_room
from upgrader.fleet.selectors import Requirement, Selector
from upgrader.fleet.state import CampaignState, ClusterState
from upgrader.fleet.windows import Exclusion, Window
from upgrader.model.finding import Finding
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.version import KubernetesVersion
from upgrader.steps.plan_document import PlanDocument

UTC = ZoneInfo("UTC")
INVENTORY = """\
clusters:
- {name: eu-1, uid: u1, labels: {ring: canary}}
- {name: eu-10, uid: u2, labels: {ring: production}}
- {name: us, uid: u3, labels: {ring: production}}
- {name: d, uid: u4}
"""


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """A canary and two clusters of production."""
    for name in ("eu-1", "eu-10", "us"):
        cluster = tmp_path / "clusters" / name
        cluster.mkdir(parents=True)
        (cluster / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    written = write_fleet(tmp_path, FLEET.replace("  domains: {label: region}\n", ""), INVENTORY)
    return read_fleet(written, FakeClock().now())


def test_equal_plans_are_one_class_and_so_are_equal_problems(fleet: Fleet) -> None:
    """The largest class comes first; a cluster that can't be planned is blocked, with its reason."""
    told: list[str] = []

    def plan(folder: Path, target: KubernetesVersion) -> PlannedCluster:
        if folder.name == "us":
            raise ApiUnavailable("cannot connect to 10.0.0.3")
        return PlannedCluster(document())

    first, second = plan_fleet(fleet, plan, told.append).classes
    assert (first.clusters, first.stages, first.problem) == (("eu-1", "eu-10"), ("canary", "production"), "")
    assert first.plan == document() and first.blocked == document().blocked
    assert (second.clusters, second.stages, second.plan) == (("us",), ("production",), None)
    assert second.blocked and second.problem == "cannot connect to 10.0.0.3"
    assert told == ["planning eu-1 (1 of 3)…", "planning eu-10 (2 of 3)…", "planning us (3 of 3)…"]


def test_plans_that_change_something_else_are_two_classes(fleet: Fleet) -> None:
    """A cluster whose plan has another step is told apart from the others."""

    def plan(folder: Path, target: KubernetesVersion) -> PlannedCluster:
        return PlannedCluster(document("db" if folder.name == "eu-1" else "web"))

    planned = plan_fleet(fleet, plan, lambda _: None)
    assert [each.clusters for each in planned.classes] == [("eu-10", "us"), ("eu-1",)]


def test_clusters_that_fail_in_the_same_way_are_one_class(fleet: Fleet) -> None:
    """Their names and addresses are what tells their messages apart, and no reason."""

    def plan(folder: Path, target: KubernetesVersion) -> PlannedCluster:
        raise ApiUnavailable(f"{folder.name}: cannot connect to 10.0.0.{len(folder.name)}")

    (only,) = plan_fleet(fleet, plan, lambda _: None).classes
    assert only.clusters == ("eu-1", "eu-10", "us")


def test_what_runs_in_a_cluster_is_named_as_it_is(fleet: Fleet) -> None:
    """A version in four parts is no address, and a plugin with a cluster's name stays that plugin: two versions would
    be one. Addresses in the reason why something is unknown are no difference.
    """

    def plan(folder: Path, target: KubernetesVersion) -> PlannedCluster:
        live: tuple[str, ...] = ("CNI calico 3.26.1.1", "unknown kube-proxy mode: 10.0.0.1 is silent")
        if folder.name == "us":
            live = ("CNI calico 3.26.1.2", "CNI us v0.2", "unknown kube-proxy mode: 10.0.0.2 is silent")
        return PlannedCluster(document(), live)

    found = {each.trait: each.clusters for each in plan_fleet(fleet, plan, lambda _: None).new}
    assert found["CNI calico 3.26.1.2"] == found["CNI us v0.2"] == ("us",)
    assert found["unknown kube-proxy mode: ADDRESS is silent"] == ("eu-10", "us")


def test_what_no_earlier_stage_has_is_named(fleet: Fleet) -> None:
    """A label, a step, a finding or a CNI plugin that only a later stage has was tried on no canary; the canary's own
    is no news. What isn't known of a cluster may be anything, also where the canary's isn't known.
    """
    labels = {**fleet.by_name["us"].labels, "os": "flatcar"}
    clusters = tuple(replace(each, labels=labels) if each.name == "us" else each for each in fleet.clusters)
    fleet = replace(fleet, clusters=clusters)

    def plan(folder: Path, target: KubernetesVersion) -> PlannedCluster:
        other = folder.name == "us"
        live = ("CNI cilium v1.16.1" if other else "CNI calico-node v3.28.0", "unknown kube-proxy mode: forbidden")
        return PlannedCluster(document("db" if other else "web"), live)

    planned = plan_fleet(fleet, plan, lambda _: None)
    found = {each.trait: (each.stage, each.clusters) for each in planned.new}
    assert found["label os=flatcar"] == ("production", ("us",))
    assert "step db (release, undo: rollback)" in found and "Deployment db: changed" in found
    assert found["CNI cilium v1.16.1"] == ("production", ("us",)) and "CNI calico-node v3.28.0" not in found
    assert found["unknown kube-proxy mode: forbidden"] == ("production", ("eu-10", "us"))
    assert not any("ring" in trait or "eu-" in trait or "web" in trait for trait in found)
    shown = StringIO()
    print_new_traits(planned.new, shown)
    assert "new in stage production, in no earlier stage:" in shown.getvalue()
    assert "us: label os=flatcar, CNI cilium v1.16.1, " in shown.getvalue(), "however many traits its plan has"


@pytest.mark.parametrize("id_", ["missing", "damaged", "stale", "old", "used"])
def test_clusters_without_a_rehearsal_are_named(fleet: Fleet, id_: str) -> None:
    """Those whose plan has a finding that one is missing, with the command; not one whose rehearsal is relied on."""

    def plan(folder: Path, target: KubernetesVersion) -> PlannedCluster:
        found = (Finding(f"rehearsal.{id_}", "error", "…"),) if folder.name == "us" else ()
        return PlannedCluster(replace(document(), findings=found))

    planned, shown = plan_fleet(fleet, plan, lambda _: None), StringIO()
    assert planned.unrehearsed == (() if id_ == "used" else ("us",))
    print_unrehearsed(planned.unrehearsed, fleet, shown)
    said = "not rehearsed: us: upgrader -C FOLDER rehearse --to v1.37.1\n"
    assert shown.getvalue() == ("" if id_ == "used" else said)


def test_secret_of_one_cluster_is_masked_in_its_plan_only(fleet: Fleet) -> None:
    """A team may have chosen a word as its password that all other plans need."""

    def plan(folder: Path, target: KubernetesVersion) -> PlannedCluster:
        if folder.name == "eu-1":
            KNOWN.learn(["production-web"])
        if folder.name == "us":
            KNOWN.learn(["unreachable"])
            raise ApiUnavailable("it is unreachable, and has production-web")
        return PlannedCluster(document("production-web"))

    planned = plan_fleet(fleet, plan, lambda _: None)
    plans = {each.clusters: (each.plan.steps[0].name if each.plan else each.problem) for each in planned.classes}
    mine, others, problem = plans["eu-1",], plans["eu-10",], plans["us",]
    assert "production-web" not in mine and others == "production-web"
    assert "unreachable" not in problem and "production-web" in problem
    assert KNOWN.mask("unreachable") == "unreachable"


def test_clusters_that_are_alike_have_no_new_traits(fleet: Fleet) -> None:
    """Nor has one that can't be planned: that is said anyway."""

    def plan(folder: Path, target: KubernetesVersion) -> PlannedCluster:
        if folder.name == "us":
            raise ApiUnavailable("cannot connect")
        return PlannedCluster(document())

    assert plan_fleet(fleet, plan, lambda _: None).new == ()


def test_windows_that_are_too_short_are_named(fleet: Fleet) -> None:
    """By what earlier runs of a cluster's folder took, or those of the newest campaign; a cluster without a window may
    take as long as it likes.
    """
    cron = Cron.parse("0 22 * * *")
    mine = Selector((Requirement("ring", "In", ("production",)),))
    fleet = replace(fleet, windows=(Window(mine, cron, 4 * 3600.0, UTC),), expected_seconds=1800.0)

    def plan(folder: Path, target: KubernetesVersion) -> PlannedCluster:
        (first, *rest) = document().steps
        seconds = 3 * 3600.0 if folder.name != "eu-10" else 600.0
        return PlannedCluster(replace(document(), steps=(replace(first, usual_seconds=seconds), *rest)))

    planned, now = plan_fleet(fleet, plan, lambda _: None), FakeClock().now()
    found = without_room(fleet, planned, CampaignState(), now)
    assert [each.clusters for each in found] == [("us",)] and found[0].needed_seconds >= 6 * 3600
    slow = without_room(fleet, planned, CampaignState(seconds=(600.0, 9000.0)), now)
    assert NoRoom(("eu-10",), 18000.0) in slow
    out = StringIO()
    print_without_room(slow[:1], out)
    said = " ".join(out.getvalue().split())
    assert "no time for a run: eu-10: a run and its rollback need 300 min (from earlier runs" in said


def test_clusters_that_need_no_window_are_not_named(fleet: Fleet) -> None:
    """One with nothing to do, and one that no window selects; but one that an exclusion keeps closed for ever is."""
    window = Window(Selector((Requirement("ring", "In", ("production",)),)), Cron.parse("0 22 * * *"), 60.0, UTC)
    fleet = replace(fleet, windows=(window,), exclusions=())

    def plan(folder: Path, target: KubernetesVersion) -> PlannedCluster:
        done = replace(document(), steps=tuple(replace(each, action="unchanged") for each in document().steps))
        return PlannedCluster({"us": done, "eu-10": None}.get(folder.name, document()))

    planned, now = plan_fleet(fleet, plan, lambda _: None), FakeClock().now()
    assert without_room(fleet, planned, CampaignState(), now) == ()
    closed = Exclusion(Selector(()), now.date(), date.max, UTC)
    (found,) = without_room(replace(fleet, exclusions=(closed,)), planned, CampaignState(), now)
    assert found.clusters == ("eu-1",)


def alarmed(node: str) -> PlanDocument:
    """A plan that a check forbids, on a node of the cluster."""
    alarm = Finding(
        "etcd.alarms", "error", "etcd has an alarm", f"NOSPACE on {node} since 12:0{len(node)}", "Compact it."
    )
    return replace(document(), findings=(alarm,), blocked=True)


def test_waiting_clusters_that_share_a_cause(fleet: Fleet, tmp_path: Path) -> None:
    """Those whose plan is refused for what a run that failed has said at its end are named, whatever only one of them
    has in it; clusters that are blocked by something else, or have failed themselves, are not.
    """
    refused = plan_refusal(alarmed("eu-1"))
    assert refused is not None
    said = line_of(CommandEnded(3, error=error_form(refused, "clusters/eu-1")), FakeClock().now())
    cause = result_of(command_end(said), "eu-1", tmp_path, fleet.goal, campaign="", before="", resumed="").cause
    waiting = {name: ClusterState(name) for name in ("eu-10", "us")}
    state = CampaignState(clusters={"eu-1": ClusterState("eu-1", "blocked", cause=cause), **waiting})

    def plan(folder: Path, target: KubernetesVersion) -> PlannedCluster:
        if folder.name == "us":
            raise ApiUnavailable("cannot connect to 10.0.0.3")
        return PlannedCluster(alarmed(folder.name))

    shared = shared_causes(plan_fleet(fleet, plan, lambda _: None), state)
    assert shared == (SharedCause(cause, ("eu-1",), ("eu-10",)),)
    out = StringIO()
    print_shared(shared, out)
    assert "eu-10 would fail as eu-1 did: Blocked: a check blocks the run" in " ".join(out.getvalue().split())
    assert shared_causes(plan_fleet(fleet, lambda *_: PlannedCluster(document()), lambda _: None), state) == ()
