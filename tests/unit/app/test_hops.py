"""An upgrade over several minor versions."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.recovery import FakeRecovery
from tests.unit.engine.killing import FROM, World, broken, manifest
from upgrader.app import upgrade
from upgrader.app.execution import FinishedRun
from upgrader.app.front_end import FrontEnd
from upgrader.app.hops import hops_left, run_hops, skips_of
from upgrader.app.upgrade import CheckedPlan, ProposedUpgrade, check_upgrade, plan_upgrade, propose_upgrade, save_plan
from upgrader.app.wiring import Session
from upgrader.engine.locks.fence import Fence
from upgrader.engine.locks.lease_object import LEASES, NAME, NAMESPACE
from upgrader.errors import Blocked, HelmError, Interrupted, StepFailed, UsageError
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.api_lifecycle import Minor
from upgrader.model.cluster import Cluster, Host
from upgrader.model.finding import Finding
from upgrader.model.observed import Observed
from upgrader.model.rehearsal_record import KnownRehearsal
from upgrader.model.release import ReleaseSpec
from upgrader.model.settings import AvailabilitySettings, RehearsalSettings, ReleaseSettings, Settings
from upgrader.model.skips import Skips
from upgrader.model.version import KubernetesVersion as V
from upgrader.ports import Recovery, Tools
from upgrader.steps.plan import Plan
from upgrader.steps.plan_document import HopDocument
from upgrader.steps.release.plan import IntendedRelease

GOAL = V(1, 39, 0)
THROUGH = (V(1, 37, 4), V(1, 38, 2))


def workload(name: str, version: str) -> dict[str, Any]:
    """A release with an image of Kubernetes' own, which no gate looks at."""
    image = {"name": "main", "image": f"registry.k8s.io/kube-scheduler:{version}"}
    pods = {"template": {"spec": {"containers": [image]}}}
    return {**manifest(name, version), "kind": "PodTemplateOwner", "spec": pods}


class HopSession(Session):
    """A session on a world in memory, whose releases depend on the target as built-in charts do."""

    def intended(self, emulated: tuple[int, int] | None = None) -> tuple[IntendedRelease, ...]:
        specs = [
            ReleaseSpec(item.name, item.namespace, item.chart or Path(), workload(item.name, str(self.settings.target)))
            for item in self.settings.pipeline
            if isinstance(item, ReleaseSettings)
        ]
        return tuple(IntendedRelease(spec, self.tools.helm.render(spec)) for spec in specs)

    def recovery(self, admitted: Callable[[], bool]) -> Recovery:
        return FakeRecovery(self.tools.kube)  # type: ignore[arg-type]

    def preflight(self, observed: Observed, plan: Plan, families: Collection[str] = ()) -> tuple[Finding, ...]:
        return super().preflight(observed, plan, ("version", "rehearsal"))


class Watcher:
    """Approves every hop, and serves each hop's version once it has ended, as a cluster does."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: list[tuple[str, bool]] = []
        self.runs: list[FinishedRun] = []
        self.pauses: list[str] = []

    def approve(self, checked: CheckedPlan, *, foreseen: bool) -> None:
        self.seen.append((str(checked.plan.target), foreseen))

    def ended(self, finished: FinishedRun) -> None:
        self.runs.append(finished)
        if finished.error:
            raise finished.error
        serve(self.world, finished.state.target)

    def pause(self, checked: CheckedPlan) -> None:
        lease = self.world.kube.get(LEASES, NAME, NAMESPACE)
        assert lease is not None and not lease["spec"].get("holderIdentity"), "somebody may look in between"
        self.pauses.append(str(checked.plan.target))


def serve(world: World, version: V | None) -> None:
    """Let the world's API server be of a version."""
    world.kube.raw_answers["/version"] = json.dumps({"gitVersion": str(version)})


