"""The end of an emulation: a run of its own, after which nothing leads back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.unit.app.test_upgrade import FakeSession
from tests.unit.engine.killing import FROM, TO, World
from tests.unit.gates.builders import add_deployment, add_pod
from upgrader.app import existing_run, finalize, upgrade
from upgrader.app.execution import FinishedRun
from upgrader.app.finalize import plan_finalize, propose_finalize
from upgrader.app.front_end import READS_FOLDER, FrontEnd
from upgrader.app.resume import resumable_run
from upgrader.app.rollback import run_to_roll_back
from upgrader.app.upgrade import plan_upgrade, propose_upgrade
from upgrader.app.wiring import Session
from upgrader.cli.main import cli
from upgrader.engine.history.past_runs import newest_run, past_run
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.engine.locks.fence import Fence
from upgrader.errors import Blocked, HelmError, Interrupted, UsageError
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.model.cluster import Cluster, Host
from upgrader.model.event import RunStarted
from upgrader.model.finding import Finding
from upgrader.model.outcome import Verdict, broken
from upgrader.model.own_steps import BAKE
from upgrader.model.release import ReleaseSpec
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import (
    AvailabilitySettings,
    OnFailure,
    PlaybookSettings,
    ReleaseSettings,
    Settings,
    StepSettings,
)
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Tools

WORKLOADS = {"kube-apiserver": "api", "kubernetes": "leaders"}


@dataclass
class Place:
    """A cluster at the old minor, whose releases emulate as their flags say, and its folder's values."""

    world: World
    folder: Path
    emulation: bool = True
    on_failure: OnFailure = "rollback-run"
    bake_seconds: float = 0.0
    values: dict[str, dict[str, Any]] = field(default_factory=lambda: {name: {} for name in WORKLOADS})

    @property
    def settings(self) -> Settings:
        """A pipeline with a playbook, which is no part of a finalize."""
        steps: tuple[StepSettings, ...] = (
            *(ReleaseSettings(name, "kube-system", values=self.values[name]) for name in WORKLOADS),
            PlaybookSettings("smoke", self.folder / "smoke.yml", self.folder / "undo.yml"),
        )
        return Settings(
            self.folder,
            TO,
            self.folder / "kubeconfig",
            self.folder / "hosts.yml",
            steps,
            emulation=self.emulation,
            on_failure=self.on_failure,
            bake_seconds=self.bake_seconds,
            availability=AvailabilitySettings(0.0),
        )

    def upgrade(self) -> FinishedRun:
        """A run to the next minor, after which the API server reports what its release asks for."""
        with propose_upgrade(self.folder, TO, FrontEnd(), take_over=False) as proposed:
            finished = proposed.execute()
        self.answer()
        return finished

    def finalize(self) -> FinishedRun | None:
        """The end of the emulation; None where there was none."""
        said = list[str]()
        with propose_finalize(self.folder, FrontEnd(doing=said.append), take_over=False) as proposed:
            assert said[0] == READS_FOLDER and said[-1] == "", "from the beginning, until there is something to show"
            finished = proposed.execute() if proposed else None
        self.answer()
        return finished

    def answer(self) -> None:
        """Let the API server report what the newest revision of its release has."""
        manifest = self.world.helm.manifest("kube-apiserver", "kube-system")
        new = str(TO) in manifest
        version = TO if new else FROM
        minor = 36 if "--emulated-version=1.36" in manifest else version.minor
        told = {"gitVersion": str(version), "emulationMajor": "1", "emulationMinor": str(minor)}
        self.world.kube.raw_answers["/version"] = json.dumps(told)

    def flags(self, release: str) -> str:
        """The release's deployed manifest."""
        return self.world.helm.manifest(release, "kube-system")


