"""A world in which a process can be killed between any two actions, and other processes come after it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.fakes.playbooks import FakePlaybooks
from testkit.fakes.recovery import FakeRecovery
from tests.unit.gates.builders import add_node, add_pod, running
from upgrader.app.observe_cluster import observe
from upgrader.engine.execution.runner import Runner, RunResult
from upgrader.engine.execution.stop_request import StopRequest
from upgrader.engine.journal.journal_file import Journal, read_journal
from upgrader.engine.state.event_fold import fold, follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import HelmError, ReleaseLocked, UpgraderError
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.cluster import Cluster, Host
from upgrader.model.event import Event, RollbackRequested, RunResumed, RunStarted
from upgrader.model.observed import Observed
from upgrader.model.release import ReleaseSpec, Revision, last_good
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import PlaybookSettings, ReleaseSettings, Settings, StepSettings
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline
from upgrader.ports import CommandResult, PlaybookResult, Tools
from upgrader.steps.intended import IntendedStep, plan_run, wanted_steps
from upgrader.steps.pipeline_builder import PipelineBuilder
from upgrader.steps.plan import step_inputs
from upgrader.steps.release.plan import IntendedRelease

FROM, TO = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
HELM_SECONDS = 300.0
_ORPHAN_SECONDS = 20.0
"""How long a Helm process whose starter was killed continues."""


STRIDE = 1 if "UPGRADER_EVERY_MOMENT" in os.environ else 5
"""From one instant of a kill to the next: `make soak PART=kills` has each, which takes minutes."""


class Killed(BaseException):
    """SIGKILL: no handler of the killed process may see it, and none catches it."""


@dataclass
class Fate:
    """Counts the instants at which a process could be killed, and kills it at the `at`-th (None: never)."""

    at: int | None = None
    passed: int = 0
    where: str = ""
    """The instant at which it was killed; "" when it wasn't."""

    def instant(self, what: str) -> None:
        """One more action is done, or about to be."""
        if self.at == self.passed:
            self.where = what
            raise Killed
        self.passed += 1