def old_kubelet(world: World) -> None:
    """A kubelet that v1.37 lives with, and v1.38 doesn't."""
    node = dict(world.kube.get(NODES, "controller-1") or {})
    node["status"] = {**node["status"], "nodeInfo": {"kubeletVersion": "v1.34.0"}}
    world.kube.put(NODES, node)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A cluster at v1.36.3 whose folder asks for v1.39.0."""
    world = World(tmp_path / "journal.jsonl")
    steps = tuple(ReleaseSettings(name, "kube-system", Path("/charts") / name) for name in ("a", "c"))
    settings = Settings(
        tmp_path,
        GOAL,
        tmp_path / "kubeconfig",
        tmp_path / "hosts.yml",
        steps,
        through=THROUGH,
        availability=AvailabilitySettings(0.0),
    )
    host = Host("controller-1", "10.0.0.2")
    cluster = Cluster(tmp_path, settings.kubeconfig, "demo", settings.inventory, (host,))
    tools = Tools(world.helm, world.kube, world.playbooks, world.clock, world.hosts)

    @contextmanager
    def opened(_folder: Path, target: V | None = None, _kubeconfig: Path | None = None) -> Iterator[Session]:
        session = HopSession(settings, cluster, tools, world.kube, Fence(tools.hosts, (), tools.clock))
        yield session.at(target) if target else session

    monkeypatch.setattr(upgrade, "open_session", opened)
    return world


def proposing(folder: Path) -> Callable[[int | None], AbstractContextManager[ProposedUpgrade]]:
    return lambda most: propose_upgrade(folder, None, FrontEnd(), take_over=False, most=most)


def revision_of_a(hop: HopDocument) -> int | None:
    """To which revision a rollback of the hop returns release a."""
    return next(step.undo.revision for step in hop.steps if step.name == "a")


def targets(runs: list[FinishedRun]) -> list[tuple[str, str | None]]:
    return [(str(run.state.target), run.state.outcome) for run in runs]


def test_each_minor_is_a_run_of_its_own(world: World, tmp_path: Path) -> None:
    """Three minors are three runs with a journal each; every later plan is exactly what was said of it beforehand."""
    watcher = Watcher(world)
    run_hops(proposing(tmp_path), watcher)
    assert targets(watcher.runs) == [(str(v), "succeeded") for v in (*THROUGH, GOAL)]
    assert watcher.seen == [("v1.37.4", False), ("v1.38.2", True), ("v1.39.0", True)]
    assert watcher.pauses == ["v1.37.4", "v1.38.2"]
    assert len({run.folder for run in watcher.runs}) == 3
    assert all("v1.39.0" in text for text in world.deployed.values())


def test_a_failed_hop_leaves_the_last_one(world: World, tmp_path: Path) -> None:
    """The second hop fails: the cluster is as the first left it, the error says so, and nothing else runs."""
    watcher = Watcher(world)

    class Breaks(Watcher):
        def pause(self, checked: CheckedPlan) -> None:
            broken(world, "c")

    watcher = Breaks(world)
    with pytest.raises(StepFailed, match=r"healthy at v1\.37\.4"):
        run_hops(proposing(tmp_path), watcher)
    assert targets(watcher.runs) == [("v1.37.4", "succeeded"), ("v1.38.2", "rolled-back")]
    assert all("v1.37.4" in text for text in world.deployed.values())


def test_an_api_server_that_stays_behind_ends_it(world: World, tmp_path: Path) -> None:
    """A pipeline without kube-apiserver, or a kubeconfig of another one: the first hop isn't made again and again."""

    class Stays(Watcher):
        def ended(self, finished: FinishedRun) -> None:
            self.runs.append(finished)
            assert len(self.runs) < 3, "the same hop again"
            world.clock.sleep(1)

    watcher = Stays(world)
    with pytest.raises(Blocked, match=r"to v1\.37\.4 succeeded, but the API server is at v1\.36\.3"):
        run_hops(proposing(tmp_path), watcher)
    assert targets(watcher.runs) == [("v1.37.4", "succeeded")]