def rendered(spec: ReleaseSpec, **_how: object) -> str:
    """A Deployment with the version and the flags that the charts would give it."""
    values: Mapping[str, Any] = spec.values
    emulated = values.get("extraArgs", {}).get("emulated-version") or values.get("emulatedVersion")
    flags = [f"--emulated-version={emulated}"] if emulated else []
    container = {"name": "x", "image": f"x:{values['kubernetesVersion']}", "args": [*flags, *values.get("more", [])]}
    name = WORKLOADS[spec.name]
    pod = {"template": {"spec": {"containers": [container]}}}
    return json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": pod})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Both releases at the old minor."""
    world = World(tmp_path / "journal.jsonl")
    made = Place(world, tmp_path)
    for name in ("smoke.yml", "undo.yml"):
        (tmp_path / name).write_text("[]\n")
    monkeypatch.setattr(world.helm, "render", rendered)
    for release, workload in WORKLOADS.items():
        world.helm.install(release, rendered(ReleaseSpec(release, "", Path(), {"kubernetesVersion": str(FROM)})))
        add_deployment(world.kube, workload)
        add_pod(world.kube, workload)
    tools = Tools(world.helm, world.kube, world.playbooks, world.clock, world.hosts)

    @contextmanager
    def opened(
        _folder: Path, _target: KubernetesVersion | None = None, _kubeconfig: Path | None = None
    ) -> Iterator[Session]:
        settings = made.settings
        cluster = Cluster(
            tmp_path, settings.kubeconfig, "demo", settings.inventory, (Host("controller-1", "10.0.0.2"),)
        )
        yield FakeSession(settings, cluster, tools, world.kube, Fence(tools.hosts, (), tools.clock))

    for module in (upgrade, existing_run, finalize):
        monkeypatch.setattr(module, "open_session", opened)
    monkeypatch.setattr(FakeSession, "findings", ())
    made.answer()
    return made


def test_emulated_upgrade_can_be_rolled_back_and_repeated(place: Place) -> None:
    """The new components emulate; a second run changes nothing of that; a rollback leads to the old ones."""
    finished = place.upgrade()
    assert (finished.error, finished.state.emulated) == (None, "1.36")
    assert all("--emulated-version=1.36" in place.flags(release) for release in WORKLOADS)
    place.emulation = False
    with propose_upgrade(place.folder, TO, FrontEnd(), take_over=False) as again:
        assert [step.action for step in again.checked.plan.steps] == ["unchanged", "unchanged", "playbook"]
    with run_to_roll_back(place.folder, None, FrontEnd(), take_over=False) as found:
        assert found.propose("").execute().error is None
    assert all(str(FROM) in place.flags(release) for release in WORKLOADS)


def test_resumed_run_emulates_what_its_journal_says(place: Place) -> None:
    """Another process continues as the run began, whatever upgrader.yaml and the instances say by then."""
    place.on_failure = "stop"
    place.world.helm.fail_upgrade["kubernetes"] = HelmError("timed out")
    stopped = place.upgrade()
    place.emulation = False
    place.world.kube.raw_answers["/version"] = json.dumps({"gitVersion": str(TO)})
    place.world.helm.fail_upgrade.clear()
    said = list[str]()
    with resumable_run(place.folder, None, FrontEnd(doing=said.append), take_over=False) as found:
        assert said[0] == READS_FOLDER and said[-1] == "", "from the beginning, until there is something to show"
        said.clear()
        resumed = found.prepare(accept_changes=False)
        assert said[0] == READS_FOLDER and said[-1] == "", "from the beginning, until there is something to show"
        assert resumed.execute().error is None
    assert "--emulated-version=1.36" in place.flags("kubernetes")
    odd = replace(found, resumed=replace(found.resumed, emulated="1.x"))
    with pytest.raises(UsageError, match=stopped.state.run):
        odd.prepare(accept_changes=False)


def test_finalize_ends_it_and_the_way_back(place: Place) -> None:
    """Both releases lose the flag at the same version, no playbook runs, and the upgrade can't be rolled back."""
    place.upgrade()
    ran = place.world.playbooks.completed
    finished = place.finalize()
    assert finished is not None and finished.error is None
    assert (finished.state.kind, finished.state.target, finished.state.emulated) == (RunKind.FINALIZE, TO, "")
    assert not any("--emulated-version" in place.flags(release) for release in WORKLOADS)
    assert all(str(TO) in place.flags(release) for release in WORKLOADS)
    assert place.world.playbooks.completed == ran
    with (
        pytest.raises(UsageError, match="can no longer be resumed or rolled back"),
        run_to_roll_back(place.folder, None, FrontEnd(), take_over=False),
    ):
        pass
    assert place.finalize() is None


def test_failed_finalize_is_rolled_back_and_the_upgrade_can_be_too(place: Place) -> None:
    """A step that fails returns everything to the emulation, from where the way back is open."""
    place.upgrade()
    place.world.helm.fail_upgrade["kubernetes"] = HelmError("timed out")
    finished = place.finalize()
    assert finished is not None and finished.state.outcome == "rolled-back"
    assert all("--emulated-version=1.36" in place.flags(release) for release in WORKLOADS)
    with run_to_roll_back(place.folder, None, FrontEnd(), take_over=False) as found:
        assert found.propose("").execute().error is None
    assert all(str(FROM) in place.flags(release) for release in WORKLOADS)


