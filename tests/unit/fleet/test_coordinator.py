"""The coordinator: what it does of a decision, and that it goes on wherever it was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from shutil import rmtree
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import write_kubeconfig
from testkit.fleet_machine import (
    EMIT,
    FLEET,
    PINS,
    TARGET,
    Killed,
    Machine,
    begun,
    coordinator,
    inputs,
    killed_at,
    lines_read,
    look_until,
    phases,
)
from testkit.waiting import stretched, until
from tests.unit.fleet.test_open_runs import write_later
from upgrader.engine.journal import record
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.errors import ApiError, ApiUnavailable, UsageError
from upgrader.fleet import coordinator as module
from upgrader.fleet.campaigns import Campaign, begin, fleet_files, newest_campaign
from upgrader.fleet.cluster_checks import Found, Questions
from upgrader.fleet.clusters import Answer, Answered
from upgrader.fleet.coordinator import LOOK_SECONDS, SILENT_SECONDS, goes_on
from upgrader.fleet.decide import ANSWER_SECONDS, Decision, Wait
from upgrader.fleet.events import (
    CampaignStarted,
    ClusterEnded,
    ClusterSkipped,
    ClusterStarting,
    Paused,
    Pins,
    RetryRequested,
    Unpaused,
)
from upgrader.fleet.model import FleetCluster, Goal
from upgrader.fleet.outcomes import CommandEnd
from upgrader.fleet.parallel_inquiry import Inquiry
from upgrader.fleet.soak_gates import GateAnswer
from upgrader.fleet.state import ClusterState
from upgrader.fleet.unread_journals import Unread
from upgrader.model.event import RunEnded
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_campaign_to_its_end(machine: Machine) -> None:
    """Stages one after the other, by `upgrader run`; the soak is waited for; the end is in the journal."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    decision, state = one.run(lambda *_: None)
    assert decision.done and state.ended is not None and campaign.state().ended == state.ended
    assert machine.begun == {"a": 1, "b": 1, "c": 1}
    folder, kubeconfig = str(machine.folder / "clusters/a"), campaign.folder / "clusters/a/kubeconfig"
    approved = ["--approved-inputs", inputs(machine, "a").files]
    assert machine.commands[0] == [
        *("-C", folder, "--kubeconfig", str(kubeconfig), "run", "--to", "v1.37.1", "--yes", "-o", "json"),
        *("--campaign", campaign.name, "--after", "none"),
        *approved,
        *("--approved-copies", str(kubeconfig.with_name("inputs"))),
    ]
    assert list(kubeconfig.parent.iterdir()) == [kubeconfig.with_name("1")], "no credentials stay behind, and no copies"
    assert (state.ended - campaign.state().started).total_seconds() >= 180  # type: ignore[operator]
    assert newest_campaign(machine.folder) == campaign


def test_only_the_first_run_keeps_to_the_saved_plan(machine: Machine) -> None:
    """It is told what was approved. A run that has begun has changed the cluster, so the next one can't have the same
    plan: neither the one that resumes it, nor one that an operator asks for.
    """
    campaign = begun(machine, changes="approved")
    one = coordinator(machine, campaign)
    machine.exit_codes["a"] = [130, 4]
    assert one.run(lambda *_: None)[1].clusters["a"].phase == "rolled-back"
    campaign.ask(RetryRequested("a", "me"), machine.clock)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done
    told = ["--approved-changes" in each for each in machine.commands if "clusters/a" in each[1]]
    assert told == [True, False, False]
    assert all(each[-2:] == ["--approved-changes", "approved"] for each in machine.commands if "clusters/b" in each[1])


def test_saved_plan_counts_until_a_run_has_begun(machine: Machine) -> None:
    """An attempt that began no run leaves the cluster as it was approved: the next one keeps to the plan, too. Once a
    run was rolled back, no attempt does, also not after one that began none.
    """
    campaign = begun(machine, changes="approved")
    machine.exit_codes["a"], machine.unnamed = [130, 4, 130], {"a"}
    coordinator(machine, campaign).run(lambda *_: None)
    machine.unnamed = {"a"}
    campaign.ask(RetryRequested("a", "me"), machine.clock)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done
    told = ["--approved-changes" in each for each in machine.commands if "clusters/a" in each[1]]
    assert told == [True, True, False, False]


def test_attempt_of_which_no_run_is_known_keeps_to_the_saved_plan(machine: Machine) -> None:
    """It is resumed, as it may have begun a run; if it has not, the run that begins then is the first one."""
    campaign = begun(machine, changes="approved")
    one = coordinator(machine, campaign)
    one.journal.emit(ClusterStarting("a", 1, False, ""))
    one.journal.emit(ClusterEnded("a", 1, "interrupted", 1.0, "", "", "the journal can't be read", True))
    one.run(lambda *_: None)
    (command,) = (each for each in machine.commands if "clusters/a" in each[1])
    assert "--resume" in command and "--approved-changes" in command


def test_each_line_of_the_journal_is_read_once(machine: Machine) -> None:
    """Each look would read thousands of them in a campaign of 1,000 clusters."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    with lines_read() as read:
        assert one.run(lambda *_: None)[0].done
    lines = len((campaign.folder / JOURNAL).read_bytes().splitlines())
    assert read == list(range(lines)) and one.over


@pytest.mark.parametrize("how", ["truncated", "replaced by a copy"])
def test_journal_that_another_has_changed_ends_the_campaign(machine: Machine, how: str) -> None:
    """A coordinator that doesn't see what it has written itself would begin the same runs again at each look."""
    campaign = begun(machine)
    one, path = coordinator(machine, campaign), campaign.folder / JOURNAL
    look_until(one, lambda state: state.clusters["a"].phase == "running")
    if how == "truncated":
        os.truncate(path, 0)
    else:
        path.with_name("copy").write_bytes(path.read_bytes())
        path.with_name("copy").rename(path)
    with pytest.raises(UsageError, match=r"journal\.jsonl is not as this coordinator wrote it") as found:
        look_until(one, lambda _: False)
    assert "upgrader fleet run" in found.value.remedy and machine.begun == {"a": 1}


def test_run_in_a_window_says_until_when_it_may_begin(machine: Machine) -> None:
    """Its process, whose Job may have to wait for a node, compares that with its own clock."""
    window = '{selector: {}, cron: "0 0 * * *", duration: 4h, timeZone: UTC}'
    file = machine.folder / "fleet.yaml"
    file.write_text(f"{file.read_text()}  windows: [{window}]\n")
    look_until(coordinator(machine, begun(machine)), lambda state: state.clusters["a"].phase == "running")
    assert machine.commands[0][-2:] == ["--begin-by", "2026-01-01T03:00:00+0000"]


def test_campaign_that_ends_with_a_soak(machine: Machine) -> None:
    """The end is in the journal: the next `fleet run` neither continues it nor refuses files for the campaign after."""
    file = machine.folder / "fleet.yaml"
    file.write_text(file.read_text().replace("maxConcurrency: 2,", "maxConcurrency: 2, soak: {for: 3m},"))
    campaign = begun(machine)
    decision, state = coordinator(machine, campaign).run(lambda *_: None)
    assert decision.done and state.ended is not None and not campaign.state().open


def run_killed(machine: Machine, campaign: Campaign, moment: int, *, after: bool) -> Decision:
    """The last decision of the coordinator that goes on behind one that was killed before or `after` that line of the
    journal; of the first one, if it wrote fewer.
    """
    found = list[Decision]()
    with killed_at(moment, after=after):
        found.append(coordinator(machine, campaign).run(lambda *_: None)[0])
    return found[0] if found else coordinator(machine, campaign).run(lambda *_: None)[0]