def test_a_stop_during_the_last_step_is_not_forgotten(world: World, tmp_path: Path) -> None:
    """Ctrl-C comes when nothing of this hop is left to stop before: it has succeeded, and the next doesn't begin."""

    @contextmanager
    def propose(most: int | None) -> Iterator[ProposedUpgrade]:
        with propose_upgrade(tmp_path, None, FrontEnd(), take_over=False, most=most) as proposed:
            yield proposed
            proposed.held.stop.requested = True

    watcher = Watcher(world)
    with pytest.raises(Interrupted) as stopped:
        run_hops(propose, watcher)
    assert stopped.value.remedy == "Run `upgrader run --to v1.39.0` to continue."
    assert targets(watcher.runs) == [("v1.37.4", "succeeded")]
    assert watcher.pauses == []


def test_a_hop_that_was_not_completed_is_completed_first(world: World, tmp_path: Path) -> None:
    """An interrupted hop has upgraded the API server, and not what follows it: that doesn't skip a minor.

    Kubernetes' scheduler and controller manager may be one minor behind the API server.
    """
    for name, version in (("a", "v1.37.4"), ("c", "v1.36.3")):
        world.helm.install(name, world.helm.render(ReleaseSpec(name, "", Path(), workload(name, version))))
    serve(world, V(1, 37, 4))
    watcher = Watcher(world)
    run_hops(proposing(tmp_path), watcher)
    assert [target for target, _ in targets(watcher.runs)] == ["v1.37.4", "v1.38.2", "v1.39.0"]
    assert [foreseen for _, foreseen in watcher.seen] == [False, True, True]


def test_the_same_command_goes_on(world: World, tmp_path: Path) -> None:
    """What stopped it is mended: the hops that are left are made, and no other."""
    serve(world, THROUGH[0])
    watcher = Watcher(world)
    run_hops(proposing(tmp_path), watcher)
    assert [target for target, _ in targets(watcher.runs)] == ["v1.38.2", "v1.39.0"]


@pytest.mark.parametrize("most", [1, 2])
def test_at_most_so_many_hops(world: World, tmp_path: Path, most: int) -> None:
    """`--max-hops`: the run ends there, and says of no later hop what it would do."""
    watcher = Watcher(world)
    run_hops(proposing(tmp_path), watcher, most)
    assert len(watcher.runs) == most
    assert watcher.runs[0].state.goal == (*THROUGH, GOAL)[most - 1]


def test_a_change_between_two_hops_is_no_longer_foreseen(world: World, tmp_path: Path) -> None:
    """Somebody upgrades a release while nothing is locked: whoever approved the path is asked again."""

    class Meddles(Watcher):
        def pause(self, checked: CheckedPlan) -> None:
            if len(self.runs) == 1:
                world.helm.install("c", world.helm.render(ReleaseSpec("c", "", Path(), manifest("c", "by hand"))))

    watcher = Meddles(world)
    run_hops(proposing(tmp_path), watcher)
    assert [foreseen for _, foreseen in watcher.seen] == [False, False, True]