def test_half_finalized_is_completed(place: Place) -> None:
    """Where only kube-apiserver has ended it, as after an interruption, the same command does the rest."""
    place.upgrade()
    final = rendered(ReleaseSpec("kube-apiserver", "", Path(), {"kubernetesVersion": str(TO)}))
    place.world.helm.install("kube-apiserver", final)
    place.answer()
    finished = place.finalize()
    assert finished is not None and finished.error is None
    assert [step.summary.startswith("nothing") for step in finished.state.steps] == [True, False]
    assert not any("--emulated-version" in place.flags(release) for release in WORKLOADS)


def test_finalize_interrupted_at_its_last_gate_is_completed(place: Place) -> None:
    """Nothing emulates any more, but its gates have not passed: the same command asks them, and ends with a result."""
    place.upgrade()
    for release in WORKLOADS:
        place.world.helm.install(release, rendered(ReleaseSpec(release, "", Path(), {"kubernetesVersion": str(TO)})))
    place.answer()
    name = "99990101T000000-finalize"
    (place.folder / "runs" / name).mkdir(parents=True)
    journal = Journal(place.folder / "runs" / name / JOURNAL, place.world.clock)
    journal.emit(RunStarted(name, RunKind.FINALIZE, (), f"runs/{name}", target=TO))
    journal.close()
    planned = plan_finalize(place.folder, TO, place.folder / "kubeconfig")
    assert planned is not None, "a fleet's plan shows what the run will ask"
    ended = CliRunner().invoke(cli, ["-C", str(place.folder), "finalize", "--yes"])
    assert ended.exit_code == 0 and "Nothing to finalize" not in ended.output, ended
    (begun,) = (each for each in (place.folder / "runs").glob("*finalize*") if each.name != name)
    made = past_run(begun)
    assert made.outcome == "succeeded" and all(step.gates for step in made.state.steps)