@pytest.mark.every_moment
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("moment", range(14))
def test_killed_at_each_append(machine: Machine, moment: int, after: bool) -> None:
    """Killed before or after any line of the journal, the next coordinator reaches the same end: no cluster has two
    processes, none is forgotten, and a run that was begun isn't begun again.
    """
    machine.exit_codes = {"b": [130], "c": [4]}
    campaign = begun(machine)
    campaign.ask(RetryRequested("a", "me"), machine.clock)
    run_killed(machine, campaign, moment, after=after)
    assert phases(campaign) == {"a": "succeeded", "b": "succeeded", "c": "rolled-back"}
    assert machine.begun == {"a": 1, "b": 2, "c": 1}


def test_blocked_cluster_needs_a_person(machine: Machine) -> None:
    """The campaign ends where nothing goes on, and goes on after a retry; a request is taken once."""
    machine.exit_codes = {"a": [3]}
    campaign = begun(machine)
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert "maxFailures.blocked" in decision.stop and machine.begun == {"a": 1}
    campaign.ask(RetryRequested("a", "me"), machine.clock)
    assert phases(campaign)["a"] == "waiting", "readers count requests that no coordinator has taken yet"
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert decision.done and machine.begun == {"a": 2, "b": 1, "c": 1}
    assert list((campaign.folder / "requests").iterdir()) == []


def test_request_that_is_in_the_journal_already(machine: Machine) -> None:
    """A coordinator that was killed between the journal and the file doesn't pause the campaign a second time."""
    campaign = begun(machine)
    campaign.ask(Paused("me", "lunch"), machine.clock)
    (file,) = (campaign.folder / "requests").iterdir()
    content = file.read_bytes()
    one = coordinator(machine, campaign)
    assert one.look()[0].stop == "paused by me: lunch" and not file.exists()
    campaign.ask(Unpaused("me"), machine.clock)
    file.write_bytes(content)
    assert one.look()[0].stop == "" and not file.exists() and machine.begun == {"a": 1}


def test_second_pause_without_a_reason(machine: Machine) -> None:
    """It doesn't hide why the campaign was paused; one with a reason does."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    for by, reason in (("bob", ""), ("ann", "audit"), ("eve", "")):
        campaign.ask(Paused(by, reason), machine.clock)
    assert one.look()[0].stop == "paused by ann: audit"
    campaign.ask(Paused("bob", "storage is full"), machine.clock)
    assert one.look()[0].stop == "paused by bob: storage is full"
    campaign.ask(Unpaused("ann"), machine.clock)
    campaign.ask(Paused("eve", ""), machine.clock)
    assert one.look()[0].stop == "paused by eve"


def test_requests_keep_their_order_when_the_clock_is_set_back(machine: Machine) -> None:
    """What was asked for last holds, though by then the clock shows an earlier time, or the same one."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    machine.clock.sleep(60)
    for number in range(8):
        campaign.ask(Unpaused("ann"), machine.clock)
        campaign.ask(Paused("eve", str(number)), FakeClock())
    assert one.look()[0].stop == "paused by eve: 7"


@pytest.mark.parametrize(
    "name",
    [
        "99991231T235959999999-0",
        "00010101T000000000000-0",
        "99991231",
        "-1",
        "٩٩٩٩-0",
        "a request (copy)",
        "%Y",
        200 * "9",
    ],
)
def test_request_comes_after_a_file_of_any_name(machine: Machine, name: str) -> None:
    """A person may have copied or renamed one, and an older version ordered requests by the times in their names."""
    campaign = begun(machine)
    campaign.ask(Paused("eve", "first"), machine.clock)
    (first,) = (campaign.folder / "requests").iterdir()
    content = json.loads(first.read_bytes())
    content.pop("sequence", None)
    (campaign.folder / f"requests/{name}.json").write_text(json.dumps(content))
    first.unlink()
    campaign.ask(Unpaused("ann"), machine.clock)
    campaign.ask(Paused("eve", "last"), FakeClock())
    assert coordinator(machine, campaign).look()[0].stop == "paused by eve: last"


def test_identity_before_action(machine: Machine) -> None:
    """Two kubeconfigs that were swapped are both refused, and nothing of either cluster is begun."""
    campaign = begun(machine)
    machine.answers["b"], machine.answers["c"] = machine.answers["c"], machine.answers["b"]
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert machine.begun == {"a": 1}
    said = "fleet-inventory.yaml:3: its kubeconfig points to the cluster with the UID u3; the inventory has u2"
    assert decision.waits["b"].reason.endswith(said) and decision.waits["b"].person
    assert "UID u2" in decision.waits["c"].reason


def test_unreachable_cluster_is_skipped_and_retried(machine: Machine) -> None:
    """It is asked again each minute, skipped as the stage says, and upgraded once someone retries it."""
    campaign = begun(machine)
    machine.silent = {"a"}
    decision, state = coordinator(machine, campaign).run(lambda *_: None)
    assert (
        state.clusters["a"].phase == "skipped"
        and "none of its clusters has succeeded" in decision.stages["canary"].reason
    )
    machine.silent = set()
    campaign.ask(RetryRequested("a", "me"), machine.clock)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done


def test_cluster_that_answers_again(machine: Machine) -> None:
    """Its run begins once its API answers."""
    campaign = begun(machine)
    machine.silent = {"a"}
    one = coordinator(machine, campaign)
    wait = one.look()[0].waits["a"]
    assert wait.reason == "its API to answer: a doesn't answer"
    machine.silent = set()
    machine.clock.sleep(61)
    assert [each.cluster for each in one.look()[0].starts] == ["a"]
    one.look()
    assert machine.begun == {"a": 1}


