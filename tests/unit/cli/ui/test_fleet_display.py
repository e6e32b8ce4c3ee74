"""The live display of a campaign: a picture that fits 80×24 for 5 clusters and for 500, and lines elsewhere."""

from __future__ import annotations

import re
import signal
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.cells import cell_len

from testkit.fakes.clock import FakeClock
from testkit.fleet_campaigns import HOSTILE, Shown, campaign_of
from testkit.terminal import COLUMNS, LINES, Terminal
from testkit.waiting import stretched
from tests.unit.cli.ui.conftest import BEGIN, looked, text
from upgrader.app.event_lines import line_of
from upgrader.cli.ui import fleet_display
from upgrader.cli.ui.fleet import print_fleet_status
from upgrader.cli.ui.fleet_display import CampaignDisplay, CampaignPicture, LiveCampaign, campaign_display
from upgrader.cli.ui.fleet_overview import Overview, overview
from upgrader.cli.ui.terminal import console, is_interactive
from upgrader.fleet.decide import Decision, Wait
from upgrader.fleet.events import Paused
from upgrader.fleet.local_executor import EVENTS
from upgrader.fleet.run_steps import RunSteps
from upgrader.fleet.state import ClusterState
from upgrader.model.outcome import pending

PROGRAM = "upgrader -C fleet"


def drawn(shown: Overview, now: datetime, width: int = COLUMNS, height: int = LINES, program: str = PROGRAM) -> str:
    doing = {each.output: "2 of 9 kube-apiserver: 0 of 1 pods are updated" for each in shown.running}
    return text(CampaignPicture(shown, doing, now, program), width=width, height=height)


def picture(campaign: Shown, width: int = COLUMNS, height: int = LINES, **changes: Any) -> str:
    return drawn(replace(overview(campaign.status, campaign.now), **changes), campaign.now, width, height)


@pytest.fixture(scope="module")
def large() -> Shown:
    return campaign_of(500)


@pytest.mark.parametrize("number", [5, 500])
def test_picture_of_a_campaign(number: int) -> None:
    """Stages, runs with their step, failures with their cause, what is next, and what to type; two lines are left."""
    shown = picture(campaign_of(number))
    lines = shown.splitlines()
    assert len(lines) <= LINES - 2 and max(map(len, lines)) <= COLUMNS
    assert lines[1].startswith(" Fleet upgrade to v1.37.1  20261130T210000-fleet-v1.37.1")
    assert lines[1].endswith("27 h 50 min")
    assert "1 of 1 done" in shown and "waits for the stages before it, then an approval" in shown
    assert "2 of 9 kube-apiserver" in shown and "15 min 00 s" in shown
    assert "↺ rolled-back  eu-central-001.example" in shown and "! unreachable" in shown
    assert " next  in " in shown and f" {PROGRAM} fleet status · {PROGRAM} fleet pause" in shown
    if number == 500:
        assert "221 of 449 done, 89 running, 3 failed, 136 waiting" in shown
        assert "135 of its clusters: waiting until 2026-12-02 21:00Z for its window" in shown
        assert "   and 84 more running" in shown
        assert "next  in 20 h 10 min  eu-central-314.example and 134 more: its window" in shown


@pytest.mark.parametrize("width", [20, 59, 80, 200])
@pytest.mark.parametrize("height", [3, 6, 10, 16, 24, 60])
@pytest.mark.parametrize("stages", [1, 40])
def test_picture_on_a_terminal_of_any_size(large: Shown, width: int, height: int, stages: int) -> None:
    """It is never wider, and leaves two lines of any terminal that has more; of many stages, it has the current one."""
    shown = overview(large.status, large.now)
    done, current, later = shown.stages
    many = (*(replace(done, name=f"early-{each}") for each in range(stages)), current, *(later,) * stages)
    lines = picture(large, width, height, stages=many).splitlines()
    assert len(lines) <= max(2, height - 2) and max(map(cell_len, lines)) <= width
    if height >= 16 and width > 20:
        assert any("production" in line for line in lines) and any("running" in line for line in lines)
        assert (stages == 1) or (height > 24) or any("stages before, done" in line for line in lines)


