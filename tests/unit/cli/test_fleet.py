"""`upgrader fleet`, with a stub for each cluster's run and answer."""

from __future__ import annotations

import builtins
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest
from click.testing import CliRunner, Result

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from testkit.fleet_folder import FLEET, INVENTORY, server_of, write_fleet, write_kubeconfig
from testkit.plan_documents import document
from testkit.terminal import this_process_on_terminal
from tests.unit.fleet.test_open_runs import write_later
from upgrader import __version__
from upgrader.app import finalize, upgrade
from upgrader.app.event_lines import error_form
from upgrader.app.front_end import FrontEnd
from upgrader.app.run_inputs import inputs_digest
from upgrader.app.upgrade import ProposedUpgrade
from upgrader.cli import fleet as fleet_commands
from upgrader.cli import main as entry
from upgrader.cli.approved_inputs import ApprovedChanges, read_copies, with_approved_inputs
from upgrader.cli.main import cli
from upgrader.config.copied_folder import COPIES
from upgrader.config.load import load_settings
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiUnavailable, Blocked, CampaignStopped, Interrupted, Locked, UsageError
from upgrader.fleet import campaigns, clusters, job_objects, job_process, use_cases
from upgrader.fleet import inputs as fleet_inputs
from upgrader.fleet.campaigns import Campaign, newest_campaign
from upgrader.fleet.clusters import Answer
from upgrader.fleet.coordinator import Coordinator
from upgrader.fleet.copies_in_secrets import chunks_of
from upgrader.fleet.decide import Decision, Wait
from upgrader.fleet.events import CampaignEnded, ClusterEnded, ClusterStarting, ExecutorName, Pins, Problem
from upgrader.fleet.inputs import folder_digest
from upgrader.fleet.jobs_executor import JobsExecutor
from upgrader.fleet.local_executor import LocalExecutor
from upgrader.fleet.model import Fleet
from upgrader.fleet.outcomes import CommandEnd, command_end
from upgrader.fleet.reports import files
from upgrader.fleet.saved_plans import read_fleet_plan
from upgrader.fleet.state import CampaignState, ClusterState, Phase
from upgrader.fleet.unread_journals import Unread
from upgrader.gates.kubernetes_kinds import NAMESPACES
from upgrader.model.event import RunEnded, RunStarted
from upgrader.model.outcome import RunOutcome
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import Settings
from upgrader.model.version import KubernetesVersion

TARGET = KubernetesVersion.release("v1.37.1")
PINS = Pins("1", "c", "p")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fleet whose clusters answer, and whose first run is blocked by a check."""
    clock = FakeClock()
    uids = dict(zip("abcd", ("u1", "u2", "u3", "u4"), strict=True))
    monkeypatch.setattr(use_cases, "system_clock", lambda: clock)
    monkeypatch.setattr(files, "system_clock", lambda: clock)
    monkeypatch.setattr(use_cases, "ask_cluster", lambda kubeconfig: Answer(uids[server_of(kubeconfig)], TARGET))
    monkeypatch.setattr(use_cases, "own_pins", lambda: PINS)
    monkeypatch.setattr(
        clusters, "ask_traits", lambda kubeconfig: ("CNI calico" if server_of(kubeconfig) == "a" else "CNI cilium",)
    )
    monkeypatch.setattr(LocalExecutor, "start", lambda *_: None)
    monkeypatch.setattr(LocalExecutor, "running", lambda *_: False)
    monkeypatch.setattr(LocalExecutor, "end", lambda *_: CommandEnd(3, "", "Blocked", "etcd has an alarm"))
    monkeypatch.delenv("UPGRADER_KUBECONFIG", raising=False)
    return write_fleet(tmp_path)


C, D = 64 * "c", 64 * "d"
"""Digests of changes."""


def checked(changes: str = C) -> SimpleNamespace:
    """A cluster's plan as `fleet plan` gets it, which changes what has this digest."""
    return SimpleNamespace(document=document(), plan=SimpleNamespace(changes_digest=changes))


def fleet(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["-C", str(folder), "fleet", *arguments], catch_exceptions=False)


def approved_changes(folder: Path, cluster: str) -> Result:
    """The folder's changes, approved with the digest that is shown first."""
    with pytest.raises(UsageError) as caught:
        fleet(folder, "approve", "--changes", cluster, "--reason", "fine")
    digest = caught.value.remedy.partition("--digest ")[2].split()[0]
    return fleet(folder, "approve", "--changes", cluster, "--digest", digest, "--reason", "fine")


def test_campaign_at_the_command_line(folder: Path) -> None:
    """A campaign begins, ends with a blocked cluster's code, says so, and takes what a person asks for."""
    assert "no campaign yet" in fleet(folder, "status").stdout
    with pytest.raises(UsageError, match="has no campaign in progress"):
        fleet(folder, "pause")
    with pytest.raises(CampaignStopped, match=r"maxFailures\.blocked") as caught:
        fleet(folder, "run", "--yes")
    assert caught.value.exit_code == 3
    shown = fleet(folder, "status").stdout
    assert (
        "✗ blocked" in shown
        and "etcd has an alarm" in shown
        and "0 of 2 done, waits for the stages before it" in " ".join(shown.split())
    )
    found = json.loads(fleet(folder, "status", "-o", "json").stdout)
    assert [each["phase"] for each in found["clusters"]] == ["blocked", "waiting", "waiting"]
    assert "Paused" in fleet(folder, "pause", "--reason", "audit").stderr
    assert "paused by" in fleet(folder, "status").stdout
    assert "Resumed" in fleet(folder, "resume").stderr
    assert "is skipped" in fleet(folder, "skip", "b", "--reason", "later").stderr
    assert "will be run again" in fleet(folder, "retry", "a").stderr
    assert "Approved" in fleet(folder, "approve", "production", "--reason", "fine").stderr
    assert "Approved" in approved_changes(folder, "c").stderr
    found = json.loads(fleet(folder, "status", "-o", "json").stdout)
    assert [each["phase"] for each in found["clusters"]] == ["waiting", "skipped", "waiting"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["approve", "canary", "--reason", "x"], "there is no stage canary that needs an approval"),
        (["retry", "b"], "cluster b can't be retried: it waits for its first run"),
        (["retry", "z"], "has no cluster z: when the campaign began, the inventory did not list"),
        (["resume"], "isn't paused"),
    ],
)
def test_requests_that_make_no_sense(folder: Path, arguments: list[str], message: str) -> None:
    """What can't be done is said at once, and not left to a coordinator."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    with pytest.raises(UsageError, match=message):
        fleet(folder, *arguments)


def test_one_kubeconfig_for_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubeconfig that would lead every run to one cluster is refused."""
    monkeypatch.setenv("UPGRADER_KUBECONFIG", "x")
    with pytest.raises(UsageError, match="would be used for every cluster of the fleet"):
        fleet(folder, "status")


def test_plan_shows_classes_and_names_what_is_blocked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that can't be planned ends the command with the code of a check, after all were planned."""

    def plan(cluster: Path, target: KubernetesVersion, kubeconfig: Path) -> SimpleNamespace:
        assert server_of(kubeconfig) == cluster.name and kubeconfig.parent != cluster, "a copy that no one can change"
        if cluster.name == "c":
            raise ApiUnavailable("cannot connect to 10.0.0.3")
        return checked()

    monkeypatch.setattr(upgrade, "plan_upgrade", plan)
    with pytest.raises(Blocked, match=r"1 of 3 clusters can't be upgraded: c"):
        fleet(folder, "plan")
    monkeypatch.setattr(upgrade, "plan_upgrade", lambda *_, **__: checked())
    shown = fleet(folder, "plan")
    assert shown.exit_code == 0 and "to v1.37.1: 3 clusters in 2 stages" in shown.stdout
    assert "b, c: CNI cilium" in shown.stdout and "calico" not in shown.stdout, "what the canary hasn't tried is named"