@pytest.mark.parametrize("soaked", [False, True])
def test_reason_with_a_secret_is_written_once(machine: Machine, soaked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that says its token in each answer makes no line of the journal for each time it is asked."""
    campaign = begun(machine)
    monkeypatch.setattr(record, "mask_secrets", lambda text: text.replace("doesn't answer", "[masked]"))
    one = coordinator(machine, campaign)
    if soaked:
        look_until(one, lambda state: state.clusters["a"].phase == "succeeded")
        machine.clock.sleep(180)
    machine.silent = {"a"}
    one.look()
    before = (campaign.folder / JOURNAL).read_bytes()
    assert b"a [masked]" in before
    machine.clock.sleep(61)
    one.look()
    assert (campaign.folder / JOURNAL).read_bytes() == before


@pytest.mark.parametrize("soaked", [False, True])
def test_reason_that_differs_each_time_does_not_fill_the_journal(machine: Machine, soaked: bool) -> None:
    """A server that words its error differently each minute gets few lines; a new reason is told within the hour."""
    file = machine.folder / "fleet.yaml"
    file.write_text(file.read_text().replace("wait: 3m, then: skip", "wait: 9d"))
    campaign, said = begun(machine), ""
    one = coordinator(machine, campaign)
    if soaked:
        look_until(one, lambda state: state.clusters["a"].phase == "succeeded")
        machine.clock.sleep(180)

    def refuse() -> None:
        raise ApiUnavailable(said)

    def look(words: str) -> str:
        nonlocal said
        said, machine.at_ask["a"] = words, refuse
        machine.clock.sleep(61)
        a = one.look()[1].clusters["a"]
        return a.soak_reason if soaked else a.problem_reason

    before = len((campaign.folder / JOURNAL).read_bytes().splitlines())
    for minute in range(120):
        look(f"timed out in {minute}")
    assert len((campaign.folder / JOURNAL).read_bytes().splitlines()) - before < 12
    machine.clock.sleep(3600)
    assert look("no route") == "no route"


def test_soak_is_shut_while_a_cluster_does_not_answer(machine: Machine) -> None:
    """No answer, another version and another cluster end no soak."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    for _ in range(3):
        one.look()
        machine.clock.sleep(LOOK_SECONDS)
    machine.clock.sleep(200)
    machine.silent = {"a"}
    assert "a doesn't answer" in one.look()[0].stages["canary"].reason
    machine.silent = set()
    machine.answers["a"] = replace(machine.answers["a"], version=KubernetesVersion.release("v1.36.3"))
    machine.clock.sleep(61)
    assert "it answers with v1.36.3 and the UID u1; expected v1.37.1 and u1" in one.look()[0].stages["canary"].reason
    assert machine.begun == {"a": 1}
    machine.answers["a"] = replace(machine.answers["a"], version=TARGET)
    assert one.run(lambda *_: None)[0].done


def test_soak_needs_requests(machine: Machine) -> None:
    """With `minRequests`, time alone ends no soak, and neither do metrics that can't be read, nor what was answered
    before the run's end: only enough requests since. The next coordinator knows what counts.
    """
    (machine.folder / "fleet.yaml").write_text(FLEET.replace("{for: 3m}", "{for: 3m, minRequests: 1000}"))
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    machine.answered = Answered("1", 50_000)
    look_until(one, lambda state: bool(state.clusters["a"].counted))
    machine.clock.sleep(200)
    one = coordinator(machine, campaign)
    machine.answered = Answered("1", 50_999)
    assert "a: fewer than 1000 requests are known to have been answered" in one.look()[0].stages["canary"].reason
    machine.answered = ApiError("get /metrics: forbidden")
    machine.clock.sleep(61)
    assert "a: get /metrics: forbidden" in one.look()[0].stages["canary"].reason
    assert machine.begun == {"a": 1}
    machine.answered = Answered("1", 51_000)
    machine.clock.sleep(61)
    assert one.run(lambda *_: None)[0].done


def test_soak_with_gates(machine: Machine) -> None:
    """They are asked each minute from the run's end on, by the approved folder; what changes is written down, and not
    each answer; the soak ends only if the last answer is that all pass.
    """
    (machine.folder / "fleet.yaml").write_text(FLEET.replace("{for: 3m}", "{for: 3m, gates: [errors]}"))
    machine.gate = GateAnswer("errors", "0.3 now", 3600.0)
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    state = look_until(one, lambda state: state.clusters["a"].gate == "errors")
    folder, files, names, seconds = machine.gates_asked[0]
    assert (folder, files, names) == (machine.folder / "clusters/a", inputs(machine, "a").files, ("errors",))
    assert 0 <= seconds < 60
    before = (campaign.folder / JOURNAL).read_bytes()
    machine.gate = GateAnswer("errors", "0.4 now", 3600.0)
    machine.at_ask["a"] = lambda: pytest.fail("its API is asked at the soak's end only")
    machine.clock.sleep(61)
    one.look()
    machine.at_ask.clear()
    assert (campaign.folder / JOURNAL).read_bytes() == before and len(machine.gates_asked) == 2
    machine.clock.sleep(200)
    assert "a: gate errors doesn't pass: 0.3 now" in one.look()[0].stages["canary"].reason
    assert one.look()[0].gates == ("a",) and machine.begun == {"a": 1}
    machine.gate = GateAnswer()
    machine.clock.sleep(61)
    decision, state = one.run(lambda *_: None)
    assert decision.done and state.clusters["a"].gate == ""


def test_gate_that_does_not_pass_by_its_deadline(machine: Machine) -> None:
    """It stops the campaign also if the next coordinator sees it, and if it passes later; with `retry`, it is asked
    again, and nothing is run for it. A folder that hangs is a gate that can't be asked.
    """
    text = FLEET.replace("{for: 3m}", "{for: 3h, gates: [errors]}")
    (machine.folder / "fleet.yaml").write_text(text)
    machine.gate = GateAnswer("errors", "it can't be queried: no answer", 300.0)
    campaign = begun(machine)
    look_until(coordinator(machine, campaign), lambda state: state.clusters["a"].gate == "errors")
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert "gate errors of a has not passed by its deadline: it can't be queried: no answer" in decision.stop
    machine.gate = GateAnswer()
    assert coordinator(machine, campaign).run(lambda *_: None)[0].stop == decision.stop
    campaign.ask(RetryRequested("a", "me"), machine.clock)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done
    assert machine.begun == {"a": 1, "b": 1, "c": 1}


def test_gate_that_has_failed_stays_failed(machine: Machine) -> None:
    """While requests are still counted in its cluster, an answer that the gate passes now doesn't end the stop."""
    (machine.folder / "fleet.yaml").write_text(FLEET.replace("{for: 3m}", "{for: 3h, minRequests: 9, gates: [errors]}"))
    machine.gate, machine.answered = GateAnswer("errors", "0.3", 60.0), Answered("1", 0, 3)
    one = coordinator(machine, begun(machine))
    look_until(one, lambda state: state.clusters["a"].gate_failed)
    machine.gate = GateAnswer()
    machine.clock.sleep(61)
    asked = len(machine.gates_asked)
    decision, state = one.look()
    assert len(machine.gates_asked) > asked and state.clusters["a"].gate_failed and "gate errors of a" in decision.stop


GATES = FLEET.replace("{for: 3m}", "{for: 3m, gates: [errors, orders]}")


def one_whose_gates_hang(machine: Machine, at: str) -> ClusterState:
    """What is known of `a`, whose gates have passed once, when the look's time ends with the question at `at`."""
    (machine.folder / "fleet.yaml").write_text(GATES)
    one = coordinator(machine, begun(machine))
    look_until(one, lambda state: state.clusters["a"].gate == "")
    one.inquiry = _Late(there := Event())
    hangs = Event()

    def hang() -> None:
        there.set()
        hangs.wait(stretched(60))

    setattr(machine, at, hang)
    machine.clock.sleep(61)
    one.look()
    hangs.set()
    return one.campaign.state().clusters["a"]


class _Late(Inquiry[Any, Any]):
    """A look whose time is over once a question has come so far, and not before."""

    def __init__(self, there: Event) -> None:
        super().__init__()
        self.there = there

    def answers(self, questions: Mapping[Any, Callable[[], Any]]) -> Iterator[tuple[Any, Any]]:
        for about, question in questions.items():
            Thread(target=question, daemon=True).start()
            assert self.there.wait(stretched(60))
            yield about, None


def test_gate_that_answers_too_late(machine: Machine) -> None:
    """The one that was asked when the time was over is named, and not the first one, which has passed."""
    machine.gate_asked = "orders"
    a = one_whose_gates_hang(machine, "at_gate")
    assert a.gate == "orders" and a.gate_reason.startswith("it has not answered within 20 s, the time limit")


def test_gates_of_a_folder_that_hangs(machine: Machine) -> None:
    """None was asked, so that none of them is named; that they passed before counts no more."""
    a = one_whose_gates_hang(machine, "at_settings")
    assert a.gate is None and a.gate_shut and a.may_be_skipped
    assert a.gate_reason == "they can't be queried: its cluster's folder was not read within 20 s"


def test_slow_api_takes_no_time_of_gates(machine: Machine) -> None:
    """Gates pass while the API of their cluster takes all of a look's time: only the API is named."""
    (machine.folder / "fleet.yaml").write_text(GATES)
    one = coordinator(machine, begun(machine))
    look_until(one, lambda state: state.clusters["a"].gate == "")
    hangs = Event()
    one.inquiry = _LateApi(hangs)
    machine.at_ask["a"] = lambda: hangs.wait(stretched(60))
    machine.clock.sleep(200)
    asked = len(machine.gates_asked)
    decision, state = one.look()
    assert len(machine.gates_asked) == asked + 1 and not hangs.is_set()
    hangs.set()
    assert state.clusters["a"].gate == "" and "a: it has not answered within" in decision.stages["canary"].reason


class _LateApi(Inquiry[Any, Any]):
    """A look whose time is over when all but the API has answered."""

    def __init__(self, hangs: Event) -> None:
        super().__init__()
        self.hangs = hangs

    def answers(self, questions: Mapping[Any, Callable[[], Any]]) -> Iterator[tuple[Any, Any]]:
        for about, question in questions.items():
            if about.gates:
                yield about, question()
            else:
                Thread(target=question, daemon=True).start()
                yield about, None


def test_soak_does_not_end_by_an_older_answer_of_its_gates(machine: Machine) -> None:
    """A gate that passed a minute ago and fails at the soak's end keeps it from ending, and that is one entry."""
    (machine.folder / "fleet.yaml").write_text(GATES)
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["a"].gate == "")
    machine.gate = GateAnswer("orders", "4 now", 3600.0)
    machine.clock.sleep(190)
    state = one.look()[1]
    assert state.clusters["a"].soaked is None and state.clusters["a"].soak_reason == "its gate orders doesn't pass"
    before = (campaign.folder / JOURNAL).read_bytes()
    machine.clock.sleep(61)
    one.look()
    assert (campaign.folder / JOURNAL).read_bytes() == before
    machine.gate = GateAnswer()
    machine.clock.sleep(61)
    assert one.run(lambda *_: None)[0].done