def manifest(name: str, tag: str) -> dict[str, Any]:
    """An object with a tag, as a chart's values: the fake Helm renders values as they are."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"tag": tag}}


class WorldHelm(FakeHelm):
    """Helm's writes: pending first, then deployed, or failed and rolled back; refuses what is pending.

    When its starter is killed, it continues (`orphans`), or it is killed as well and leaves the release pending.
    """

    def __init__(self, clock: FakeClock, orphans: bool) -> None:
        super().__init__()
        self.clock = clock
        self.fate = Fate()
        self.orphans = orphans
        self._rest: list[tuple[str, Callable[[], None]]] = []
        self._due = 0.0

    def history(self, release: str, namespace: str) -> tuple[Revision, ...]:
        self._let_orphans_work()
        return super().history(release, namespace)

    def upgrade(
        self,
        spec: ReleaseSpec,
        *,
        timeout_seconds: float,
        watch: Callable[[], None],
        take_ownership: bool = False,
        description: str = "",
        wait: bool = True,
    ) -> Revision:
        name, text = spec.name, self.render(spec)
        newest = self.history(name, "")[-1:]
        if newest and newest[0].pending:
            raise ReleaseLocked("another operation is in progress")
        good = last_good(self.history(name, ""))
        error = self.fail_upgrade.get(name)
        acts: list[tuple[str, Callable[[], None]]] = [("pending", lambda: self._pending(name, text))]
        if error is None:
            acts.append(("deployed", lambda: self._settled(name, "deployed")))
        elif good is not None:
            before = self.manifests[name, good.number]
            acts += [
                ("failed", lambda: self._settled(name, "failed")),
                ("rolling back", lambda: self._pending(name, before)),
                ("rolled back", lambda: self._settled(name, "deployed")),
            ]
        else:
            acts.append(("uninstalled", lambda: self._gone(name)))
        self._work(f"helm upgrade {name}", acts)
        if error is not None:
            raise error
        return self.releases[name][-1]

    def rollback(
        self,
        release: str,
        namespace: str,
        revision: int,
        *,
        timeout_seconds: float,
        wait: bool = True,
        watch: Callable[[], None] = lambda: None,
    ) -> Revision:
        watch()
        text = self.manifests[release, revision]
        acts: list[tuple[str, Callable[[], None]]] = [
            ("pending", lambda: self._pending(release, text)),
            ("deployed", lambda: self._settled(release, "deployed")),
        ]
        self._work(f"helm rollback {release}", acts)
        return self.releases[release][-1]

    def uninstall(self, release: str, namespace: str, *, timeout_seconds: float) -> None:
        self._work(f"helm uninstall {release}", [("gone", lambda: self._gone(release))])

    def _work(self, what: str, acts: list[tuple[str, Callable[[], None]]]) -> None:
        assert not self._rest, f"{what}, while another Helm is at work"
        self.fate.instant(f"before {what}")
        for number, (stage, act) in enumerate(acts):
            act()
            try:
                self.fate.instant(f"{what}: {stage}")
            except Killed:
                if self.orphans:
                    self._rest, self._due = acts[number + 1 :], self.clock.monotonic() + _ORPHAN_SECONDS
                raise

    def _let_orphans_work(self) -> None:
        if self._rest and self.clock.monotonic() >= self._due:
            rest, self._rest = self._rest, []
            for _, act in rest:
                act()

    def _pending(self, name: str, text: str) -> None:
        kind = "pending-upgrade" if self.releases.get(name) else "pending-install"
        self._add(name, kind, text, updated=self.clock.now())  # type: ignore[arg-type]

    def _settled(self, name: str, status: str) -> None:
        before = [
            replace(r, status="superseded") if r.status == "deployed" and status == "deployed" else r
            for r in self.releases[name][:-1]
        ]
        self.releases[name] = [*before, replace(self.releases[name][-1], status=status)]  # type: ignore[arg-type]

    def _gone(self, name: str) -> None:
        self.releases.pop(name, None)


class WorldPlaybooks(FakePlaybooks):
    """Playbooks that a kill interrupts before, during or after their run."""

    fate = Fate()
    completed: int = 0

    def run(self, playbook: Path, **arguments: Any) -> PlaybookResult:
        self.fate.instant(f"before {playbook.name}")
        self.fate.instant(f"in the middle of {playbook.name}")
        result = super().run(playbook, **arguments)
        self.completed += not arguments.get("check")
        self.fate.instant(f"after {playbook.name}")
        return result


class WorldHosts(FakeHosts):
    """A controller whose files are written before a kill, or not at all."""

    fate = Fate()

    def __init__(self) -> None:
        super().__init__()
        self.commands["install"] = CommandResult(0, "", "")

    def write(self, host: Host, path: str, content: bytes, *, mode: int = 0o600) -> None:
        self.fate.instant(f"before {path} is written")
        super().write(host, path, content, mode=mode)
        self.fate.instant(f"after {path} was written")


@dataclass
class World:
    """What outlives every process: the cluster, the journal's file, and the time."""

    path: Path
    orphans: bool = True
    playbook: bool = False
    note: str = ""
    """At which instant its process was killed."""
    clock: FakeClock = field(default_factory=FakeClock)
    kube: FakeKube = field(default_factory=FakeKube)

    def __post_init__(self) -> None:
        self.helm = WorldHelm(self.clock, self.orphans)
        self.playbooks = WorldPlaybooks()
        self.hosts = WorldHosts()
        for name in ("a", "c"):
            self.helm.install(name, self.helm.render(ReleaseSpec(name, "", Path(), manifest(name, "old"))))
        self.kube.raw_answers |= {"/readyz": "ok", "/version": json.dumps({"gitVersion": str(FROM)})}
        add_node(self.kube, "controller-1")
        self.kube.silent_kubelets = set()
        node = dict(self.kube.get(NODES, "controller-1") or {})
        node["status"] = {**node["status"], "nodeInfo": {"kubeletVersion": str(FROM)}}
        self.kube.put(NODES, node)
        add_pod(self.kube, "etcd", running(), priority_class="system-node-critical")

    @property
    def deployed(self) -> dict[str, str]:
        """Each release's deployed manifest; a release with a newer revision of another status shows that."""
        self.clock.sleep(_ORPHAN_SECONDS)
        found = {}
        for name in ("a", "b", "c"):
            revisions = self.helm.history(name, "")
            if revisions:
                top = revisions[-1]
                found[name] = self.helm.manifests[name, top.number] if top.status == "deployed" else top.status
        return found

    def process(self, fate: Fate) -> Process:
        """A new process: it knows only the world."""
        self.helm.fate = self.playbooks.fate = self.hosts.fate = fate
        return Process(self, fate)

    @property
    def state(self) -> RunState:
        """How far the run got."""
        return fold(read_journal(self.path)) if self.path.exists() else RunState()