def test_plan_of_a_finalize_needs_no_lock(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows what would change, for a whole fleet; where nothing emulates, there is none; it is of one version."""
    kubeconfig = place.folder / "kubeconfig"
    place.upgrade()
    with monkeypatch.context() as patch:
        patch.delattr(finalize, "cluster_lock")
        patch.delattr(finalize, "locked_folder")
        checked = plan_finalize(place.folder, TO, kubeconfig)
    assert checked is not None and [step.action for step in checked.plan.steps] == ["upgrade", "upgrade"]
    assert all("--emulated-version=1.36" in place.flags(release) for release in WORKLOADS)
    with pytest.raises(Blocked, match=f"it runs {TO}; only a cluster that runs {FROM} can be finalized"):
        plan_finalize(place.folder, FROM, kubeconfig)
    place.finalize()
    assert plan_finalize(place.folder, TO, kubeconfig) is None


@pytest.mark.parametrize(
    ("by", "interrupted", "begins"), [("2999", False, True), ("2000", False, False), ("2000", True, True)]
)
def test_finalize_of_a_campaign_begins_in_its_window(place: Place, by: str, interrupted: bool, begins: bool) -> None:
    """One that begins too late is refused with the code of an interruption; an interrupted one is continued."""
    place.upgrade()
    if interrupted:
        name = "99990101T000000-finalize"
        (place.folder / "runs" / name).mkdir(parents=True)
        journal = Journal(place.folder / "runs" / name / JOURNAL, place.world.clock)
        journal.emit(RunStarted(name, RunKind.FINALIZE, (), f"runs/{name}", target=TO))
        journal.close()
    options = ("--yes", "--resume", "--begin-by", f"{by}-01-01T00:00:00+0000")
    ended = CliRunner().invoke(cli, ["-C", str(place.folder), "finalize", *options])
    if begins:
        assert ended.exit_code == 0, ended
    else:
        assert isinstance(ended.exception, Interrupted) and "after 2000-01-01" in str(ended.exception)
    assert ("--emulated-version=1.36" in place.flags("kubernetes")) is not begins


def test_finalize_of_a_campaign_changes_what_was_approved(place: Place) -> None:
    """The plan that was saved has the digest of the run's; a run that would change something else is blocked."""
    place.upgrade()
    planned = plan_finalize(place.folder, TO, place.folder / "kubeconfig")
    assert planned is not None
    for digest in ("another", planned.plan.changes_digest):
        options = ("--yes", "--approved-changes", digest)
        ended = CliRunner().invoke(cli, ["-C", str(place.folder), "finalize", *options])
        assert (ended.exit_code == 0) is (digest != "another"), ended
    with propose_upgrade(place.folder, TO, FrontEnd(), take_over=False) as again:
        assert plan_upgrade(place.folder, TO).plan.changes_digest == again.checked.plan.changes_digest


@pytest.mark.parametrize("campaign", ["mine", "another"])
def test_finalize_that_was_interrupted_has_changed_what_was_approved(place: Place, campaign: str) -> None:
    """A Job's second pod continues what its first began, which has changed some releases already; what anyone else has
    changed is refused.
    """
    place.upgrade()
    planned = plan_finalize(place.folder, TO, place.folder / "kubeconfig")
    assert planned is not None
    place.world.helm.install(
        "kubernetes", rendered(ReleaseSpec("kubernetes", "", Path(), {"kubernetesVersion": str(TO)}))
    )
    place.answer()
    name = "99990101T000000-finalize"
    (place.folder / "runs" / name).mkdir(parents=True)
    journal = Journal(place.folder / "runs" / name / JOURNAL, place.world.clock)
    journal.emit(RunStarted(name, RunKind.FINALIZE, (), f"runs/{name}", target=TO, campaign=campaign))
    journal.close()
    options = ("--yes", "--resume", "--approved-changes", planned.plan.changes_digest, "--campaign", "mine")
    ended = CliRunner().invoke(cli, ["-C", str(place.folder), "finalize", *options])
    assert (ended.exit_code == 0) is (campaign == "mine"), ended
    assert campaign == "mine" or "would now make other changes" in str(ended.exception)


def test_old_finalize_before_the_upgrade_is_not_continued(place: Place) -> None:
    """One that was interrupted before the upgrade is past: a Job, which always resumes, keeps to its window."""
    name = "19990101T000000-finalize"
    (place.folder / "runs" / name).mkdir(parents=True)
    journal = Journal(place.folder / "runs" / name / JOURNAL, place.world.clock)
    journal.emit(RunStarted(name, RunKind.FINALIZE, (), f"runs/{name}", target=FROM))
    journal.close()
    place.upgrade()
    options = ("--yes", "--resume", "--begin-by", "2000-01-01T00:00:00+0000")
    ended = CliRunner().invoke(cli, ["-C", str(place.folder), "finalize", *options])
    assert isinstance(ended.exception, Interrupted), ended
    assert "--emulated-version=1.36" in place.flags("kubernetes")


def test_job_that_is_started_again_finalizes_once(place: Place) -> None:
    """Its run has ended, and was rolled back: the cluster isn't tried a second time without a person."""
    place.upgrade()
    place.world.helm.fail_upgrade["kubernetes"] = HelmError("timed out")
    place.finalize()
    place.world.helm.fail_upgrade.clear()
    options = ("--yes", "--resume", "--campaign", "c", "--after")
    ended = CliRunner().invoke(cli, ["-C", str(place.folder), "finalize", *options, "none"])
    assert isinstance(ended.exception, Blocked) and "has ended (rolled-back) since" in str(ended.exception)
    (newest,) = (each.name for each in (place.folder / "runs").glob("*finalize*"))
    ended = CliRunner().invoke(cli, ["-C", str(place.folder), "finalize", *options, newest])
    assert ended.exit_code == 0, ended
    made = newest_run(place.folder / "runs")
    assert made is not None and made.state.campaign == "c"


def test_earlier_finalize_that_only_the_cluster_knows_refuses_no_first_attempt(place: Place) -> None:
    """A fresh checkout doesn't have its journal, so `--after` is "none"; without --resume, nothing was begun before."""
    place.upgrade()
    place.world.helm.fail_upgrade["kubernetes"] = HelmError("timed out")
    place.finalize()
    place.world.helm.fail_upgrade.clear()
    options = ("--yes", "--campaign", "c", "--after", "none")
    ended = CliRunner().invoke(cli, ["-C", str(place.folder), "finalize", *options])
    assert ended.exit_code == 0, ended
    assert not any("--emulated-version" in place.flags(release) for release in WORKLOADS)


@pytest.mark.parametrize("emulates", [True, False])
def test_only_the_version_of_the_campaign_is_finalized(place: Place, emulates: bool) -> None:
    """A Job may have waited in a queue while a person has upgraded the cluster again: the end of that emulation was
    not approved. Nor is such a cluster done where it emulates nothing.
    """
    place.upgrade()
    if not emulates:
        place.finalize()
    options = ("--yes", "--resume", "--only-at", str(FROM))
    ended = CliRunner().invoke(cli, ["-C", str(place.folder), "finalize", *options])
    assert isinstance(ended.exception, Blocked), ended
    assert f"it runs {TO}; only a cluster that runs {FROM} can be finalized" in str(ended.exception)
    assert ("--emulated-version=1.36" in place.flags("kubernetes")) is emulates


def test_other_changes_are_not_made_on_the_way(place: Place) -> None:
    """What can't be undone changes nothing else: edited values are refused, and named with the command for them."""
    place.upgrade()
    place.values["kubernetes"] = {"more": ["--v=4"]}
    with pytest.raises(Blocked, match="would change more than the emulated version of release kubernetes") as caught:
        place.finalize()
    assert f"upgrader run --to {TO}" in caught.value.remedy
    assert "--emulated-version=1.36" in place.flags("kube-apiserver")


def test_flag_of_the_operators_own_values_is_named(place: Place) -> None:
    """upgrader doesn't set it, and so can't end it."""
    place.upgrade()
    place.values["kube-apiserver"] = {"extraArgs": {"emulated-version": "1.36"}}
    with pytest.raises(Blocked, match="set the flag emulated-version themselves") as caught:
        place.finalize()
    assert "extraArgs" in caught.value.remedy


def test_nothing_is_finalized_in_the_middle_of_an_upgrade(place: Place) -> None:
    """A run that has not reached its end is resumed or rolled back first."""
    place.on_failure = "stop"
    place.world.helm.fail_upgrade["kubernetes"] = HelmError("timed out")
    place.upgrade()
    with pytest.raises(Blocked, match="is not complete") as caught:
        place.finalize()
    assert "upgrader resume" in caught.value.remedy


def test_check_that_blocks_changes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A removed API, say, which the emulation still served."""
    place.upgrade()
    monkeypatch.setattr(FakeSession, "findings", (Finding("removed-apis.planned", "error", "x", "y", "z"),))
    with pytest.raises(Blocked, match="a check blocks"):
        place.finalize()
    assert "--emulated-version=1.36" in place.flags("kube-apiserver")


def test_new_run_does_not_end_an_emulation_that_a_finalize_left_half_ended(place: Place) -> None:
    """It is kept as long as kube-apiserver's last good revision has it, whichever instance answers."""
    place.upgrade()
    told = {"gitVersion": str(TO), "emulationMajor": "1", "emulationMinor": "37"}
    place.world.kube.raw_answers["/version"] = json.dumps(told)
    with propose_upgrade(place.folder, TO, FrontEnd(), take_over=False) as proposed:
        assert proposed.checked.plan.emulated == (1, 36)


def test_run_bakes_at_its_end(place: Place) -> None:
    """All gates are held for the time, after the upgrade and after the finalize; a run that changes nothing doesn't."""
    place.bake_seconds = 600.0
    before = place.world.clock.monotonic()
    upgraded = place.upgrade()
    assert upgraded.error is None and place.world.clock.monotonic() - before > 600
    last = upgraded.state.steps[-1]
    assert (last.name, [gate.name for gate in last.gates]) == (BAKE, ["bake"])
    finished = place.finalize()
    assert finished is not None and finished.state.steps[-1].name == BAKE


def test_gate_that_fails_in_the_bake_rolls_the_run_back(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong after minutes is undone by the run that caused it."""
    place.bake_seconds = 600.0
    begun = place.world.clock.monotonic()
    good = RolloutGate.check

    def later(gate: RolloutGate) -> Verdict:
        leaks = place.world.clock.monotonic() - begun > 300 and str(TO) in place.flags("kubernetes")
        return broken("it leaks") if leaks else good(gate)

    monkeypatch.setattr(RolloutGate, "check", later)
    finished = place.upgrade()
    assert finished.state.outcome == "rolled-back"
    assert finished.state.failure is not None and finished.state.failure.name == BAKE
    assert "it leaks" in finished.state.reason
    assert all(str(FROM) in place.flags(release) for release in WORKLOADS)