RESTART = FLEET.replace("{for: 3m}", "{for: 3m, restart: true}")


@pytest.mark.every_moment
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("moment", range(9))
def test_killed_at_each_append_of_a_restart(machine: Machine, moment: int, after: bool) -> None:
    """Killed before or after any line of the journal, the next coordinator ends the soak, and exactly one pod of the
    cluster was evicted: which one, was written down before.
    """
    (machine.folder / "fleet.yaml").write_text(RESTART)
    campaign = begun(machine)
    assert run_killed(machine, campaign, moment, after=after).done
    assert machine.evicted == [("a", "old")] and campaign.state().clusters["a"].pod_restarted


def test_windows_that_are_too_short_for_a_restart(machine: Machine) -> None:
    """That is one entry of the journal, and not one each minute; the cluster can be skipped."""
    window = '  windows: [{selector: {}, cron: "* * * * *", duration: 5m, timeZone: UTC}]\n  expectedRun: 2m\n'
    (machine.folder / "fleet.yaml").write_text(RESTART + window)
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["a"].phase == "succeeded")
    machine.clock.sleep(200)
    one.look()
    before = (campaign.folder / JOURNAL).read_bytes()
    assert b"leave no time for the restart of a pod" in before
    for _ in range(3):
        machine.clock.sleep(61)
        decision, state = one.look()
        assert decision.stages["canary"].person and state.clusters["a"].may_be_skipped
    assert (campaign.folder / JOURNAL).read_bytes() == before and machine.evicted == []
    campaign.ask(ClusterSkipped("a", "me", "short"), machine.clock)
    assert one.look()[1].clusters["a"].phase == "skipped"


def test_killed_after_an_eviction(machine: Machine) -> None:
    """An eviction of which no answer came is repeated for the same pod, and evicts no other."""
    (machine.folder / "fleet.yaml").write_text(RESTART)
    campaign = begun(machine)

    def lost() -> None:
        raise ApiUnavailable("connection reset")

    machine.at_eviction = lost
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done
    assert machine.evicted == [("a", "old")]


def test_pod_that_can_not_be_restarted(machine: Machine) -> None:
    """The reason is written down once, and the cluster may be skipped; once it is gone, the soak ends."""
    (machine.folder / "fleet.yaml").write_text(RESTART)
    one = coordinator(machine, begun(machine))
    machine.no_pod = "no pod is restarted: its lock is held by ann"
    look_until(one, lambda state: state.clusters["a"].phase == "succeeded")
    machine.clock.sleep(61)
    state = one.look()[1]
    assert state.clusters["a"].soak_reason == machine.no_pod and state.clusters["a"].may_be_skipped
    before = (one.campaign.folder / JOURNAL).read_bytes()
    for _ in range(5):
        machine.clock.sleep(61)
        one.look()
    assert (one.campaign.folder / JOURNAL).read_bytes() == before and machine.evicted == []
    machine.no_pod = ""
    assert one.run(lambda *_: None)[0].done and machine.evicted == [("a", "old")]


@pytest.mark.parametrize("moved", [True, False])
def test_gate_that_can_not_be_asked(machine: Machine, moved: bool) -> None:
    """A cluster folder that now leads elsewhere, and whatever else surprises, is a gate that doesn't pass."""
    (machine.folder / "fleet.yaml").write_text(FLEET.replace("{for: 3m}", "{for: 3m, gates: [errors]}"))
    one = coordinator(machine, begun(machine))
    look_until(one, lambda state: state.clusters["a"].gate == "")
    folder = machine.folder / "clusters/a"
    if moved:
        folder.rename(folder.with_name("elsewhere"))
        folder.symlink_to("elsewhere")
    else:
        machine.at_gate = lambda: int("x")
    machine.clock.sleep(61)
    reason = one.look()[1].clusters["a"].gate_reason
    assert reason.startswith("they can't be queried: " if moved else "it can't be queried: ")
    assert ("is now a link to a folder other" if moved else "ValueError: invalid literal") in reason


@pytest.mark.parametrize(("started", "passes"), [(-1, False), (1, True)], ids=["another", "restarted"])
def test_soak_by_an_api_server_that_was_not_asked_before(machine: Machine, started: int, passes: bool) -> None:
    """One whose process has started since the run's end counts as a whole; of an older one, as behind a load balancer,
    it isn't known what it had answered by then: only what it answers from now on counts.
    """
    (machine.folder / "fleet.yaml").write_text(FLEET.replace("{for: 3m}", "{for: 3m, minRequests: 1000}"))
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    state = look_until(one, lambda state: bool(state.clusters["a"].counted))
    assert state.clusters["a"].since is not None
    server = str(state.clusters["a"].since.timestamp() + started)
    machine.answered = Answered(server, 1500, 2)
    machine.clock.sleep(200)
    assert ("canary" not in one.look()[0].stages) is passes
    machine.answered = Answered(server, 2500, 2)
    machine.clock.sleep(61)
    assert "canary" not in one.look()[0].stages


def test_each_api_server_is_asked_before_the_soak(machine: Machine) -> None:
    """Behind a load balancer, requests are counted from the run's end for each one that answers within an hour."""
    (machine.folder / "fleet.yaml").write_text(FLEET.replace("{for: 3m}", "{for: 24h, minRequests: 1000}"))
    one = coordinator(machine, begun(machine))
    machine.answered = Answered("1", 50_000, 3)
    look_until(one, lambda state: bool(state.clusters["a"].counted))
    machine.answered = Answered("2", 70_000, 3)
    machine.clock.sleep(61)
    assert one.look()[1].clusters["a"].counted == {"1": 50_000, "2": 70_000}
    machine.answered = Answered("3", 90_000, 3)
    machine.clock.sleep(3600)
    assert one.look()[1].clusters["a"].counted == {"1": 50_000, "2": 70_000}


def test_files_that_change_in_the_middle(machine: Machine) -> None:
    """An edit of the inventory is named with its line, and nothing more is begun; runs in progress finish."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    one.look()
    inventory = machine.folder / "fleet-inventory.yaml"
    text = inventory.read_text()
    inventory.write_text(text.replace("uid: u3", "uid: u9"))
    decision, _ = one.run(lambda *_: None)
    assert "fleet-inventory.yaml:4: has changed since the campaign began" in decision.stop
    assert phases(campaign) == {"a": "succeeded", "b": "waiting", "c": "waiting"}
    inventory.unlink()
    assert "can't be read" in one.look()[0].stop


def test_values_that_change_in_the_middle(machine: Machine) -> None:
    """An edit in a cluster's folder reaches it only once it was approved; credentials and past runs are no edit."""
    campaign = begun(machine)
    cluster = machine.folder / "clusters/b"
    write_kubeconfig(cluster, token="new")
    (cluster / "runs").mkdir()
    (cluster / "runs/x").write_text("x")
    (cluster / "values").mkdir()
    (cluster / "values/kubernetes.yaml").write_text("a: 1\n")
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert phases(campaign) == {"a": "succeeded", "b": "waiting", "c": "succeeded"}
    assert "upgrader fleet approve --changes b" in decision.waits["b"].reason
    (cluster / "values/kubernetes.yaml").unlink()
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done