@pytest.mark.usefixtures("terminal")
def test_words_of_others_control_nothing() -> None:
    """Escape sequences, line breaks and tabs in names and reasons don't reach the terminal; wide letters have room."""
    evil = f"{HOSTILE}\x1b]0;owned\x07\x1b[2J\u202e\t漢字漢字" * 3
    campaign = campaign_of(5, reason=evil)
    state = campaign.status.state
    clusters = {
        name: replace(each, name=evil if each.phase == "running" else name) for name, each in state.clusters.items()
    }
    status = replace(campaign.status, state=replace(state, campaign=evil, clusters=clusters))
    status = replace(status, decision=replace(status.decision, stop=evil))
    found = overview(replace(status, decision=replace(status.decision, stages={"last": Wait(evil)})), campaign.now)
    out = StringIO()
    out.isatty = lambda: True  # type: ignore[method-assign]
    console(out).print(CampaignPicture(found, {each.output: evil for each in found.running}, campaign.now, evil))
    shown = re.sub("\x1b\\[[0-9;]*m", "", out.getvalue())
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown) and "漢" in shown
    assert "\x1b[31m" in out.getvalue(), "its own colours are there"
    assert max(map(cell_len, shown.splitlines())) <= COLUMNS and len(shown.splitlines()) <= LINES - 2


def test_clusters_that_soak() -> None:
    """A line for all that have nothing to say, and first one for each thing that keeps the soak from its end."""
    campaign = campaign_of(5)
    state, decision = campaign.status.state, campaign.status.decision
    ended = {
        f"c{each}": ClusterState(f"c{each}", "succeeded", since=campaign.now - timedelta(minutes=each))
        for each in range(5)
    }
    ended["c3"] = replace(ended["c3"], gate="errors", gate_since=campaign.now, gate_reason="0.2 is above 0.1\nmore")
    canary = campaign.status.fleet.stages[0]
    fleet = SimpleNamespace(
        stages=(replace(canary, name="soaks"),),
        members=(soaks := {"soaks": [SimpleNamespace(name=name, labels={}) for name in ended]}),
        listed=soaks,
        clusters=[SimpleNamespace(name=name, labels={}) for name in ended],
        goal=campaign.status.fleet.goal,
        expected_seconds=1800.0,
    )
    until = Wait("soak", campaign.now + timedelta(hours=2), gate="")
    status = replace(
        campaign.status,
        fleet=cast(Any, fleet),
        state=replace(state, clusters=ended),
        decision=Decision(stages={"soaks": until}, stop=decision.stop),
    )
    shown = drawn(overview(status, campaign.now), campaign.now)
    assert re.search(
        r"! c3  soak: gate errors doesn't pass: 0\.2 is above 0\.1 +3 min 00 s\n ✓ c0, c1, c2 and 1 more ", shown
    )
    assert "   soaking until 2026-12-02 02:50Z" in shown and "in 2 h 00 min  stage soaks: the end of its soak" in shown


def test_commands_of_a_picture_can_be_copied() -> None:
    """Each has the folder, quoted as a shell needs it: of an approval, of a gate, and of what is next."""
    campaign, program = campaign_of(5), "upgrader -C '/srv/my fleet'"
    approval = Wait("an approval: upgrader fleet approve last --reason TEXT", person=True)
    stop = "stage canary: gate errors of a has not passed; to check it again: upgrader fleet retry a"
    decision = replace(campaign.status.decision, stages={"last": approval}, waits={}, stop=stop)
    found = overview(replace(campaign.status, decision=decision), campaign.now, program)
    shown = drawn(found, campaign.now, width=200, program=program)
    assert f"no run starts: {stop.replace('upgrader', program)}" in shown
    assert f"   waits for an approval: {program} fleet approve last --reason TEXT" in shown
    assert "upgrader fleet" not in shown
    out = StringIO()
    print_fleet_status(replace(campaign.status, decision=decision), out, program)
    assert f"{program} fleet retry a" in " ".join(out.getvalue().split()) and "upgrader fleet" not in out.getvalue()