@dataclass
class Process:
    """One process of upgrader, with objects of its own."""

    world: World
    fate: Fate
    stop: StopRequest = field(default_factory=StopRequest)

    def run(self) -> RunResult:
        """`upgrader run`, as the first process."""
        world = self.world
        plan = plan_run(self._intended(), self._observe(), TO)
        pipeline = self._builder().forward(plan)
        names = tuple(item.step.name for item in pipeline.steps)
        inputs = step_inputs(plan)
        began = RunStarted("r", RunKind.UPGRADE, names, "runs/r", plan.target, plan.current, "rollback-run", inputs)
        journal = Journal(world.path, world.clock)
        return self._execute(journal, lambda runner: runner.run(pipeline, began))

    def resume(self) -> RunResult:
        """`upgrader resume`."""
        state, builder = self.world.state, self._builder()
        if state.rolling_back:
            pipeline = builder.rollback(state)
        else:
            plan = builder.replan(state, self._intended(), self._observe())
            pipeline = builder.forward(plan)
            assert tuple(item.step.name for item in pipeline.steps) == state.planned
            assert step_inputs(plan) == state.inputs
        return self._go_on(pipeline, state, RunResumed("r", "me"))

    def rollback(self, to: str = "") -> RunResult:
        """`upgrader rollback`."""
        state, why = self.world.state, RollbackRequested("r", "me", to)
        pipeline = self._builder().rollback(follow(state, why, self.world.clock.now()))
        return self._go_on(pipeline, state, why)

    def _go_on(self, pipeline: Pipeline, state: RunState, why: RunResumed | RollbackRequested) -> RunResult:
        journal = Journal.reopen(self.world.path, self.world.clock)
        return self._execute(journal, lambda runner: runner.resume(pipeline, state, why))

    def _execute(self, journal: Journal, work: Callable[[Runner], RunResult]) -> RunResult:
        try:
            return work(
                Runner(
                    kube=self.world.kube,
                    clock=self.world.clock,
                    reporter=_Mortal(journal, self.fate),
                    stop=self.stop,
                    recovery=FakeRecovery(self.world.kube),
                    patience_seconds=60.0,
                )
            )
        finally:
            journal.close()

    def _builder(self) -> PipelineBuilder:
        host = Host("controller-1", "10.0.0.2")
        cluster = Cluster(Path("/c"), Path("/c/kubeconfig"), "demo", Path("/c/hosts.yml"), (host,))
        world = self.world
        tools = Tools(world.helm, world.kube, world.playbooks, world.clock, world.hosts)
        return PipelineBuilder(self._settings(), cluster, tools)

    def _observe(self) -> Observed:
        releases = (item for item in wanted_steps(self._settings(), Path()) if isinstance(item, ReleaseSpec))
        return observe(self.world.kube, self.world.helm, releases)

    def _intended(self) -> tuple[IntendedStep, ...]:
        return tuple(
            IntendedRelease(item, self.world.helm.render(item)) if isinstance(item, ReleaseSpec) else item
            for item in wanted_steps(self._settings(), Path())
        )

    def _settings(self) -> Settings:
        steps: list[StepSettings] = [
            ReleaseSettings(name, "kube-system", Path("/charts") / name, manifest(name, "new"))
            for name in ("a", "b", "c")
        ]
        if self.world.playbook:
            steps.insert(1, PlaybookSettings("tune", Path("/p/tune.yml")))
        return Settings(Path("/c"), TO, Path("/c/kubeconfig"), Path("/c/hosts.yml"), tuple(steps))


class _Mortal:
    """A journal whose process can be killed before and after each record."""

    def __init__(self, journal: Journal, fate: Fate) -> None:
        self._journal = journal
        self._fate = fate

    def emit(self, event: Event) -> None:
        self._fate.instant(f"before {event}")
        self._journal.emit(event)
        self._fate.instant(f"after {event}")


def broken(world: World, name: str) -> UpgraderError:
    """Make every upgrade of a release fail."""
    world.helm.fail_upgrade[name] = HelmError("timed out waiting for the condition")
    return world.helm.fail_upgrade[name]