def test_process_that_says_nothing(machine: Machine) -> None:
    """A process that was killed before its run began is begun again, by the same command, a minute later."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    one.look()
    machine.processes = dict.fromkeys(machine.processes, 0)
    wait = one.look()[0].waits["a"]
    assert "its process ended before it started a run" in wait.reason and wait.until is not None
    assert one.run(lambda *_: None)[0].done and machine.begun == {"a": 2, "b": 1, "c": 1}
    assert machine.commands[0] == machine.commands[1]


def test_old_run_that_only_its_cluster_knows(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a fresh checkout, the success of an earlier campaign is none of this attempt, whose process said nothing."""
    machine.elsewhere["a"], machine.unnamed = "20251201T000000-v1.37.1", {"a"}
    folder = machine.folder / "clusters/a"

    def end(_: Path) -> None:
        machine.fetch(folder, folder)

    monkeypatch.setattr(machine, "end", end)
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    state = look_until(one, lambda state: state.clusters["a"].phase not in ("waiting", "running"))
    assert state.clusters["a"].phase == "interrupted" and state.clusters["a"].run == ""
    assert (folder / "runs/20251201T000000-v1.37.1").is_dir()


def test_run_says_which_one_it_follows(machine: Machine) -> None:
    """A Job that is started again finds its own run newer than that one; a resumed run is no more known to have ended
    than before it began.
    """
    old = "20251201T000000-v1.37.1"
    machine.elsewhere["a"], machine.exit_codes = old, {"a": [130, 0]}
    machine.fetch(machine.folder / "clusters/a", machine.folder)
    assert coordinator(machine, begun(machine)).run(lambda *_: None)[0].done
    mine = [each for each in machine.commands if each[1].endswith("/a")]
    assert [each[each.index("--after") + 1] for each in mine] == [old, old] and "--resume" in mine[1]


@pytest.mark.parametrize("local", [True, False], ids=["local", "jobs"])
@pytest.mark.parametrize("attempted", [False, True])
def test_journal_restored_from_a_backup(machine: Machine, local: bool, attempted: bool) -> None:
    """A run of this campaign that ended after the backup, as its cluster's journals know, counts as it ended, and isn't
    begun again, whether or not the journal knows of an attempt before it.
    """
    campaign = begun(machine)
    machine.unnamed, machine.exit_codes = {"a"} if attempted else set(), {"a": [6, 0] if attempted else [0]}
    journal = campaign.folder / JOURNAL
    backup = journal.read_bytes()
    one = coordinator(machine, campaign)
    if attempted:
        look_until(one, lambda state: state.clusters["a"].phase == "interrupted")
        backup = journal.read_bytes()
    look_until(one, lambda state: state.clusters["a"].phase == "succeeded")
    journal.write_bytes(backup)
    if not local:
        runs = machine.folder / "clusters/a/runs"
        machine.elsewhere["a"], machine.elsewhere_of = next(runs.iterdir()).name, campaign.name
        rmtree(runs)
    decision, state = coordinator(machine, campaign).run(lambda *_: None)
    assert decision.done and state.clusters["a"].phase == "succeeded" and state.clusters["a"].run
    assert machine.begun == {"a": 1 + attempted, "b": 1, "c": 1}


def test_journal_restored_while_a_run_is_open(machine: Machine) -> None:
    """A run of this campaign of which the restored journal knows nothing is resumed, and keeps its place and its domain
    until it has ended.
    """
    machine.exit_codes = {"b": [130]}
    file = machine.folder / "fleet.yaml"
    file.write_text(file.read_text().replace("maxConcurrency: 2,", "maxConcurrency: 1,"))
    campaign = begun(machine)
    journal = campaign.folder / JOURNAL
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["a"].phase == "succeeded")
    backup = journal.read_bytes()
    run = look_until(one, lambda state: state.clusters["b"].phase == "interrupted").clusters["b"].run
    journal.write_bytes(backup)
    one = coordinator(machine, campaign)
    state = look_until(one, lambda state: state.clusters["b"].phase != "waiting")
    assert (state.clusters["b"].run, state.clusters["b"].active, machine.begun["c"]) == (run, True, 0)
    rmtree(campaign.folder / "clusters/b/1")  # that process has ended, and this machine's folder was restored, too
    machine.processes = {}
    assert one.run(lambda *_: None)[0].done
    mine, other = machine.commands[-2:]
    assert "--resume" in mine and mine[1].endswith("/b") and other[1].endswith("/c")


def test_open_run_that_only_its_cluster_knows(machine: Machine) -> None:
    """An upgrade that the campaign has not begun is neither resumed nor counted as its own; once a person has ended it,
    the campaign's begins.
    """
    run = "20251201T000000-v1.37.1"
    machine.elsewhere["a"], machine.elsewhere_ends = run, 130
    campaign = begun(machine)
    decision, state = coordinator(machine, campaign).run(lambda *_: None)
    assert machine.begun == {} and state.clusters["a"].problem == "unended" and decision.waits["a"].person
    assert f"run {run}: upgrader -C" in decision.waits["a"].reason
    journal = Journal.reopen(machine.folder / "clusters/a/runs" / run / JOURNAL, machine.clock)
    EMIT(journal, RunEnded(run, "rolled-back", 1.0))
    journal.close()
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done and machine.begun == {"a": 1, "b": 1, "c": 1}


def test_cluster_whose_earlier_runs_can_not_be_read(machine: Machine) -> None:
    """Its run isn't begun until they can; one that was interrupted goes on, as its name is known."""
    machine.exit_codes = {"a": [130]}
    campaign = begun(machine)
    machine.unread = Unread("no answer")
    one = coordinator(machine, campaign)
    decision, _ = one.look()
    assert machine.begun == {} and "the journals of its earlier runs can't be read: no answer" in str(decision.waits)
    machine.unread = Unread()
    machine.clock.sleep(61)
    look_until(one, lambda state: state.clusters["a"].phase == "interrupted")
    machine.unread = Unread("no answer")
    look_until(one, lambda state: state.clusters["a"].phase == "succeeded")


def test_cluster_with_a_damaged_journal_of_an_earlier_run(machine: Machine) -> None:
    """It answers, so that it is never skipped as unreachable: a person is told what is damaged, and what to do. An
    interrupted run goes on.
    """
    machine.exit_codes = {"a": [130]}
    campaign = begun(machine)
    machine.unread = Unread(runs={"20251201T000000-v1.36.3": "it has no readable journal"})
    one = coordinator(machine, campaign)
    one.look()
    machine.clock.sleep(3600)
    decision, state = one.look()
    assert (state.clusters["a"].phase, state.clusters["a"].problem) == ("waiting", "journals")
    assert decision.waits["a"].person and not machine.begun
    said = "is unknown: it has no readable journal"
    assert f"the outcome of its earlier runs 20251201T000000-v1.36.3 {said}" in decision.waits["a"].reason
    assert "kubectl -n kube-system delete secret upgrader.run.20251201t000000-v1.36.3" in decision.waits["a"].reason
    damaged, machine.unread = machine.unread, Unread()
    machine.clock.sleep(61)
    look_until(one, lambda state: state.clusters["a"].phase == "interrupted")
    machine.unread = damaged
    look_until(one, lambda state: state.clusters["a"].phase == "succeeded")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda campaign: (campaign.folder / "requests/1.json").write_text("{}"), "is not a valid request"),
        (lambda campaign: (campaign.folder / JOURNAL).write_bytes(b"{}\n"), "this line of the journal is not valid"),
    ],
)
def test_damaged_files(machine: Machine, spoil: Callable[[Campaign], object], message: str) -> None:
    """A request or a journal that isn't valid is an error that names the file."""
    campaign = begun(machine)
    campaign.ask(ClusterSkipped("a", "me", "x"), machine.clock)
    spoil(campaign)
    with pytest.raises(UsageError, match=message):
        campaign.state()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (lambda path: path.mkdir(), "/1.json can't be read: Is a directory"),
        (
            lambda path: path.symlink_to("/dev/zero"),
            "/1.json can't be read: it is a pipe, a socket or a device",
        ),
        (lambda path: path.write_text("[" * 100_000), r"/1\.json is not a valid request: "),
        (lambda path: (path.parent.rmdir(), path.parent.touch()), "/requests can't be read: Not a directory"),
    ],
    ids=["folder", "device", "deep", "no folder"],
)
def test_request_that_can_not_be_read(machine: Machine, place: Callable[[Path], object], message: str) -> None:
    """It is an error that names its place, no reader waits for it, and it isn't taken for no request."""
    campaign = begun(machine)
    campaign.ask(Unpaused("me"), machine.clock)
    coordinator(machine, campaign).look()
    place(campaign.folder / "requests/1.json")
    with pytest.raises(UsageError, match=message):
        campaign.state()
    with pytest.raises(UsageError, match=message):
        campaign.ask(Paused("me", "x"), machine.clock)