def test_a_hop_that_was_not_approved_is_not_foreseen(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first pause, the folder gets another last hop: the second is as it was, and the third is asked for."""
    opened, watcher = vars(upgrade)["open_session"], Watcher(world)

    @contextmanager
    def edited(folder: Path, target: V | None = None) -> Iterator[Session]:
        with opened(folder, target) as session:
            yield session.at(V(1, 39, 7)) if watcher.pauses else session

    monkeypatch.setattr(upgrade, "open_session", edited)
    run_hops(proposing(tmp_path), watcher)
    assert watcher.seen == [("v1.37.4", False), ("v1.38.2", True), ("v1.39.7", False)]


def test_what_a_later_hop_forbids_is_said_before_the_first(world: World, tmp_path: Path) -> None:
    """A kubelet of v1.34 lives with v1.37, but not with v1.38: nothing begins, and the finding is that hop's."""
    old_kubelet(world)
    checked = check_upgrade(tmp_path, None)
    assert [finding.id for finding in checked.findings] == []
    assert [[finding.id for finding in hop.findings] for hop in checked.ahead] == [
        ["version.kubelet-older"],
        ["version.kubelet-older"],
    ]
    assert "--to v1.37.4" in checked.ahead[0].findings[0].remedy, "now, the kubelet would be newer than the API server"
    with pytest.raises(Blocked):
        run_hops(proposing(tmp_path), Watcher(world))
    assert all("old" in text for text in world.deployed.values())


def test_rehearsal_that_a_later_hop_lacks_is_said_before_the_first(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hop can be rehearsed only when it is next: nothing begins, and the remedy is to upgrade one minor, for which
    the rehearsal of one hop suffices. A skip counts for all hops.
    """
    opened = vars(upgrade)["open_session"]
    compared: list[Plan] = []

    @contextmanager
    def demanding(folder: Path, target: V | None = None, kubeconfig: Path | None = None) -> Iterator[Session]:
        with opened(folder, target, kubeconfig) as session:
            settings = replace(session.settings, rehearsal=RehearsalSettings("require"), emulation=True)
            yield replace(session, settings=settings)

    def known(_session: Session, _observed: Observed, plan: Plan) -> KnownRehearsal | None:
        compared.append(plan)
        rehearsed = KnownRehearsal(world.clock.now(), "controller-1", (), ())
        return rehearsed if plan.target == THROUGH[0] else None

    monkeypatch.setattr(upgrade, "open_session", demanding)
    monkeypatch.setattr(upgrade, "known_rehearsal", known)
    with pytest.raises(Blocked, match=r"a check blocks the run to v1\.38\.2") as refused:
        run_hops(proposing(tmp_path), Watcher(world))
    assert refused.value.remedy.endswith("--to v1.37.4")
    assert all("old" in text for text in world.deployed.values())
    checked = check_upgrade(tmp_path, None)
    assert [finding.id for finding in checked.findings] == ["rehearsal.used"]
    assert [[finding.title for finding in hop.findings] for hop in checked.ahead] == [
        ["the upgrade to v1.38.2 was not rehearsed"],
        ["the upgrade to v1.39.0 was not rehearsed"],
    ]
    assert "once the cluster is at v1.37.4" in checked.ahead[0].findings[0].diagnosis
    assert not check_upgrade(tmp_path, THROUGH[0]).blocked
    assert {plan.emulated for plan in compared} == {(1, 36)}, "as the run of this one minor is planned"
    assert not check_upgrade(tmp_path, None, Skips(("rehearsal.missing",), "known")).blocked


def test_a_refusal_says_where_the_cluster_is(world: World, tmp_path: Path) -> None:
    """After a hop, it is not true that nothing was changed; before it, the way as far as nothing blocks is named."""
    old_kubelet(world)
    document = plan_upgrade(tmp_path, None).document
    assert [hop.blocked for hop in document.hops] == [True, True, True], "of the first hop, it is that of the run"
    with pytest.raises(Blocked, match=r"the run to v1\.38\.2; the cluster stays at v1\.36\.3") as refused:
        check_upgrade(tmp_path, None).refuse_if_blocked()
    assert refused.value.remedy.endswith("--to v1.37.4")
    serve(world, THROUGH[0])
    with pytest.raises(Blocked, match=r"the run to v1\.38\.2; the cluster stays at v1\.37\.4") as refused:
        check_upgrade(tmp_path, None).refuse_if_blocked()
    assert "--to" not in refused.value.remedy


def test_a_plan_shows_every_hop(world: World, tmp_path: Path) -> None:
    """Each from what the one before it leaves: no hop's plan shows an earlier hop's change again."""
    document = plan_upgrade(tmp_path, None).document
    assert [(str(hop.current), str(hop.target)) for hop in document.hops] == [
        ("v1.36.3", "v1.37.4"),
        ("v1.37.4", "v1.38.2"),
        ("v1.38.2", "v1.39.0"),
    ]
    diffs = ["".join(change.diff for step in hop.steps for change in step.changes) for hop in document.hops]
    assert all(str(hop.target) in diff for hop, diff in zip(document.hops, diffs, strict=True))
    assert "v1.36.3" not in diffs[2] and "v1.37.4" not in diffs[2]
    assert [revision_of_a(hop) for hop in document.hops] == [1, 2, 3]


@pytest.mark.parametrize("pending", [False, True])
def test_a_forecast_counts_revisions_as_helm_does(world: World, tmp_path: Path, pending: bool) -> None:
    """An unchanged release gets none, and one that is freed first gets two: a later hop's undo names the right one."""
    if pending:
        world.helm._pending("a", "half")
        world.clock.sleep(3600)
    else:
        now = ReleaseSpec("a", "", Path(), workload("a", str(THROUGH[0])))
        world.helm.install("a", world.helm.render(now))
    said = revision_of_a(plan_upgrade(tmp_path, None).document.hops[1])
    run_hops(proposing(tmp_path), Watcher(world), 1)
    assert said is not None and said == revision_of_a(plan_upgrade(tmp_path, None).document.hops[0])


def test_several_minors_can_not_be_saved(world: World, tmp_path: Path) -> None:
    """A saved plan promises exactly what is run: no one can promise that of a later hop."""
    with pytest.raises(UsageError, match="several ahead") as refused:
        save_plan(tmp_path, None, tmp_path / "plan.json")
    assert "--to v1.37.4" in (refused.value.remedy or "")
    assert not (tmp_path / "plan.json").exists()


def test_a_resumed_hop_knows_where_it_was_going(world: World, tmp_path: Path) -> None:
    """The journal of each hop names the goal; the last hop's has nothing left to do, nor has a failed one."""
    watcher = Watcher(world)
    run_hops(proposing(tmp_path), watcher)
    assert [hops_left(run.state) for run in watcher.runs] == [GOAL, GOAL, None]
    serve(world, FROM)
    broken(world, "c")
    with propose_upgrade(tmp_path, None, FrontEnd(), take_over=False) as proposed:
        assert hops_left(proposed.execute().state) is None


def test_charts_that_refuse_a_later_hop_name_it(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Today's hop may be fine: the error says which one isn't, and how far the way is free."""
    intended = HopSession.intended

    def refuses(session: HopSession, emulated: Minor | None = None) -> tuple[IntendedRelease, ...]:
        if session.settings.target == GOAL:
            raise HelmError("values don't meet the schema")
        return intended(session, emulated)

    monkeypatch.setattr(HopSession, "intended", refuses)
    with pytest.raises(HelmError, match=r"to v1\.39\.0.*values don't meet the schema") as refused:
        run_hops(proposing(tmp_path), Watcher(world))
    assert "--to v1.38.2" in refused.value.remedy


def test_a_skip_counts_for_later_hops(world: World, tmp_path: Path) -> None:
    """What the operator overrules is overruled for every hop."""
    old_kubelet(world)
    checked = check_upgrade(tmp_path, None, Skips(("version.kubelet-older",), "drained"))
    assert {finding.skipped for hop in checked.ahead for finding in hop.findings} == {"drained"}
    assert not checked.blocked


def test_a_skip_outlives_an_interruption(world: World, tmp_path: Path) -> None:
    """`resume` has no --skip: what was overruled for the later hops is in the journal of the one that it completes."""
    old_kubelet(world)
    skips = Skips(("version.kubelet-older",), "drained")
    with propose_upgrade(tmp_path, None, FrontEnd(), take_over=False, skips=skips) as proposed:
        state = proposed.execute().state
    assert skips_of(state) == skips