def test_what_needs_an_operator_is_seen() -> None:
    """Why nothing begins, and how a pause ends; after the display's end, no command is suggested."""
    campaign = campaign_of(500)
    status = replace(
        campaign.status,
        state=replace(campaign.status.state, paused=Paused("ann", "audit")),
        decision=replace(campaign.status.decision, stop="paused by ann: audit"),
    )
    found = overview(status, campaign.now)
    shown = drawn(found, campaign.now)
    assert " no run starts: paused by ann: audit\n" in shown and f"{PROGRAM} fleet resume" in shown
    assert "fleet status" not in drawn(found, campaign.now, program="")
    assert " upgrader fleet status · upgrader fleet resume" in drawn(
        found, campaign.now, program=f"upgrader -C {'x' * 60}"
    )


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("TERM", "xterm"), ("COLUMNS", str(COLUMNS)), ("LINES", str(LINES))):
        monkeypatch.setenv(name, value)
    return Terminal()


def live(campaign: Shown, terminal: Terminal, folder: Path) -> LiveCampaign:
    clock = FakeClock()
    clock.sleep((campaign.now - datetime(2026, 1, 1, tzinfo=UTC)).total_seconds())
    campaign_folder = replace(campaign.status.campaign or pytest.fail("it was begun"), folder=folder)
    return LiveCampaign(console(cast(Any, terminal)), campaign.status.fleet, campaign_folder, clock, PROGRAM)


@pytest.mark.parametrize("ended", [None, KeyboardInterrupt, RuntimeError])
def test_display_from_its_first_look_to_its_end(
    terminal: Terminal, tmp_path: Path, ended: type[BaseException] | None
) -> None:
    """Lines that stay are above the picture, also those of later looks; however it ends, the last picture stays whole,
    the cursor is there again, and what is written afterwards stands below.
    """
    campaign = campaign_of(5)
    decision, state = campaign.status.decision, campaign.status.state
    output = tmp_path / "clusters/eu-central-002.example/1" / EVENTS
    output.parent.mkdir(parents=True)
    output.write_text("".join(line_of(each, campaign.now) for each in BEGIN))
    display = live(campaign, terminal, tmp_path)

    def carried_out() -> None:
        with display:
            display.say("before")
            display.look(decision, state)
            assert terminal._screen.cursor.hidden
            assert any("1 of 2 kube-apiserver: v1.36.3 → v1.37.1" in line for line in terminal.lines)
            display.say("metrics can't be written")
            with output.open("a") as file:
                file.write(line_of(looked(pending("0 of 1 pods are updated")), campaign.now))
            name = "eu-central-003.example"
            after = {**state.clusters, name: replace(state.clusters[name], phase="running", problem="", attempt=1)}
            display.look(decision, replace(state, clusters=after))
            if ended:
                raise ended

    if ended:
        with pytest.raises(ended):
            carried_out()
    else:
        carried_out()
    terminal.write("after\n")
    assert not terminal._screen.cursor.hidden
    lines = list(terminal.lines)
    head = next(place for place, line in enumerate(lines) if line.startswith(" Fleet upgrade"))
    assert lines[head - 3 : head] == ["metrics can't be written", "eu-central-003.example: running", ""]
    assert sum(line.startswith(" Fleet upgrade") for line in lines) == 1, "one picture, in its place"
    below = lines[head:]
    assert any("▸ eu-central-002.example  1 of 2 kube-apiserver: 0 of 1 p" in line for line in below)
    assert not any("fleet status" in line for line in below) and below[below.index("after") - 1] == ""