def test_resume_that_ends_early_keeps_its_place(machine: Machine) -> None:
    """A resume that ends before it has named its run leaves the cluster in the middle of it: its place among those that
    run at once stays taken, and the next attempt resumes the run too.
    """
    machine.exit_codes = {"b": [130, 3]}
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["b"].phase == "interrupted")
    machine.unnamed = {"b"}
    state = look_until(one, lambda state: state.clusters["b"].interruptions == 2)
    assert state.clusters["b"].active and state.clusters["b"].reason == "b failed"
    assert one.run(lambda *_: None)[0].done
    of_b = [each for each in machine.commands if each[1].endswith("/b")]
    assert [each[-1] == "--resume" for each in of_b] == [False, True, True]


def test_seconds_of_a_resumed_run_are_those_of_all_attempts(machine: Machine) -> None:
    """Windows are judged by how long a run was worked on, and not by its last attempt, nor by the pause between two."""
    machine.exit_codes = {"a": [130]}
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    first = look_until(one, lambda state: state.clusters["a"].phase == "interrupted").clusters["a"].worked
    state = look_until(one, lambda state: state.clusters["a"].phase == "succeeded")
    assert first > 0 and list(state.seconds) == pytest.approx([2 * first])


def test_end_in_the_future(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a run's machine, or what a playbook says of it, makes no run longer than it was: no window would
    have room for the next one.
    """
    end = machine.end

    def in_the_future(attempt: Path) -> CommandEnd | None:
        said = end(attempt)
        return replace(said, time=datetime(8998, 1, 1, tzinfo=UTC)) if said else None

    monkeypatch.setattr(machine, "end", in_the_future)
    campaign, began = begun(machine), machine.clock.now()
    state = look_until(coordinator(machine, campaign), lambda state: state.clusters["a"].phase == "succeeded")
    assert 0 < state.seconds[0] <= (machine.clock.now() - began).total_seconds()


@pytest.mark.parametrize("ahead", [timedelta(hours=-1), timedelta(), timedelta(hours=1)])
def test_seconds_of_a_job_by_its_own_clock(machine: Machine, monkeypatch: pytest.MonkeyPatch, ahead: timedelta) -> None:
    """A management cluster whose clock is wrong makes no run shorter or longer, and a queue is no part of one."""
    end = machine.end

    def told(attempt: Path) -> CommandEnd | None:
        said, now = end(attempt), machine.clock.now() + ahead
        return replace(said, time=now, began=now - timedelta(minutes=10)) if said else None

    def ran(*told: Any) -> None:  # the journal's times are by the clock of the Job's pod, too
        mine, machine.clock = machine.clock, FakeClock()
        machine.clock.sleep((mine.now() + ahead - machine.clock.now()).total_seconds())
        Machine._ran(machine, *told)
        machine.clock = mine

    monkeypatch.setattr(machine, "end", told)
    monkeypatch.setattr(machine, "_ran", ran)
    one = coordinator(machine, begun(machine))
    look_until(one, lambda state: state.clusters["a"].phase == "running")
    machine.clock.sleep(3000)
    state = look_until(one, lambda state: state.clusters["a"].phase == "succeeded")
    assert state.seconds == (600.0,)


def test_job_that_has_ended_before_it_began(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of its pod's node is wrong: how long the run took is unknown, and not nothing, for which every window
    would have room.
    """
    end = machine.end

    def told(attempt: Path) -> CommandEnd | None:
        said, now = end(attempt), machine.clock.now()
        return replace(said, time=now - timedelta(hours=5), began=now) if said else None

    monkeypatch.setattr(machine, "end", told)
    one = coordinator(machine, begun(machine))
    look_until(one, lambda state: state.clusters["a"].phase == "running")
    machine.clock.sleep(3000)
    state = look_until(one, lambda state: state.clusters["a"].phase == "succeeded")
    assert state.seconds[0] >= 3000


@pytest.mark.parametrize("pins", [Pins("2", "c", "p"), Pins("1", "d", "p"), Pins("1", "c", "q")])
def test_another_upgrader_in_the_middle(machine: Machine, pins: Pins) -> None:
    """A program that was replaced during the campaign begins and resumes nothing; with the old one it goes on."""
    machine.exit_codes = {"a": [130]}
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    one.look()
    machine.pins = pins
    decision, state = one.run(lambda *_: None)
    assert machine.begun == {"a": 1} and state.clusters["a"].active
    assert "since the campaign began" in decision.stop or "began with upgrader 1" in decision.stop
    assert decision.waits["a"].person and decision.waits["a"].reason == decision.stop
    machine.pins = PINS
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done


def test_unreachable_cluster_is_asked_again_before_it_is_skipped(machine: Machine) -> None:
    """It may have answered all the time while no coordinator ran."""
    campaign = begun(machine)
    machine.silent = {"a"}
    coordinator(machine, campaign).look()
    machine.silent = set()
    machine.clock.sleep(3600)
    decision, state = coordinator(machine, campaign).look()
    assert [each.cluster for each in decision.starts] == ["a"] and state.clusters["a"].problem == ""


@pytest.mark.parametrize("what", ["pause", "edit", "upgrade"])
def test_stop_in_the_middle_of_a_batch(machine: Machine, what: str) -> None:
    """A pause, an edit of the fleet's files or a new program while clusters are asked keeps all of them back."""
    campaign = begun(machine)
    inventory = machine.folder / "fleet-inventory.yaml"
    happens: dict[str, Callable[[], object]] = {
        "pause": lambda: campaign.ask(Paused("me", "lunch"), machine.clock),
        "edit": lambda: inventory.write_text(inventory.read_text() + "# more\n"),
        "upgrade": lambda: setattr(machine, "pins", Pins("2", "c", "p")),
    }
    machine.at_ask["b"] = happens[what]
    one = coordinator(machine, campaign)
    decision, _ = one.run(lambda *_: None)
    assert machine.begun == {"a": 1}
    assert decision.stages["canary"] == Wait(decision.stop, person=True) and decision.stop


def test_window_that_closes_in_the_middle_of_a_batch(machine: Machine) -> None:
    """A cluster that answers slowly is begun only if it may still begin by then."""
    window = '  windows: [{selector: {}, cron: "0 0 * * *", duration: 2h, timeZone: UTC}]\n'
    (machine.folder / "fleet.yaml").write_text(FLEET + window)
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    machine.at_ask["a"] = lambda: machine.clock.sleep(3 * 3600)
    one.look()
    assert machine.begun == {}
    machine.clock.sleep(21 * 3600)
    machine.at_ask["a"] = lambda: machine.clock.sleep(30)
    one.look()
    assert machine.begun == {"a": 1}, "no cluster is kept back by how long its answer takes"


def test_attempt_that_can_not_be_read(machine: Machine) -> None:
    """The cluster is named, keeps its place, and waits for a person, while the others go on; afterwards it goes on."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["b"].phase == "running")
    machine.unreadable = {"b"}
    look_until(one, lambda state: state.clusters["c"].phase == "succeeded")
    machine.clock.sleep(ANSWER_SECONDS)
    decision, state = one.run(lambda *_: None)
    assert phases(campaign) == {"a": "succeeded", "b": "running", "c": "succeeded"}
    assert state.clusters["b"].active and decision.waits["b"].person
    assert "it is unknown whether its run is in progress" in decision.waits["b"].reason
    assert decision.stages["production"] == Wait("an operator: b", person=True)
    machine.unreadable, machine.written = set(), machine.clock.now()
    decision, state = coordinator(machine, campaign).run(lambda *_: None)
    assert decision.done and state.clusters["b"].problem == ""


def test_attempt_that_can_be_read_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A management cluster that restarts, as in its own upgrade, ends no coordinator. It is asked each minute."""
    campaign, running = begun(machine), machine.running
    one, asked = coordinator(machine, campaign), 0
    look_until(one, lambda state: state.clusters["a"].phase == "running")
    until = machine.clock.monotonic() + 600

    def unreadable(attempt: Path) -> bool:
        nonlocal asked
        if machine.clock.monotonic() < until:
            asked += 1
            raise UsageError("no answer")
        return running(attempt)

    monkeypatch.setattr(machine, "running", unreadable)
    assert one.run(lambda *_: None)[0].done and 9 <= asked <= 11


def test_end_is_asked_with_the_credentials_of_now(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster tells how a Job's run ended; a coordinator that was away has a copy of credentials that have ended."""
    end, campaign = machine.end, begun(machine)
    copy = campaign.attempt("b", 0).with_name("kubeconfig")

    def told(attempt: Path) -> CommandEnd | None:
        if attempt.parent.name == "b" and "of-now" not in copy.read_text():
            raise UsageError("its cluster's journals can't be read: Unauthorized")
        return end(attempt)

    monkeypatch.setattr(machine, "end", told)
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["b"].problem == "unknown")
    write_kubeconfig(machine.folder / "clusters/b", token="of-now")
    look_until(one, lambda state: state.clusters["b"].phase == "succeeded")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_while_an_end_is_written_down(machine: Machine, after: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The credentials with which a cluster tells how its run ended are there until the journal has that end; then they
    are not.
    """
    end, campaign = machine.end, begun(machine)
    copy = campaign.attempt("a", 0).with_name("kubeconfig")
    told: list[bool] = []

    def tells(attempt: Path) -> CommandEnd | None:
        told.append(copy.exists())
        return end(attempt)

    def killing(journal: Journal, event: object) -> None:
        if isinstance(event, ClusterEnded) and not after:
            raise Killed
        EMIT(journal, event)

    monkeypatch.setattr(machine, "end", tells)
    monkeypatch.setattr(Journal, "emit", killing)
    if not after:
        with pytest.raises(Killed):
            coordinator(machine, campaign).run(lambda *_: None)
        monkeypatch.setattr(Journal, "emit", EMIT)
    look_until(coordinator(machine, campaign), lambda state: state.clusters["a"].phase == "succeeded")
    assert told and all(told) and not copy.exists()


def test_run_that_can_not_be_started(machine: Machine) -> None:
    """A start that fails is that cluster's, is tried again three times, and ends nothing else."""
    campaign = begun(machine)
    machine.unwritable = {"b"}
    decision, state = coordinator(machine, campaign).run(lambda *_: None)
    assert phases(campaign) == {"a": "succeeded", "b": "interrupted", "c": "succeeded"}
    assert "No space left on device" in state.clusters["b"].reason and not state.clusters["b"].active
    assert "maxFailures.interrupted" in decision.stop and state.clusters["b"].attempt == 4


def test_resume_that_can_not_be_started(machine: Machine) -> None:
    """The run is still open."""
    machine.exit_codes = {"b": [130]}
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    look_until(one, lambda state: state.clusters["b"].phase == "interrupted")
    machine.unwritable = {"b"}
    assert one.run(lambda *_: None)[1].clusters["b"].active


def test_folder_that_can_not_be_read(machine: Machine) -> None:
    """A folder with something unreadable in it keeps only its own cluster back; so does one that is gone."""
    campaign = begun(machine)
    os.mkfifo(machine.folder / "clusters/b/pipe")
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert phases(campaign) == {"a": "succeeded", "b": "waiting", "c": "succeeded"}
    assert "it is unknown whether its folder has changed" in decision.waits["b"].reason


def test_retry_of_an_unreachable_cluster(machine: Machine) -> None:
    """It is asked at once, and its time begins anew."""
    campaign = begun(machine)
    fleet = machine.folder / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace("then: skip", "then: stop"))
    (campaign.folder / "fleet.yaml").write_bytes(fleet.read_bytes())
    machine.silent = {"a"}
    decision, _ = coordinator(machine, campaign).run(lambda *_: None)
    assert decision.waits["a"].person and "upgrader fleet retry a, or" in decision.waits["a"].reason
    campaign.ask(RetryRequested("a", "me"), machine.clock)
    decision, _ = coordinator(machine, campaign).look()
    assert decision.waits["a"].until == machine.clock.now() + timedelta(minutes=3)
    machine.silent = set()
    campaign.ask(RetryRequested("a", "me"), machine.clock)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done


def test_retry_after_the_end(machine: Machine) -> None:
    """A failure that was tolerated is retried in the campaign that has ended, which then ends again."""
    machine.exit_codes = {"b": [4]}
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    decision, state = one.run(lambda *_: None)
    assert decision.done and one.over and phases(campaign)["b"] == "rolled-back"
    assert one.look()[0].done and one.look()[1].ended == state.ended
    campaign.ask(RetryRequested("b", "me"), machine.clock)
    again = coordinator(machine, campaign)
    assert not again.over
    finished, _ = again.run(lambda *_: None)
    assert finished.done and coordinator(machine, campaign).over and machine.begun == {"a": 1, "b": 2, "c": 1}


def test_skipped_in_the_middle_of_a_run(machine: Machine) -> None:
    """A cluster that is left out with an open run isn't forgotten: its retry resumes the run."""
    machine.exit_codes = {"b": [130, 130, 130, 130]}
    campaign = begun(machine)
    coordinator(machine, campaign).run(lambda *_: None)
    campaign.ask(ClusterSkipped("b", "me", "I look at it"), machine.clock)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done
    campaign.ask(RetryRequested("b", "me"), machine.clock)
    assert coordinator(machine, campaign).run(lambda *_: None)[0].done
    assert machine.commands[-1][-1] == "--resume" and phases(campaign)["b"] == "succeeded"


@pytest.mark.parametrize("how", ["rollback", "leave-out", "killed", "other cluster"])
def test_open_run_of_a_skipped_cluster_is_ended_by_hand(machine: Machine, how: str) -> None:
    """The coordinator sees in the cluster's journals that a person has ended it, or that a later run builds on it and
    has ended, or was killed, so that it can't be resumed or rolled back; the cluster stays left out, and holds no
    place.
    """
    machine.exit_codes = {"b": [130, 130, 130, 130]}
    campaign = begun(machine)
    coordinator(machine, campaign).run(lambda *_: None)
    campaign.ask(ClusterSkipped("b", "me", "I look at it"), machine.clock)
    one = coordinator(machine, campaign)
    assert one.look()[1].clusters["b"].active
    run = one.look()[1].clusters["b"].run
    folder = machine.folder / "clusters/b"
    if how == "rollback":
        journal = Journal.reopen(folder / "runs" / run / JOURNAL, machine.clock)
        EMIT(journal, RunEnded(run, "rolled-back", 1.0))
        journal.close()
    elif how == "leave-out":
        write_later(folder, RunKind.RENEW_CERTIFICATES)
        machine.clock.sleep(61)
        assert one.look()[1].clusters["b"].active, "nothing of the upgrade depends on certificates"
        write_later(folder, RunKind.LEAVE_OUT_CONTROLLER, "20260102T000000-later", ended=False)
        machine.at_work = "its lock is held"
        machine.clock.sleep(61)
        assert one.look()[1].clusters["b"].active, "the later run is in progress"
        write_later(folder, RunKind.LEAVE_OUT_CONTROLLER, "20260103T000000-later")
    else:
        write_later(folder, RunKind.ADOPT, "20260102T000000-later", ended=False)
        if how == "killed":
            machine.at_work = "it is unknown whether it is in progress"
        else:
            machine.answers["b"] = machine.answers["c"]
        machine.clock.sleep(61)
        assert one.look()[1].clusters["b"].active, "nothing says that the adoption isn't in progress"
        machine.at_work, machine.answers["b"] = "", Answer("u2", TARGET)
    machine.clock.sleep(61)
    b = one.look()[1].clusters["b"]
    assert (b.phase, b.active, b.reason) == ("skipped", False, "I look at it")


def test_run_that_hangs(machine: Machine) -> None:
    """A process that lives and writes nothing is named after an hour, with since when and what to do; the coordinator
    doesn't wait for it forever, and one line ends the alarm.
    """
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    one.look()
    machine.processes = dict.fromkeys(machine.processes, 10**6)
    machine.written = machine.clock.now()
    machine.clock.sleep(SILENT_SECONDS - 1)
    one.look()
    assert machine.signs == 0, "it can't be silent for an hour yet: a Job isn't asked for its log"
    decision, state = one.run(lambda *_: None)
    assert state.clusters["a"].problem == "silent" and decision.stages["canary"] == Wait("an operator: a", person=True)
    said = decision.waits["a"].reason
    assert f"process 7 has written nothing since {machine.written:%Y-%m-%d %H:%M}Z" in said and "clusters/a/1" in said
    assert (machine.clock.now() - machine.written).total_seconds() < SILENT_SECONDS + 60
    machine.written = machine.clock.now()
    decision, state = one.look()
    assert state.clusters["a"].problem == "" and decision.waits == {}


def test_few_runs_begin_in_one_look(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others that may begin wait for the next look, so that ends and requests don't wait for all of them; each begins
    once, and none is forgotten.
    """
    monkeypatch.setattr(module, "_STARTS_A_LOOK", 1)
    begun_by_then = [0]
    one = coordinator(machine, begun(machine))
    one.run(lambda *_: begun_by_then.append(machine.begun.total()))
    assert {later - earlier for earlier, later in pairwise(begun_by_then)} == {0, 1}
    assert machine.begun == {"a": 1, "b": 1, "c": 1}


def test_runs_that_can_not_go_on_keep_no_other_from_its_turn(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few that begin in one look: an interrupted run whose cluster's folder hangs is tried again in each of them."""
    monkeypatch.setattr(module, "_STARTS_A_LOOK", 1)
    before_resume = Questions.before_resume

    def hangs(self: Questions, cluster: FleetCluster, digest: str, goal: Goal) -> Found:
        if cluster.name == "b":
            return Found("unreachable", "its folder has not answered")
        return before_resume(self, cluster, digest, goal)

    monkeypatch.setattr(Questions, "before_resume", hangs)
    machine.exit_codes = {"b": [130], "c": [130]}
    one = coordinator(machine, begun(machine))
    for _ in range(20):
        one.look()
        machine.clock.sleep(60)
    assert machine.begun == {"a": 1, "b": 1, "c": 2}


def test_runs_begin_side_by_side(machine: Machine) -> None:
    """In one look, the start of one doesn't wait for the end of another's, as each takes several requests."""
    both = Barrier(2, timeout=stretched(30))
    machine.at_start = dict.fromkeys("bc", both.wait)
    one = coordinator(machine, begun(machine))
    one.starting = Inquiry()
    assert one.run(lambda *_: None)[0].done
    assert machine.begun == {"a": 1, "b": 1, "c": 1} and not both.broken


@pytest.mark.parametrize("fails", [False, True])
def test_start_that_hangs(machine: Machine, fails: bool) -> None:
    """It delays no other, and its cluster is left as it is until the start has ended: nothing is begun beside it, and
    after five minutes it is named. If it fails in the end, it is tried again.
    """
    hangs, campaign = Event(), begun(machine)
    machine.at_start["b"] = hangs.wait
    machine.unwritable = {"b"} if fails else set()
    one = coordinator(machine, campaign)
    one.starting = Inquiry(seconds=0.1)
    state = look_until(one, lambda state: state.clusters["c"].phase == "succeeded")
    assert machine.begun == {"a": 1, "c": 1} and state.clusters["b"].phase == "running"
    assert goes_on(*one.look()) and one.look()[1].clusters["b"].problem == ""
    machine.clock.sleep(300)
    assert one.look()[1].clusters["b"].problem_reason.endswith("its start has not ended within 300 s")
    hangs.set()
    until("the start to end", lambda: not one.starting.asks("b"), timeout_seconds=60)
    if fails:
        state = look_until(one, lambda state: state.clusters["b"].phase == "interrupted")
        assert "No space left on device" in state.clusters["b"].reason
        machine.unwritable = set()
        machine.clock.sleep(3600)
    assert one.run(lambda *_: None)[0].done
    assert machine.begun == {"a": 1, "b": 1, "c": 1} and campaign.state().clusters["b"].attempt == 1 + fails


def test_start_that_surprises(machine: Machine) -> None:
    """Whatever goes wrong with it is its cluster's, and ends nothing else; whether it runs, the executor says."""
    machine.at_start["b"] = lambda: 1 // 0
    one = coordinator(machine, begun(machine))
    state = look_until(one, lambda state: state.clusters["b"].problem == "unknown")
    assert "ZeroDivisionError" in state.clusters["b"].problem_reason
    machine.at_start.clear()
    assert one.run(lambda *_: None)[0].done
    assert machine.begun == {"a": 1, "b": 1, "c": 1}


def test_program_is_read_once_for_clusters_that_begin_together(machine: Machine) -> None:
    """Its files are hundreds: before each look's first run they are read, and not again between that and the others."""
    one, begun_at_reads = coordinator(machine, begun(machine)), list[int]()

    def pins() -> Pins:
        begun_at_reads.append(machine.begun.total())
        return PINS

    one.pins = pins
    one.run(lambda *_: None)
    assert machine.begun == {"a": 1, "b": 1, "c": 1}
    assert set(begun_at_reads) >= {0, 1} and 2 not in begun_at_reads


def test_program_that_changes_just_after_a_look_has_read_it(machine: Machine) -> None:
    """A new program, or a chart in it, reaches no cluster: it is read again once the clusters have answered."""
    campaign = begun(machine)
    machine.at_ask["a"] = lambda: setattr(machine, "pins", Pins("1", "edited", "p"))
    decision, _ = coordinator(machine, campaign).look()
    assert machine.begun == {}
    machine.clock.sleep(60)
    decision, _ = coordinator(machine, campaign).look()
    assert "the charts of upgrader 1 have changed" in decision.stop


def test_log_of_a_run_that_writes_is_read_once_an_hour(machine: Machine) -> None:
    """A run that wrote something ten minutes ago can't be silent for an hour before fifty more have passed."""
    campaign = begun(machine)
    one = coordinator(machine, campaign)
    one.look()
    machine.processes = dict.fromkeys(machine.processes, 10**6)
    for _ in range(30):
        machine.clock.sleep(600)
        machine.written = machine.clock.now()
        assert one.look()[1].clusters["a"].problem == ""
    assert machine.signs == 5


def test_newest_campaign_is_told_without_a_clock(machine: Machine) -> None:
    """A campaign that a clock which was ahead has named isn't the newest for a year; one whose journal is damaged isn't
    passed over.
    """
    first = begun(machine)
    (first.folder.parent / "20991231T000000-fleet-v1.37.1").mkdir()
    names = ["20991231T000001-fleet-v1.37.1", "20260101T000001-fleet-v1.37.1", "20260101T000000-fleet-v1.37.2"]
    for name in names:
        started = CampaignStarted(name, TARGET, PINS, (), "me")
        newest, journal = begin(machine.folder, started, fleet_files(machine.folder), machine.clock)
        journal.close()
        assert newest_campaign(machine.folder) == newest
    (first.folder / JOURNAL).write_bytes(b"{}\n")
    assert newest_campaign(machine.folder) == first