def test_plan_of_a_campaign_that_finalizes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters with nothing to finalize are a class of their own, and block nothing."""
    (folder / "fleet.yaml").write_text(FLEET.replace("spec:", "spec:\n  action: finalize"))

    def plan(cluster: Path, target: KubernetesVersion, kubeconfig: Path) -> SimpleNamespace | None:
        assert (server_of(kubeconfig), target) == (cluster.name, TARGET)
        return None if cluster.name == "b" else checked()

    monkeypatch.setattr(finalize, "plan_finalize", plan)
    shown = fleet(folder, "plan")
    assert shown.exit_code == 0 and "finalization of v1.37.1: 3 clusters in 2 stages" in shown.stdout
    assert "plan 2: 1 cluster of production: b" in shown.stdout and "  nothing to do\n" in shown.stdout


def test_plan_runs_no_command_that_was_not_approved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kubeconfig's `exec` is shown and not run, until a campaign has pinned it or --allow-exec is given; then other
    arguments are another command.
    """
    (folder / "fleet.yaml").write_text(FLEET.replace("  target:", "  kubeconfigExec: [aws]\n  target:"))

    def get(profile: str) -> None:
        command = {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws", "args": ["get", profile]}
        write_kubeconfig(folder / "clusters/c", token="", exec=command)

    def plan(*arguments: str) -> str:
        asked.clear()
        result = CliRunner().invoke(cli, ["-C", str(folder), "fleet", "plan", *arguments])
        assert (result.exit_code == 0) is ("c" in asked)
        return " ".join(result.stdout.split())

    def planned(cluster: Path, *_: object, **__: object) -> SimpleNamespace:
        asked.append(cluster.name)
        return checked()

    asked = list[str]()
    monkeypatch.setattr(upgrade, "plan_upgrade", planned)
    get("one")
    assert "no campaign has approved: aws get one; to allow it" in plan() and asked == ["a", "b"]
    plan("--allow-exec")
    assert asked == ["a", "b", "c"]
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    plan()
    assert asked == ["a", "b", "c"]
    get("two")
    assert "aws get two" in plan() and asked == ["a", "b"]


def test_swapped_kubeconfigs_are_not_planned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both clusters are refused, with the inventory's line: nothing is asked of them but who they are."""
    for name, other in ("bc", "cb"):
        write_kubeconfig(folder / "clusters" / name, server=other)
    asked = list[str]()

    def planned(cluster: Path, *_: object, **__: object) -> SimpleNamespace:
        asked.append(cluster.name)
        return checked()

    monkeypatch.chdir(folder)
    monkeypatch.setattr(upgrade, "plan_upgrade", planned)
    result = CliRunner().invoke(cli, ["-C", str(folder), "fleet", "plan"])
    shown = " ".join(result.stdout.split())
    assert isinstance(result.exception, Blocked) and asked == ["a"]
    assert "fleet-inventory.yaml:3: its kubeconfig points to the cluster with the UID u3; the inventory has u2" in shown
    assert "2 of 3 clusters can't be upgraded: b, c" in str(result.exception)


def test_absolute_name_is_refused_before_a_campaign(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run would read that file itself, and not the approved copy: `fleet plan` and `fleet run` name file and line,
    and nothing begins.
    """
    place = folder / "clusters/c/upgrader.yaml"
    place.write_text(f"kubernetesVersion: v1.36.3\npipeline:\n- playbook: {place.parent}/play.yml\n")
    (place.parent / "play.yml").write_text("[]")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(upgrade, "plan_upgrade", lambda *_, **__: checked())
    shown = CliRunner().invoke(cli, ["-C", str(folder), "fleet", "plan"])
    assert isinstance(shown.exception, Blocked) and "clusters/c/upgrader.yaml:3:" in shown.stdout
    with pytest.raises(UsageError, match=r"cluster c can't be approved: clusters/c/upgrader\.yaml:3: .*absolute path"):
        fleet(folder, "run", "--yes")
    assert not list((folder / "runs").glob("*-fleet-*"))


def test_campaign_goes_on_only_with_what_it_was_begun_with(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed fleet files and another upgrader are named; a new campaign may begin with them."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    monkeypatch.setattr(use_cases, "own_pins", lambda: replace(PINS, upgrader="9.9.9"))
    with pytest.raises(Blocked, match=r"campaign began with upgrader 1; this is 9\.9\.9"):
        fleet(folder, "run", "--yes")
    inventory = folder / "fleet-inventory.yaml"
    inventory.write_text(inventory.read_text().replace("u4", "u5"))
    with pytest.raises(Blocked, match=r"fleet-inventory\.yaml:5: has changed since the campaign began"):
        fleet(folder, "run", "--yes")
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--new", "--yes")
    assert len(list((folder / "runs").glob("*-fleet-*"))) == 2


class Cut(BaseException):
    """The coordinator's power is cut."""


def test_new_campaign_waits_for_the_runs_of_the_one_before(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster isn't upgraded by two campaigns at a time."""

    def look_and_die(coordinator: Coordinator, _: object) -> None:
        coordinator.look()
        coordinator.look()
        raise Cut

    write_fleet(folder, FLEET.partition("  windows:")[0])
    monkeypatch.setattr(LocalExecutor, "running", lambda *_: True)
    monkeypatch.setattr(Coordinator, "run", look_and_die)
    with pytest.raises(Cut):
        fleet(folder, "run", "--yes")
    with pytest.raises(Locked, match="cluster a is being upgraded by campaign"):
        fleet(folder, "run", "--new", "--yes")


def ran(folder: Path, cluster: str, outcome: RunOutcome | None) -> None:
    """Write an upgrade of a cluster; `outcome` None: it has no end."""
    run = folder / "clusters" / cluster / "runs/20260101T000001-v1.37.1"
    run.mkdir(parents=True)
    journal = Journal(run / JOURNAL, FakeClock())
    journal.emit(RunStarted(run.name, RunKind.UPGRADE, (), f"runs/{run.name}", target=TARGET))
    if outcome:
        journal.emit(RunEnded(run.name, outcome, 1.0))
    journal.close()


def test_folder_that_is_no_fleet_is_named_by_every_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without -C, the operator isn't told to begin a campaign there, and nothing is written."""
    monkeypatch.delenv("UPGRADER_KUBECONFIG", raising=False)
    reason = ["--reason", "fine"]
    for arguments in (["run", "--yes"], ["run", "--continue"], ["pause"], ["skip", "a", *reason], ["retry", "a"]):
        with pytest.raises(UsageError, match="is not a fleet folder: it has no fleet-inventory") as caught:
            fleet(tmp_path, *arguments)
        assert "-C DIR" in caught.value.remedy
    assert not [*tmp_path.iterdir()]


def test_next_command_can_be_copied(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It has the folder that was given, also where it is in a reason; so have the ways out of a pause and an edit."""
    spec = FLEET.partition("  windows:")[0].replace("    soak", "    before: [{type: Approval}]\n    soak")
    write_fleet(folder, spec)
    monkeypatch.chdir(folder.parent)
    program = f"upgrader -C {folder.name} fleet"

    def typed(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["upgrader", "-C", folder.name, "fleet", *arguments])
        with pytest.raises(SystemExit):
            entry.main()
        return " ".join("".join(capfd.readouterr()).split())

    assert f"no campaign yet: {program} plan, then {program} run" in typed("status")
    said = typed("run", "--yes")
    assert said.count(f"{program} approve canary --reason TEXT") == 2 and "upgrader fleet" not in said
    assert f"{program} approve canary --reason TEXT" in typed("status")
    typed("approve", "canary", "--reason", "fine")
    assert f"To continue: {program} resume, then {program} run" in typed("pause")
    assert f"`{program} resume` ends the pause; then continue with `{program} run`" in typed("run")
    assert f"to continue: {program} resume" in typed("status")
    (folder / "fleet.yaml").write_text(f"{spec}# later\n")
    assert f"restore it, or start a new campaign: {program} run --new" in typed("status")


def test_interrupted_campaign_says_how_it_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of a cluster's run, which the fleet's folder can't answer, aren't shown."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Coordinator, "run", stop)
    with pytest.raises(Interrupted) as stopped:
        fleet(folder, "run", "--yes")
    assert "Runs in progress continue" in stopped.value.remedy and "upgrader fleet run" in stopped.value.remedy


@pytest.mark.parametrize(
    ("ended", "code", "said"),
    [
        (None, 3, "Error: campaign 20260101T000000-fleet-v1.37.1 can't continue without an operator"),
        (KeyboardInterrupt(), 130, "Error: interrupted"),
        (UsageError("the disk is full"), 2, "Error: the disk is full"),
    ],
    ids=["stopped", "Ctrl-C", "error"],
)
def test_run_on_a_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ended: BaseException | None, code: int, said: str
) -> None:
    """The campaign's last picture stays, and below it what the command says at its end, with the cursor: also after
    Ctrl-C and after an error.
    """
    write_fleet(folder, FLEET.partition("  windows:")[0])
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    if ended:
        monkeypatch.setattr(LocalExecutor, "running", lambda *_: True)
        monkeypatch.setattr(FakeClock, "sleep", lambda *_: raised(ended))
    monkeypatch.setattr(sys, "argv", ["upgrader", "-C", str(folder), "fleet", "run", "--yes"])
    with this_process_on_terminal() as terminal, pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == code and not terminal._screen.cursor.hidden
    lines = terminal.lines
    head = next(place for place, line in enumerate(lines) if line.startswith(" Fleet upgrade to v1.37.1"))
    assert not ended or "a: running" in lines[:head]
    row = " ▸ a  running" if ended else " ✗ blocked  a: etcd has an alarm"
    assert any(line.startswith(row) for line in lines[head:])
    assert said in " ".join(" ".join(lines[head + 5 :]).split()) and not any("fleet pause" in line for line in lines)


def raised(error: BaseException) -> None:
    raise error


def test_run_without_a_terminal_draws_nothing(folder: Path) -> None:
    """A log has a line for each change, and no escape sequence."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    shown = CliRunner().invoke(cli, ["-C", str(folder), "fleet", "run", "--yes"]).output
    assert "\x1b" not in shown and shown.splitlines()[-3:] == [
        "a: blocked: etcd has an alarm",
        "canary: waiting: stage canary: blocked: a; maxFailures.blocked is 0",
        "production: waiting for the stages before it, then an approval",
    ]


def test_new_campaign_forgets_no_run(folder: Path) -> None:
    """Clusters with a run without an end, or whose journal doesn't say, are named before a campaign begins."""
    ran(folder, "b", None)
    ran(folder, "c", "succeeded")
    with pytest.raises(Blocked, match=r"runs that have not ended: b \(run 20260101T000001-v1\.37\.1\)") as caught:
        fleet(folder, "run", "--yes")
    assert "clusters/b resume" in caught.value.remedy and not list((folder / "runs").glob("*-fleet-*"))
    (folder / "clusters/c/runs/20260101T000001-v1.37.1" / JOURNAL).write_text("{}\n")
    with pytest.raises(Blocked, match=r"b \(run .*\), c \(the outcome of run .* is unknown"):
        fleet(folder, "run", "--new", "--yes")


def test_gate_that_a_folder_lacks(folder: Path) -> None:
    """A campaign whose soak names a gate doesn't begin while a cluster of that stage has none of this name."""
    (folder / "fleet.yaml").write_text(FLEET.replace("{for: 24h}", "{for: 24h, gates: [errors]}"))
    with pytest.raises(UsageError, match=r"cluster a can't be approved: upgrader\.yaml has no metric gate errors"):
        fleet(folder, "run", "--yes")
    gate = "{metric: errors, query: x, max: 1}"
    server = "{prometheus: {url: https://prometheus.example.com}}"
    text = f"kubernetesVersion: v1.36.3\nobservability: {server}\ngates: {{metrics: [{gate}]}}\n"
    (folder / "clusters/a/upgrader.yaml").write_text(text)
    with pytest.raises(CampaignStopped, match=r"maxFailures\.blocked"):
        fleet(folder, "run", "--yes")


def test_folder_is_read_once_for_its_approval(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may have gigabytes: all of it is read once, also where the soak of its stage has gates."""
    (folder / "fleet.yaml").write_text(FLEET.replace("{for: 24h}", "{for: 24h, gates: [errors]}"))
    gates = "{metrics: [{metric: errors, query: x, max: 1}]}"
    server = "{prometheus: {url: https://prometheus.example.com}}"
    text = f"kubernetesVersion: v1.36.3\nobservability: {server}\ngates: {gates}\n"
    (folder / "clusters/a/upgrader.yaml").write_text(text)
    read = Counter[str]()

    def counted(settings: Settings) -> str:
        read[settings.folder.name] += 1
        return inputs_digest(settings)

    monkeypatch.setattr(fleet_inputs, "inputs_digest", counted)
    with use_cases.open_campaign(folder, lambda *_: None):
        assert read == {"a": 1, "b": 1, "c": 1}


def test_gate_that_has_failed_is_asked_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's `retry` of a cluster that has succeeded is taken only if a gate has failed in its soak; it says that
    no run is repeated.
    """
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    state = newest_campaign(folder).state()  # type: ignore[union-attr]
    a = replace(state.clusters["a"], phase="succeeded")
    monkeypatch.setattr(Campaign, "state", lambda _: replace(state, clusters={"a": a}))
    with pytest.raises(UsageError, match="has succeeded in this campaign"):
        fleet(folder, "retry", "a")
    failed = replace(a, gate="errors", gate_failed=True)
    monkeypatch.setattr(Campaign, "state", lambda _: replace(state, clusters={"a": failed}))
    monkeypatch.setattr(fleet_commands, "_refresh", lambda _: None)
    assert "Gate errors of a will be checked again" in fleet(folder, "retry", "a").stderr
    unknown = replace(failed, gate=None)
    monkeypatch.setattr(Campaign, "state", lambda _: replace(state, clusters={"a": unknown}))
    assert "The gates of a will be checked again" in fleet(folder, "retry", "a").stderr


def test_new_campaign_after_an_adoption_that_was_killed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An adoption on an interrupted upgrade may lack its end for ever: it keeps a campaign back while it may be at work
    on the inventory's cluster; no command is run to ask for that which no campaign has approved.
    """
    ran(folder, "b", None)
    write_later(folder / "clusters/b", RunKind.ADOPT, ended=False)
    monkeypatch.setattr(use_cases, "at_work", lambda *_: "its lock is held")
    with pytest.raises(Blocked, match=r"b \(run .*-later, which builds on run .*: its lock is held\)"):
        fleet(folder, "run", "--yes")
    monkeypatch.setattr(use_cases, "at_work", lambda *_: "")
    write_kubeconfig(folder / "clusters/b", server="a")
    with pytest.raises(Blocked, match=r"unknown whether it is in progress: .* UID u1; the inventory has u2"):
        fleet(folder, "run", "--yes")
    write_kubeconfig(folder / "clusters/b", token="", exec={"command": "touch", "args": ["/x"]})
    with pytest.raises(Blocked, match="unknown whether it is in progress"):
        fleet(folder, "run", "--yes")
    write_kubeconfig(folder / "clusters/b")
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")


def test_new_campaign_forgets_no_cluster_of_the_one_before(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that left the inventory in the middle of its run is named, unless it is excluded; so is one without any
    journal of the run that its campaign began.
    """
    write_fleet(folder, FLEET.partition("  windows:")[0])
    monkeypatch.setattr(LocalExecutor, "end", lambda *_: CommandEnd(130, "20260101T000001-v1.37.1"))
    with pytest.raises(CampaignStopped) as caught:
        fleet(folder, "run", "--yes")
    assert caught.value.exit_code == 5
    with pytest.raises(Blocked, match=r"a \(its campaign has started a run that has no journal\)"):
        fleet(folder, "run", "--new", "--yes")
    ran(folder, "a", None)
    smaller = INVENTORY.replace("- {name: a, uid: u1, labels: {ring: canary, region: north}}\n", "")
    without = (
        FLEET.partition("  windows:")[0].replace("ring: canary", "region: north").replace("ring: prod", "region: s")
    )
    write_fleet(folder, without.replace("region: suction", "region: south"), smaller)
    with pytest.raises(Blocked, match=r"runs that have not ended: a \(run"):
        fleet(folder, "run", "--new", "--yes")


def done_within_its_limits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    """A campaign whose cluster b is rolled back, within the limit."""
    text = FLEET.partition("  windows:")[0].replace("rolledBack: 2%", "rolledBack: 50%").replace("  domains", "  #")
    write_fleet(folder, text.replace("    before: [{type: Approval}]\n", "").replace("soak: {for: 24h}", ""))
    for name in "ac":
        ran(folder, name, "succeeded")
    monkeypatch.setattr(
        LocalExecutor,
        "end",
        lambda _, attempt: (
            CommandEnd(4, "", "GateFailed", "not ready")
            if attempt.parent.name == "b"
            else CommandEnd(0, "20260101T000001-v1.37.1")
        ),
    )
    with pytest.raises(CampaignStopped, match=r"is done, but 1 of 3 clusters have failed: rolled-back: b") as caught:
        fleet(folder, "run", "--yes")
    assert caught.value.exit_code == 4
    return fleet(folder, "status")


def test_failures_within_the_limits_count_for_the_exit_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that upgrades a fleet isn't green while a cluster isn't at the target; it is once that was left out."""
    assert "ended" in done_within_its_limits(folder, monkeypatch).stdout
    with pytest.raises(CampaignStopped, match="is done, but"):
        fleet(folder, "run", "--yes")
    fleet(folder, "skip", "b", "--reason", "decommissioned")
    again = fleet(folder, "run", "--yes")
    assert again.exit_code == 0 and "nothing to do" in again.stderr


def test_retry_after_the_campaign_has_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign goes on with that cluster; with other files, it says why not."""
    done_within_its_limits(folder, monkeypatch)
    inventory = (folder / "fleet-inventory.yaml").read_text()
    (folder / "fleet-inventory.yaml").write_text(inventory.replace("u4", "u5"))
    with pytest.raises(UsageError, match="`retry` needs the files with which the campaign began"):
        fleet(folder, "retry", "b")
    assert "its files have changed since" in fleet(folder, "status").stdout
    (folder / "fleet-inventory.yaml").write_text(inventory)
    fleet(folder, "retry", "b")
    ran(folder, "b", "succeeded")
    monkeypatch.setattr(LocalExecutor, "end", lambda *_: CommandEnd(0, "20260101T000001-v1.37.1"))
    again = fleet(folder, "run", "--yes")
    assert again.exit_code == 0 and "is done" in again.stderr
    assert len(list((folder / "runs").glob("*-fleet-*"))) == 1


@pytest.mark.parametrize(
    ("command", "phase", "message"),
    [
        (["retry", "a"], "running", "can't be retried: it is being upgraded"),
        (["retry", "a"], "succeeded", "can't be retried: it has succeeded in this campaign"),
        (["skip", "a", "--reason", "x"], "running", "can't be skipped: it is being upgraded"),
        (["skip", "a", "--reason", "x"], "succeeded", "can't be skipped: it has succeeded"),
        (["skip", "a", "--reason", "x"], "skipped", "can't be skipped: it was already skipped: gone"),
    ],
)
def test_requests_about_a_cluster_in_another_phase(
    folder: Path, command: list[str], phase: Phase, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each says why it can't be done, and what can."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    state = CampaignState("c", clusters={"a": ClusterState("a", phase=phase, reason="gone")})
    monkeypatch.setattr(Campaign, "state", lambda _: state)
    with pytest.raises(UsageError, match=message) as caught:
        fleet(folder, *command)
    assert caught.value.remedy


def test_skip_of_a_cluster_in_the_middle_of_its_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said that its run keeps its place; a success that holds up a soak may be left out."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    clusters = {name: ClusterState(name) for name in "abc"}
    monkeypatch.setattr(Campaign, "state", lambda _: CampaignState("c", clusters=clusters))
    clusters["a"] = ClusterState("a", phase="interrupted", run="r", unended=True)
    assert (
        "Its run r has not ended: until then, it blocks other domains"
        in fleet(folder, "skip", "a", "--reason", "x").stderr
    )
    clusters["a"] = ClusterState("a", phase="succeeded", soak_reason="no answer")
    assert "has not ended" not in fleet(folder, "skip", "a", "--reason", "x").stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("- {name: d, uid: u4}\n", "- {name: d, uid: u4}\n- {name: e, uid: u5, labels: {ring: production}}\n"),
        ("- {name: c, uid: u3, labels: {ring: production, region: south}}\n", ""),
        ("name: c,", "name: x, folder: clusters/c,"),
        ("clusters:", "clusters: ["),
    ],
    ids=["grown", "shrunk", "renamed", "broken"],
)
def test_inventory_that_has_changed_since(folder: Path, right: str, wrong: str) -> None:
    """Every command is about the clusters that the campaign was begun with, whatever the files say by now."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    inventory = folder / "fleet-inventory.yaml"
    inventory.write_text(inventory.read_text().replace(right, wrong))
    assert "no run starts: " in fleet(folder, "status").stdout
    found = json.loads(fleet(folder, "status", "-o", "json").stdout)
    assert [each["cluster"] for each in found["clusters"]] == ["a", "b", "c"]
    assert "Approved" in fleet(folder, "approve", "production", "--reason", "fine").stderr
    assert "Approved" in approved_changes(folder, "c").stderr
    assert "is skipped" in fleet(folder, "skip", "c", "--reason", "later").stderr
    with pytest.raises(UsageError, match="has no cluster e") as caught:
        fleet(folder, "skip", "e", "--reason", "later")
    assert "Name one of its clusters: a, b, c" in caught.value.remedy


def test_cluster_folder_that_is_gone(folder: Path) -> None:
    """It keeps no one from looking at the campaign, nor from going on with it."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    (folder / "clusters/c/upgrader.yaml").unlink()
    assert "canary" in fleet(folder, "status").stdout
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")


def test_campaign_is_of_what_was_confirmed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is edited while the question is answered was not confirmed: nothing begins with it."""
    clock, begun = FakeClock(), list[object]()
    monkeypatch.setattr(use_cases, "system_clock", lambda: clock)
    monkeypatch.setattr(LocalExecutor, "start", lambda *arguments: begun.append(arguments))

    def edit(what: str, *, yes: bool) -> None:
        assert what == "Start this campaign?"
        (folder / "clusters/a/values.yaml").write_text("a: 1")

    monkeypatch.setattr("upgrader.cli.fleet.confirm", edit)
    with pytest.raises(CampaignStopped, match="an operator: a"):
        fleet(folder, "run")
    assert begun == [] and "approve --changes a" in fleet(folder, "status").stdout
    (folder / "clusters/a/values.yaml").unlink()

    def edit_fleet(what: str, *, yes: bool) -> None:
        clock.sleep(1)
        (folder / "fleet.yaml").write_text(FLEET.replace("v1.37.1", "v1.37.0"))

    monkeypatch.setattr("upgrader.cli.fleet.confirm", edit_fleet)
    with pytest.raises(CampaignStopped, match=r"fleet\.yaml:4: has changed since the campaign began"):
        fleet(folder, "run", "--new")
    assert begun == []


def test_approval_is_of_what_was_read(folder: Path) -> None:
    """What a folder became since its digest was shown isn't approved."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    with pytest.raises(UsageError, match="nothing was approved") as caught:
        fleet(folder, "approve", "--changes", "c", "--reason", "fine")
    digest = caught.value.remedy.partition("--digest ")[2].split()[0]
    (folder / "clusters/c/more.yml").write_text("a: 1")
    with pytest.raises(UsageError, match=f"and not {digest}; nothing was approved"):
        fleet(folder, "approve", "--changes", "c", "--digest", digest, "--reason", "fine")
    (folder / "clusters/c/more.yml").unlink()
    assert "Approved" in fleet(folder, "approve", "--changes", "c", "--digest", digest, "--reason", "fine").stderr
    with pytest.raises(UsageError, match="can only be combined with --changes"):
        fleet(folder, "approve", "production", "--digest", digest, "--reason", "fine")


def test_run_of_a_campaign_refuses_other_inputs(tmp_path: Path) -> None:
    """What a run has read is compared with what was approved, after it has read it."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    approved = folder_digest(tmp_path)
    proposal: Any = "proposed"

    def propose(digest: str | None, *, edited: bool = False) -> None:
        @contextmanager
        def reading() -> Iterator[Any]:
            if edited:
                (tmp_path / "values.yaml").write_text("a: 1")
            yield proposal

        with with_approved_inputs(tmp_path, digest, reading()) as found:
            assert found is proposal

    propose(approved)
    with pytest.raises(Blocked, match="the cluster folder has changed since"):
        propose(approved, edited=True)
    propose(None)


@pytest.mark.parametrize("to_do", [True, False])
def test_run_of_a_campaign_refuses_another_plan(tmp_path: Path, *, to_do: bool) -> None:
    """A run that would change something else than the plan which was approved is blocked; one with nothing to do ends
    as it always does.
    """
    plan = SimpleNamespace(changes_digest="a")
    checked = SimpleNamespace(plan=plan, document=SimpleNamespace(to_do=to_do))
    proposal: Any = SimpleNamespace(checked=checked, session=None)
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    same, other = ApprovedChanges("a", ""), ApprovedChanges("b", "")
    with with_approved_inputs(tmp_path, None, nullcontext(proposal), changes=same) as found:
        assert found is proposal
    blocked = pytest.raises(Blocked, match="a run would now make other changes; nothing was changed")
    refused = blocked if to_do else nullcontext()
    with refused, with_approved_inputs(tmp_path, None, nullcontext(proposal), changes=other):
        pass
    plan.changes_digest = "of the next minor"
    with with_approved_inputs(tmp_path, None, nullcontext(proposal), changes=same):
        pass


def test_later_hop_is_not_held_to_the_saved_plan(tmp_path: Path) -> None:
    """A Job whose pod was evicted between two minors is started again with the same arguments: its campaign's first run
    has changed the cluster as approved. A run of another campaign, or of a person, has not.
    """
    plan = SimpleNamespace(changes_digest="of the second hop")
    checked: Any = SimpleNamespace(plan=plan, document=SimpleNamespace(to_do=True))
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    for campaign, passes in (("mine", True), ("other", False), ("", False)):
        runs = SimpleNamespace(runs=(SimpleNamespace(state=RunState(campaign=campaign)),))
        session = SimpleNamespace(find_brief_runs=lambda runs=runs: runs)
        proposed: Any = nullcontext(ProposedUpgrade(checked, cast(Any, session), FrontEnd(), cast(Any, None)))
        for asking in ("mine", ""):
            refused = nullcontext() if passes and asking else pytest.raises(Blocked, match="other changes")
            changes = ApprovedChanges("of the first hop", asking)
            with refused, with_approved_inputs(tmp_path, None, proposed, asking, changes):
                pass


def saved_plan(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str = "fleet.plan", changes: str = C) -> Path:
    """A plan of the fleet, saved and as it would be approved."""
    monkeypatch.setattr(upgrade, "plan_upgrade", lambda *_, **__: checked(changes))
    path = folder / name
    said = fleet(folder, "plan", "--out", str(path)).stderr
    assert f"fleet run --plan {path}" in " ".join(said.split()) and read_fleet_plan(path).digest in said
    return path


def test_campaign_of_a_saved_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins with what was approved, each cluster's run is told that, and the same command continues it; what is
    approved anew during the campaign is not held to the plan any more.
    """
    path, begun = saved_plan(folder, monkeypatch), list[list[str]]()
    monkeypatch.setattr(LocalExecutor, "prepare", lambda _, __, arguments: lambda: begun.append(list(arguments)))
    for _ in range(2):
        with pytest.raises(CampaignStopped):
            fleet(folder, "run", "--plan", str(path), "--yes")
    (arguments,) = begun
    assert arguments[arguments.index("--approved-changes") + 1] == C
    campaign = newest_campaign(folder)
    assert campaign is not None and campaign.state().plan == read_fleet_plan(path).digest
    other = saved_plan(folder, monkeypatch, "other.plan", D)
    with pytest.raises(UsageError, match="in progress, and was not started with this plan"):
        fleet(folder, "run", "--plan", str(other), "--yes")
    approved_changes(folder, "c")
    assert [each.changes for each in campaign.state().clusters.values()] == [C, C, ""]
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--plan", str(other), "--new", "--yes")
    assert begun[1][begun[1].index("--approved-changes") + 1] == D
    with pytest.raises(UsageError, match="--plan and --continue can't be combined"):
        fleet(folder, "run", "--plan", str(path), "--continue", "--yes")


def test_saved_plan_of_a_fleet_that_has_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No campaign begins with it: everything that has changed since is named. Nor does one after a day."""
    clock, path = FakeClock(), saved_plan(folder, monkeypatch)
    monkeypatch.setattr(use_cases, "system_clock", lambda: clock)
    (folder / "fleet.yaml").write_text(FLEET.replace("50%", "1"))
    (folder / "clusters/b/values.yaml").write_text("a: 1")
    monkeypatch.setattr(use_cases, "own_pins", lambda: replace(PINS, charts="other"))
    with pytest.raises(Blocked, match="out of date; nothing was started") as caught:
        fleet(folder, "run", "--plan", str(path), "--yes")
    assert caught.value.message.splitlines()[1:] == [
        "the charts of upgrader 1 have changed since the plan was saved",
        "fleet.yaml has changed",
        "the folder, kubeconfig or place of b has changed",
    ]
    clock.sleep(25 * 3600)
    with pytest.raises(Blocked, match="expired at"):
        fleet(folder, "run", "--plan", str(path), "--yes")
    assert newest_campaign(folder) is None


def test_upgrader_that_is_replaced_while_it_plans(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plans of a large fleet take an hour, and were made by the one before: no campaign begins with the other."""
    path = folder / "fleet.plan"

    def plan(*_: object, **__: object) -> SimpleNamespace:
        monkeypatch.setattr(use_cases, "own_pins", lambda: replace(PINS, upgrader="2"))
        return checked()

    monkeypatch.setattr(upgrade, "plan_upgrade", plan)
    fleet(folder, "plan", "--out", str(path))
    with pytest.raises(Blocked, match="the plan was saved with upgrader 1; this is 2"):
        fleet(folder, "run", "--plan", str(path), "--yes")


def test_open_campaign_outlives_its_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan starts a campaign for a day; the same command continues it for weeks."""
    clock, path = FakeClock(), saved_plan(folder, monkeypatch)
    monkeypatch.setattr(use_cases, "system_clock", lambda: clock)
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--plan", str(path), "--yes")
    clock.sleep(25 * 3600)
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--plan", str(path), "--yes")


def test_way_out_of_a_changed_plan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands that are shown, one after the other, as they are shown, have the cluster run its new plan: also
    for an operator who has never seen what the cluster's own run said. The error's code tells it, and no text.
    """
    path = saved_plan(folder, monkeypatch)
    proposal: Any = SimpleNamespace(checked=checked(D), session=None)
    with (
        pytest.raises(Blocked) as caught,
        with_approved_inputs(folder / "clusters/a", None, nullcontext(proposal), changes=ApprovedChanges(C, "")),
    ):
        pass
    form = error_form(caught.value, "")
    end = CommandEnd(3, "", form.code, "in whatever words")
    monkeypatch.setattr(LocalExecutor, "end", lambda *_: end)
    with pytest.raises(CampaignStopped) as stopped:
        fleet(folder, "run", "--plan", str(path), "--yes")
    assert "fleet status` shows what to do" in stopped.value.remedy
    review = f"upgrader -C {folder / 'clusters/a'} plan --to v1.37.1"
    shown = fleet(folder, "status").stdout
    assert review in shown
    (approve,) = re.findall(r"fleet (approve --changes a --reason TEXT)", shown)
    with pytest.raises(UsageError) as asked:
        fleet(folder, *approve.split())
    assert review in asked.value.remedy
    (approve,) = re.findall(r"fleet (approve --changes a --digest \S+ --reason TEXT)", asked.value.remedy)
    (retry,) = re.findall(r"fleet (retry a)\b", fleet(folder, *approve.split()).stderr)
    shown = fleet(folder, "status").stdout
    assert retry in shown and "approve --changes" not in shown
    fleet(folder, *retry.split())
    campaign = newest_campaign(folder)
    assert campaign is not None
    a = campaign.state().clusters["a"]
    assert (a.phase, a.changes) == ("waiting", "")


def test_way_out_of_a_failure(folder: Path) -> None:
    """A failed cluster has its commands; the folder that is approved is no plan's."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    shown = fleet(folder, "status").stdout
    assert f"to do: fix this, then: upgrader -C {folder} fleet retry a" in shown
    assert "canary  0 of 1 done, 1 failed" in shown
    assert f"upgrader -C {folder} fleet skip a --reason TEXT" in shown and "approve --changes" not in shown


@pytest.mark.parametrize("unended", [True, False])
def test_way_out_of_a_run_that_is_interrupted_again_and_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, unended: bool
) -> None:
    """It is resumed, or begun again, by the command that is shown for it, and may be left out by the other one."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    fleet(folder, "retry", "a")
    campaign = newest_campaign(folder)
    assert campaign is not None
    run = "20260101T000001-v1.37.1" if unended else ""
    if unended:
        (folder / "clusters/a/runs").mkdir()
        write_later(folder / "clusters/a", RunKind.UPGRADE, run, ended=False)
    journal = campaign.reopen(FakeClock())
    campaign.take_requests(journal, campaign.journaled())
    for attempt in range(2, 7):
        journal.emit(ClusterStarting("a", attempt, unended and attempt > 2))
        journal.emit(ClusterEnded("a", attempt, "interrupted", 1.0, run, "", "its process was killed", unended))
    journal.close()
    shown = " ".join(fleet(folder, "status").stdout.split())
    again = "then resume its run" if unended else "then"
    assert f"to do: fix this, {again}: upgrader -C {folder} fleet retry a; or leave it out: upgrader" in shown
    begun = list[list[str]]()
    monkeypatch.setattr(LocalExecutor, "prepare", lambda _, __, arguments: lambda: begun.append(list(arguments)))
    (retry,) = re.findall(r"fleet (retry a)\b", shown)
    assert "will be run again" in fleet(folder, *retry.split()).stderr
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    assert begun and all(("--resume" in arguments) is unended for arguments in begun)
    (skip,) = re.findall(r"fleet (skip a --reason TEXT)", shown)
    assert "a is skipped" in fleet(folder, *skip.split()).stderr


def test_changes_are_approved_once_the_campaign_has_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the message says of a cluster that no longer has its plan: approve it, then `fleet retry`, which would begin
    its run at once.
    """
    path = saved_plan(folder, monkeypatch)
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--plan", str(path), "--yes")
    campaign = newest_campaign(folder)
    assert campaign is not None
    journal = campaign.reopen(FakeClock())
    journal.emit(CampaignEnded(campaign.name))
    journal.close()
    assert not campaign.state().open
    assert "Approved" in approved_changes(folder, "a").stderr
    fleet(folder, "retry", "a")
    a = campaign.state().clusters["a"]
    assert campaign.state().open and (a.phase, a.changes) == ("waiting", "")


def test_windows_are_too_short_only_for_runs_of_the_same_kind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade that took six hours says nothing of a finalization."""
    monkeypatch.setattr(upgrade, "plan_upgrade", lambda *_, **__: checked())
    monkeypatch.setattr(finalize, "plan_finalize", lambda *_, **__: checked())
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    campaign = newest_campaign(folder)
    assert campaign is not None
    journal = campaign.reopen(FakeClock())
    journal.emit(ClusterStarting("b", 1, False, ""))
    journal.emit(ClusterEnded("b", 1, "succeeded", 6 * 3600.0, "run", "", "", False))
    journal.close()
    assert "no time for a run: a, b, c" in fleet(folder, "plan").stdout
    (folder / "fleet.yaml").write_text(FLEET.replace("spec:", "spec:\n  action: finalize"))
    assert "no time for a run" not in fleet(folder, "plan").stdout


def test_name_of_a_plan_is_no_line_of_the_question(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone else may have named the file: what it looks like is no answer that was given already."""
    path = saved_plan(folder, monkeypatch)
    forged = path.rename(folder / "x\nStart this campaign? [y]: y")
    said = CliRunner().invoke(cli, ["-C", str(folder), "fleet", "run", "--plan", str(forged)], input="n\n").output
    assert "With the plan" in said
    assert [line for line in said.splitlines() if line.startswith("Start")] == ["Start this campaign? [y/N]: n"]


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_plan_of_a_folder_that_no_campaign_could_run(folder: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """`fleet plan` says of a file that only a run's approval reads what `fleet run` says, and saves nothing."""
    os.mkfifo(folder / "clusters/b/pipe")
    monkeypatch.setattr(upgrade, "plan_upgrade", lambda *_, **__: checked())
    arguments = ["-C", str(folder), "fleet", "plan", "-o", form, "--out", str(folder / "fleet.plan")]
    result = CliRunner().invoke(cli, arguments)
    with pytest.raises(UsageError, match="cluster b can't be approved") as refused:
        fleet(folder, "run", "--yes")
    why = refused.value.message.partition("approved: ")[2]
    assert "clusters/b/pipe" in why and why in result.stdout and "pipe" in why, result.stdout
    assert "no plan was saved: b can't be planned" in str(result.exception) and not (folder / "fleet.plan").exists()


def test_plan_that_can_not_be_saved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a cluster can't be planned, nothing could be approved of it; and a file in a cluster's folder would change
    what it is bound to. No file is left.
    """

    def plan(cluster: Path, *_: object, **__: object) -> SimpleNamespace:
        if cluster.name == "c":
            raise ApiUnavailable("cannot connect to 10.0.0.3")
        return checked()

    monkeypatch.setattr(upgrade, "plan_upgrade", plan)
    with pytest.raises(Blocked, match="no plan was saved: c can't be planned"):
        fleet(folder, "plan", "--out", str(folder / "fleet.plan"))
    inside = folder / "clusters/a/fleet.plan"
    with pytest.raises(UsageError, match="that would change the folder of cluster a"):
        fleet(folder, "plan", "--out", str(inside))
    assert not (folder / "fleet.plan").exists() and not inside.exists()


def test_run_of_a_campaign_reads_a_copy(tmp_path: Path) -> None:
    """A run copies what was approved before it reads anything else, and compares the copy at the end of its planning,
    whatever the folder has become since.
    """
    (tmp_path / "a").mkdir()
    file = tmp_path / "a/upgrader.yaml"
    file.write_text("kubernetesVersion: v1.36.3\n")
    approved, copies = folder_digest(file.parent), tmp_path / "inputs"
    proposal: Any = "proposed"
    with click.Context(cli):
        read_copies(file.parent, copies, approved)
        file.write_text("kubernetesVersion: v1.35.0\n")
        assert str(load_settings(file.parent, os.environ).target) == "v1.36.3"
        with with_approved_inputs(file.parent, approved, nullcontext(proposal)) as found:
            assert found is proposal
        Path(f"{copies}{file}").write_text("kubernetesVersion: v1.35.0\n")
        with pytest.raises(Blocked), with_approved_inputs(file.parent, approved, nullcontext(proposal)):
            pass
        with pytest.raises(Blocked, match="the cluster folder has changed since"):
            read_copies(file.parent, copies, approved)
    assert COPIES not in os.environ and not copies.exists()


def test_copies_that_a_killed_coordinator_has_left(folder: Path) -> None:
    """The next one removes them, in all campaigns, but for those of a run that may be in progress."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    campaign = newest_campaign(folder)
    assert campaign is not None
    older = folder / "runs/20250101T000000-fleet-v1.36.0"
    left = [each / "clusters/b" / name for each in (campaign.folder, older) for name in ("kubeconfig", "inputs/x/y")]
    running = campaign.folder / "clusters/a/kubeconfig"
    for path in (*left, running):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")
    journal = campaign.reopen(FakeClock())
    journal.emit(ClusterStarting("a", 9))
    journal.close()
    with use_cases.open_campaign(folder, lambda *_: None):
        assert [path for path in left if path.exists()] == [] and running.exists()


def test_plan_for_a_merge_request(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each class of equal plans with the plan of one, and what can't be planned; no text of others is markup."""

    def plan(cluster: Path, *_: object, **__: object) -> SimpleNamespace:
        if cluster.name == "c":
            raise ApiUnavailable("```\n# <img src=x>")
        return checked()

    monkeypatch.setattr(upgrade, "plan_upgrade", plan)
    result = CliRunner().invoke(cli, ["-C", str(folder), "fleet", "plan", "-o", "markdown"])
    assert isinstance(result.exception, Blocked)
    shown = result.stdout
    assert shown.startswith("# Fleet upgrade to v1.37.1\n\n```")
    assert "## 1 cluster of `canary`\n\n`a`\n\nDigests of the folders: `a " in shown and "CNI cilium" in shown
    assert shown.count("### Plan: Kubernetes v1.36.3 → v1.37.1\n") == 2
    assert "Can't be planned:\n\n````\n```\n# <img src=x>\n````" in shown


def test_digests_are_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fleet plan` shows those of the folders, and `fleet status -o json` those that were approved, as approve takes
    them.
    """
    monkeypatch.setattr(upgrade, "plan_upgrade", lambda *_, **__: checked())
    planned = " ".join(fleet(folder, "plan").stdout.split())
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    clusters = json.loads(fleet(folder, "status", "-o", "json").stdout)["clusters"]
    assert all(f"{each['cluster']} {each['digest']}" in planned for each in clusters)
    (folder / "clusters/c/more.yml").write_text("a: 1")
    with pytest.raises(UsageError) as caught:
        fleet(folder, "approve", "--changes", "c", "--reason", "fine", "--digest", clusters[2]["digest"])
    assert clusters[2]["digest"] in caught.value.message


@pytest.mark.parametrize("error", [UsageError("odd"), RecursionError("odd"), PermissionError(13, "odd")])
def test_page_that_can_not_be_made(folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Whatever is wrong with it, what a person has asked for is done, and the command says so."""

    def refuse(_: Path) -> None:
        raise error

    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    monkeypatch.setattr(files, "refresh", refuse)
    shown = fleet(folder, "pause", "--reason", "audit").stderr
    assert "Paused" in shown and "page is not up to date" in shown and "odd" in shown
    assert "paused by" in fleet(folder, "status").stdout


def test_campaign_whose_journal_can_not_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as the newest, and is named."""
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")

    def refuse(journal: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(journal))

    monkeypatch.setattr(campaigns, "first_line", refuse)
    assert newest_campaign(folder) is not None


@pytest.mark.parametrize("problem", ["unknown", "silent"])
def test_exit_code_of_a_run_of_which_nothing_is_known(problem: Problem) -> None:
    """Whether it is in progress has to be looked at first: manual action is required."""
    state = CampaignState(clusters={"a": ClusterState("a", phase="running", problem=problem)})
    decision = Decision(stages={"canary": Wait("an operator: a", person=True)})
    with pytest.raises(CampaignStopped, match="an operator: a") as caught:
        use_cases.refuse_unfinished(Fleet(TARGET, (), ()), decision, state)
    assert caught.value.exit_code == 5


def test_campaign_that_is_only_continued(folder: Path) -> None:
    """A coordinator that runs unattended begins none by itself, also after an edit of the fleet's files."""
    with pytest.raises(UsageError, match="has no campaign in progress, and --continue starts none"):
        fleet(folder, "run", "--continue")
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--continue")
    with pytest.raises(UsageError, match="was started with --executor local, and can't change it"):
        fleet(folder, "run", "--continue", "--executor", "jobs")
    with pytest.raises(UsageError, match="--new and --continue can't be combined"):
        fleet(folder, "run", "--continue", "--new")
    assert len([*(folder / "runs").glob("*-fleet-*")]) == 1


def test_page_and_calendar_of_a_campaign(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fleet run` writes both beside the journal, a person's command writes them again, and `fleet report` at any time;
    metrics go where fleet.yaml says.
    """
    (tmp_path / "metrics").mkdir()
    spec = FLEET.replace("  target:", "  observability: {fleet: all, textfileDirectory: metrics}\n  target:")
    (folder / "fleet.yaml").write_text(spec)
    with pytest.raises(UsageError, match="has no campaign yet"):
        fleet(folder, "report")
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    page = next((folder / "runs").glob("*/fleet.html"))
    assert "Needs an operator" in page.read_text() and "etcd has an alarm" in page.read_text()
    metrics = (tmp_path / "metrics/upgrader-all-fleet.prom").read_text()
    assert 'upgrader_fleet_state{fleet="all",state="needs-a-person"} 1.0' in metrics
    fleet(folder, "pause", "--reason", "audit")
    assert "audit" in page.read_text()
    page.unlink()
    assert fleet(folder, "report").stdout == f"{page}\n" and page.is_file()
    assert fleet(folder, "report", "-o", "calendar").stdout_bytes == (page.parent / "fleet.ics").read_bytes()
    with pytest.raises(UsageError, match="can't be combined"):
        fleet(folder, "report", "-o", "calendar", "--open")
    page.unlink()
    page.mkdir()
    assert "page is not up to date" in fleet(folder, "resume").stderr


def test_executor_is_the_campaigns(folder: Path) -> None:
    """Without a management cluster there are no Jobs; a campaign can't go on elsewhere, where its runs aren't known."""
    begin = ("run", "--yes", "--executor", "jobs")
    with pytest.raises(UsageError, match="needs a management cluster"):
        fleet(folder, *begin)
    text = (folder / "fleet.yaml").read_text()
    (folder / "fleet.yaml").write_text(f'{text}  jobs: {{image: "registry.example/runner@sha256:{64 * "0"}"}}\n')
    with pytest.raises(UsageError, match=r"hub\.kubeconfig, the kubeconfig of the management"):
        fleet(folder, *begin)
    assert newest_campaign(folder) is None
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--yes")
    (folder / "hub.kubeconfig").write_text("")
    with pytest.raises(UsageError, match="was started with --executor local"):
        fleet(folder, *begin)


def test_jobs_are_on_the_management_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign that is begun with them asks that cluster which one it is, and keeps that it was begun so."""
    text = (folder / "fleet.yaml").read_text()
    (folder / "fleet.yaml").write_text(f'{text}  jobs: {{image: "registry.example/runner@sha256:{64 * "0"}"}}\n')
    (folder / "hub.kubeconfig").write_text("")
    checked = list[JobsExecutor]()

    def check(executor: JobsExecutor, _: str) -> str:
        checked.append(executor)
        return "hub"

    monkeypatch.setattr(JobsExecutor, "check", check)
    with use_cases.open_campaign(folder, lambda *_: None, executor="jobs") as coordinator:
        assert coordinator.executor is checked[0]
    with use_cases.open_campaign(folder, lambda *_: None) as coordinator:
        assert coordinator.executor is checked[1]
    campaign = newest_campaign(folder)
    assert campaign is not None and campaign.state().executor == "jobs"


class Hub:
    """The management cluster that `hub.kubeconfig` leads to."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.clock = folder, FakeClock()
        monkeypatch.setattr(use_cases, "system_clock", lambda: self.clock)
        text = FLEET.partition("  windows:")[0]
        (folder / "fleet.yaml").write_text(f'{text}  jobs: {{image: "registry.example/runner@sha256:{64 * "0"}"}}\n')
        (folder / "hub.kubeconfig").write_text("")
        monkeypatch.setattr(use_cases, "open_api", lambda *_: nullcontext(self.kube))
        self.leads_to("hub-1")

    def leads_to(self, uid: str) -> None:
        self.kube = FakeKube()
        self.kube.put(NAMESPACES, {"metadata": {"name": "kube-system", "uid": uid}})

    @contextmanager
    def opened(self) -> Iterator[Coordinator]:
        executor: ExecutorName | None = None if newest_campaign(self.folder) else "jobs"
        with use_cases.open_campaign(self.folder, lambda *_: None, executor=executor) as coordinator:
            coordinator.executor = replace(cast(JobsExecutor, coordinator.executor), fetch=lambda *_: Unread())
            coordinator.questions = replace(coordinator.questions, fetch=lambda *_: Unread())
            yield coordinator

    def looked(self) -> CampaignState:
        with self.opened() as coordinator:
            return coordinator.look()[1]


@pytest.fixture
def hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    return Hub(folder, monkeypatch)


def test_campaign_keeps_its_management_cluster(folder: Path, hub: Hub) -> None:
    """Another one, where its Jobs would never be found, is refused by name; so is one that doesn't answer, and what
    helps if it is lost is named.
    """
    assert hub.looked().hub == "hub-1"
    hub.leads_to("hub-2")
    with pytest.raises(
        Blocked, match=r"UID hub-2, but the campaign's Jobs are on the cluster with the UID hub-1"
    ) as other:
        hub.looked()
    hub.kube.unavailable = True
    with pytest.raises(UsageError, match="the management cluster: ") as silent:
        hub.looked()
    for refused in (other.value, silent.value):
        assert "none of its nodes runs a pod, confirm that" in refused.remedy
        assert "upgrader fleet jobs-gone hub-1 --reason TEXT" in refused.remedy
    hub.leads_to("hub-1")
    assert hub.looked().clusters["a"].attempt == 1


def test_management_cluster_that_is_lost(folder: Path, hub: Hub) -> None:
    """Once a person has asserted that it is gone, the campaign goes on with another one: the attempt that was there
    ends as the cluster's journal says, and is begun again. The one that is gone is then refused.
    """
    assert hub.looked().clusters["a"].phase == "running"
    ran(folder, "a", None)
    with pytest.raises(UsageError, match="with the UID hub-1, not on hub-9"):
        fleet(folder, "jobs-gone", "hub-9", "--reason", "fire")
    assert "with another management cluster" in fleet(folder, "jobs-gone", "hub-1", "--reason", "fire").stderr
    hub.leads_to("hub-2")
    state = hub.looked()
    a = state.clusters["a"]
    assert (state.hub, a.phase, a.run, a.unended) == ("hub-2", "interrupted", "20260101T000001-v1.37.1", True)
    hub.leads_to("hub-1")
    with pytest.raises(Blocked, match="are on the cluster with the UID hub-2"):
        hub.looked()


def test_lost_management_cluster_locks_no_folder(folder: Path, hub: Hub) -> None:
    """A new campaign waits for Jobs of the one before, until a person has asserted that they are gone; then for the
    runs' ends, which are in the clusters.
    """
    hub.looked()
    hub.kube.unavailable = True
    with pytest.raises(UsageError, match="the management cluster: ") as refused:
        fleet(folder, "run", "--new", "--yes")
    assert "jobs-gone hub-1" in refused.value.remedy
    fleet(folder, "jobs-gone", "hub-1", "--reason", "fire")
    ran(folder, "a", None)
    with pytest.raises(Blocked, match="runs that have not ended: a"):
        fleet(folder, "run", "--new", "--yes")
    journal = Journal.reopen(folder / "clusters/a/runs/20260101T000001-v1.37.1" / JOURNAL, FakeClock())
    journal.emit(RunEnded("20260101T000001-v1.37.1", "rolled-back", 1.0))
    journal.close()
    hub.clock.sleep(1)  # names of campaigns are times
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--new", "--yes", "--executor", "local")


def test_jobs_are_not_gone_while_a_coordinator_uses_them(folder: Path, hub: Hub) -> None:
    """It might begin another one; a campaign of processes has none."""
    with hub.opened(), pytest.raises(Locked):
        fleet(folder, "jobs-gone", "hub-1", "--reason", "fire")
    hub.clock.sleep(1)  # names of campaigns are times
    with pytest.raises(CampaignStopped):
        fleet(folder, "run", "--new", "--yes", "--executor", "local")
    with pytest.raises(UsageError, match="has no Jobs: its runs are processes"):
        fleet(folder, "jobs-gone", "hub-1", "--reason", "fire")


def test_job_of_a_container(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hidden command hands on its arguments, and ends as the run did."""
    given = list[object]()

    def run_in_job(*arguments: object, output: object, signals: object) -> int:
        assert signals
        given.extend((arguments, output is not None))
        return 4

    monkeypatch.setattr(job_process, "run_in_job", run_in_job)
    done = fleet(folder, "job", "--chunks", "/c", "--folder", "/f/a", "--pins", "p", "--", "-C", "/f/a", "run")
    assert done.exit_code == 4
    places = tuple(map(Path, ("/c", "/f/a", "/upgrader/work/inputs", "/dev/termination-log")))
    assert given == [(*places, "p", ("-C", "/f/a", "run")), True]
    assert " job " not in fleet(folder, "--help").output


def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """A Job's folder of chunks, its cluster folder, and the file for its last words."""
    words, own, chunks = tmp_path / "termination", tmp_path / "f/a", tmp_path / "chunks"
    made = Path(f"{tmp_path}/made{own}")
    made.mkdir(parents=True)
    (made / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    monkeypatch.setattr(job_objects, "TERMINATION", str(words))
    monkeypatch.setattr(job_objects, "POD_COPIES", str(tmp_path / "copies"))
    monkeypatch.setattr(job_process, "pins_text", lambda: "p")
    chunks.mkdir()
    (chunks / "0000").write_bytes(b"".join(chunks_of(tmp_path / "made", "/x")))
    return chunks, own, words


def test_job_passes_on_what_its_run_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a process of its own, whose standard output masks secrets and takes no bytes: the run's output is the pod's
    log, and its exit code the container's.
    """
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))  # main() wraps them
    chunks, own, _ = container(tmp_path, monkeypatch)
    job = ["fleet", "job", "--chunks", str(chunks), "--folder", str(own), "--pins", "p"]
    monkeypatch.setattr(sys, "argv", ["upgrader", *job, "--", "--version"])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    assert ended.value.code == 0 and capsys.readouterr().out == f"upgrader {__version__}\n"


def test_job_that_is_told_to_end_while_it_starts(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its imports take seconds, in which a signal must neither end it without a word nor be lost."""
    real = builtins.__import__

    def importing(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "upgrader.fleet.job_process":
            os.kill(os.getpid(), signal.SIGTERM)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", importing)
    chunks, own, words = container(tmp_path, monkeypatch)
    with pytest.raises(Interrupted, match="terminated before its run began"):
        fleet(folder, "job", "--chunks", str(chunks), "--folder", str(own), "--pins", "p", "run")
    end = command_end(words.read_bytes())
    assert end is not None and end.exit_code == 130