@pytest.mark.parametrize("surroundings", [{"TERM": "dumb"}, {"NO_COLOR": "1"}, {"CI": "true"}, {}])
def test_lines_where_there_is_no_live_display(
    terminal: Terminal, surroundings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log, a CI job's terminal, and one that can't be drawn on get a line for each change, and nothing else."""
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    campaign, said = campaign_of(500), list[str]()
    of = cast(Any, SimpleNamespace(fleet=campaign.status.fleet, campaign=campaign.status.campaign, clock=FakeClock()))
    stream = cast(Any, terminal if surroundings else StringIO())
    with campaign_display(of, stream, said.append, PROGRAM) as display:
        assert type(display) is CampaignDisplay
        display.look(campaign.status.decision, campaign.status.state)
        display.look(campaign.status.decision, campaign.status.state)
    assert len(said) == 8 and said[3].endswith("eu-central-227.example and 86 more: running")
    assert not any(terminal.lines) and not any("\x1b" in line for line in said)
    assert surroundings or type(campaign_display(of, cast(Any, terminal), said.append, PROGRAM)) is LiveCampaign


def test_kill_of_a_display(terminal: Terminal, tmp_path: Path) -> None:
    """SIGTERM acts like Ctrl-C while the display is open, so that the cursor is there again; afterwards as before."""
    campaign, before = campaign_of(5), signal.getsignal(signal.SIGTERM)
    display = live(campaign, terminal, tmp_path)

    def carried_out() -> None:
        with display:
            display.look(campaign.status.decision, campaign.status.state)
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        carried_out()
    assert not terminal._screen.cursor.hidden and signal.getsignal(signal.SIGTERM) == before


def test_display_that_fails_ends_no_campaign(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours in the picture is said once; the lines go on."""
    campaign = campaign_of(5)
    decision, state = campaign.status.decision, campaign.status.state

    def fail(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(fleet_display, "overview", fail)
    with live(campaign, terminal, tmp_path) as display:
        display.look(decision, state)
        display.look(replace(decision, waits={"eu-central-004.example": Wait("its turn")}), state)
    said = " ".join(" ".join(terminal.lines).split())
    assert said.count("continues without it: ZeroDivisionError: by zero") == 1
    assert "eu-central-004.example: waiting for its turn" in terminal.lines


def test_terminal_that_takes_no_more_output(terminal: Terminal, tmp_path: Path) -> None:
    """After Ctrl-S, and while a connection hangs, what redraws the picture waits in the middle of it. The campaign goes
    on, and what it has said meanwhile is written later, in its order.
    """
    campaign = campaign_of(5)
    decision, state = campaign.status.decision, campaign.status.state

    def look() -> None:
        display.look(replace(decision, waits={"eu-central-004.example": Wait("its turn")}), state)
        display.say("metrics can't be written")

    with live(campaign, terminal, tmp_path) as display:
        display.look(decision, state)
        with display._live._lock:
            looking = threading.Thread(target=look, daemon=True)
            looking.start()
            looking.join(stretched(20))
            assert not looking.is_alive()
    lines = list(terminal.lines)
    first = lines.index("eu-central-004.example: waiting for its turn")
    assert lines[first + 1] == "metrics can't be written" and lines[first + 3].startswith(" Fleet upgrade")


def test_picture_that_fails_between_two_looks(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours while it is redrawn writes no traceback over it, and the next look says it, also without news."""
    campaign = campaign_of(5)
    decision, state = campaign.status.decision, campaign.status.state
    crashes = list[object]()
    monkeypatch.setattr(threading, "excepthook", crashes.append)
    monkeypatch.setattr(fleet_display, "_A_SECOND", 1000.0)
    with live(campaign, terminal, tmp_path) as display:
        display.look(decision, state)

        def fail(*_: object) -> str:
            failed.set()
            raise ZeroDivisionError("by zero")

        failed = threading.Event()
        monkeypatch.setattr(RunSteps, "doing", fail)
        assert failed.wait(stretched(60))
        with display._live._lock:  # the one that redraws has let go of it
            pass
        display.look(decision, state)
        display.look(decision, state)
    assert not crashes
    said = " ".join(" ".join(terminal.lines).split())
    assert said.count("continues without it: ZeroDivisionError: by zero") == 1


@pytest.mark.parametrize("encoding", ["iso-8859-1", "ascii", "koi8-r", "utf-8", None])
def test_terminal_without_the_signs_of_a_picture(
    terminal: Terminal, encoding: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sign that it can't show would be six others, and no row would be where the next picture expects it."""
    monkeypatch.setattr(terminal, "encoding", encoding, raising=False)
    assert is_interactive(cast(Any, terminal)) == (encoding in ("utf-8", None))
