"""What is printed once: errors, findings, plans, reports."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.text import Text

from testkit.terminal import Terminal
from tests.unit.cli.ui.conftest import text
from upgrader.app.doctor import Symptom
from upgrader.cli.ui.comparison import print_comparison
from upgrader.cli.ui.doctor import print_symptoms
from upgrader.cli.ui.errors import print_error
from upgrader.cli.ui.findings import draw_findings, on_screen
from upgrader.cli.ui.plan import print_plan
from upgrader.cli.ui.plan_markdown import plan_markdown
from upgrader.cli.ui.proposed_steps import print_steps
from upgrader.cli.ui.runs import print_history, print_rollback_order
from upgrader.cli.ui.summary import print_report
from upgrader.cli.ui.terminal import console, duration, filled, milliseconds, show
from upgrader.engine.history.past_runs import PastRun
from upgrader.engine.state.run_state import GateState, RecoveryState, RunState, StepState
from upgrader.errors import ConfigError, StepFailed
from upgrader.model.event import AvailabilityMeasured
from upgrader.model.finding import Finding
from upgrader.model.outcome import RunOutcome
from upgrader.model.release import EtcdBefore, NodeBefore, ReleaseSpec, RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.reporting.report.comparison import Comparison, Row
from upgrader.steps.plan import Plan
from upgrader.steps.plan_document import Emulation, PlanDocument
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.step_document import ObjectChange

DIFF = "--- now\n+++ planned\n@@ -1 +1 @@\n-image: a:v1\n+image: a:v2"
POD = "{{kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: a, image: docker.io/a:v{}}}]}}}}"
PLAN = Plan(
    KubernetesVersion(1, 36, 3),
    KubernetesVersion(1, 37, 1),
    (
        PlannedRelease(
            ReleaseSpec("kube-apiserver", "kube-system", Path("/charts/kube-apiserver")),
            "upgrade",
            "a:v1 → a:v2 (1 object)",
            POD.format("1"),
            POD.format("2"),
            (ObjectChange("Deployment kube-system/kube-apiserver", "changed", DIFF),),
            revision=4,
        ),
        PlannedPlaybook(Path("/c/playbooks/smoke.yml")),
    ),
)


def test_an_error_says_what_and_what_to_do() -> None:
    """Message, details on lines of their own, remedy; log lines with brackets are not taken for markup."""
    out = io.StringIO()
    print_error(StepFailed("pod crashed\n[red]panic[/red]\n  at 0x0", remedy="Fix it."), out)
    assert out.getvalue().splitlines() == [
        "Error: pod crashed",
        "       [red]panic[/red]",
        "         at 0x0",
        "Remedy: Fix it.",
        "More: upgrader explain StepFailed",
    ]


def test_an_error_is_never_broken_into_lines() -> None:
    """A long path stays in one piece, so that it can be copied and searched for."""
    out = io.StringIO()
    print_error(ConfigError("x" * 500), out)
    assert out.getvalue() == f"Error: {'x' * 500}\n"


def test_an_error_on_a_terminal_is_whole() -> None:
    """Nothing is cut off at its width, no word is broken in its middle, and a command has no line end in it."""
    terminal = Terminal()
    words = " ".join(f"word{number}" for number in range(60))
    print_error(StepFailed(f"it failed\n{words}", remedy=f"Type: ls {words}"), terminal)  # type: ignore[arg-type]
    shown = " ".join(" ".join(terminal.lines).split())
    assert f"Error: it failed {words} Remedy: Type: ls {words} More:" in shown
    assert all(not line or line.startswith(("Error", "Remedy", "More", " " * 7 + "w")) for line in terminal.lines)


@pytest.mark.parametrize("deeper", [2, 6])
def test_an_indented_detail_keeps_its_indentation_where_it_is_wrapped(deeper: int) -> None:
    """The lines of one detail stand below each other, so the next detail is told from them."""
    terminal, words = Terminal(), " ".join(f"word{number}" for number in range(60))
    print_error(StepFailed(f"it failed\npod x exits\n{'':{deeper}}{words}"), terminal)  # type: ignore[arg-type]
    wrapped = [line for line in terminal.lines if "word" in line]
    assert len(wrapped) > 3 and all(line.startswith(f"{'':{7 + deeper}}word") for line in wrapped)


@pytest.mark.parametrize("lines", [5, 60])
def test_what_happened_is_seen_behind_long_details(lines: int) -> None:
    """An error that is longer than the terminal ends with what it began with; a shorter one says it once."""
    terminal = Terminal()
    details = "\n".join(f"log line {number}" for number in range(lines))
    print_error(StepFailed(f"it failed\npod x exits\n{details}", remedy="Mend it."), terminal)  # type: ignore[arg-type]
    shown = "\n".join(terminal.lines)
    assert shown.count("Error: it failed\n       pod x exits") == 1 and "Remedy: Mend it." in shown
    assert (f"log line {lines - 1}\n…\nError: it failed" in shown) is (lines > 24)


@pytest.mark.parametrize("text", ["x" * 100, f"a {'x' * 100}", "", " ", "  indented"])
def test_what_a_terminal_must_break_is_left_to_it(text: str) -> None:
    """A path that is longer than a line is copied as one."""
    assert filled(Text(text), console(Terminal()), 7).plain == text  # type: ignore[arg-type]


NAME = "a-release-of-a-name-that-is-as-long-as-half-a-line"
LONG = "it does this, " * 12


def test_steps_keep_their_names_and_columns_on_a_terminal() -> None:
    """However long a step's summary is: its name is in one piece, and the summary's lines stand below each other."""
    terminal = Terminal()
    step = SimpleNamespace(name=NAME, summary=lambda: LONG)
    print_steps(SimpleNamespace(steps=[SimpleNamespace(step=step)]), (), terminal)  # type: ignore[arg-type]
    (first,) = (line for line in terminal.lines if NAME in line)
    indent = first.index("it does")
    assert all(
        line.index("it does") == indent or line.startswith(" " * indent) for line in terminal.lines if "it" in line
    )


def test_what_belongs_to_a_plan_hangs_below_its_first_word() -> None:
    """The emulation of a plan, and what it doesn't cover, keep their indents on a terminal of 80 columns."""
    terminal = Terminal()
    emulation = Emulation("1.36", begins=True, not_covered=(LONG,))
    document = replace(PlanDocument.of(PLAN, [], {}), emulation=emulation, steps=())
    print_plan(document, diff=False, stream=terminal)  # type: ignore[arg-type]
    lines = list(terminal.lines)
    first = next(number for number, line in enumerate(lines) if "not covered" in line)
    assert lines[first + 1].startswith("     ") and lines[first + 1].strip()
    begun = next(number for number, line in enumerate(lines) if "Emulation:" in line)
    assert lines[begun + 1].startswith("   ") and lines[begun + 1].strip()


def test_commands_in_a_remedy_name_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the operator has to type it from where they are; prose, other programs and `upgrader explain` stay."""
    monkeypatch.chdir(tmp_path)
    error = StepFailed("x", remedy="`upgrader run --to v1`, as upgrader needs it; upgrader plans; ls a/upgrader run")
    error.folder = tmp_path / "my cluster"
    out = io.StringIO()
    print_error(error, out, commands=["run", "plan"])
    assert out.getvalue().splitlines()[1:] == [
        "Remedy: `upgrader -C 'my cluster' run --to v1`, as upgrader needs it; upgrader plans; ls a/upgrader run",
        "More: upgrader explain StepFailed",
    ]
    error.folder = tmp_path
    out = io.StringIO()
    print_error(error, out, commands=["run"])
    assert "`upgrader run --to v1`" in out.getvalue()


@pytest.mark.parametrize(("number", "below", "seen"), [(3, 0, True), (3, 8, False), (20, 0, False)])
def test_a_list_is_on_the_screen_where_it_and_the_error_fit(
    number: int, below: int, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal of 24 rows a short list stays, and a long one scrolls out."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    findings = [Finding(f"a.{each}", "error", "it is wrong", "because", "mend it") for each in range(number)]
    assert on_screen(findings, Terminal(), below=below) is seen  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("listed", "error"), [(io.StringIO, io.StringIO), (io.StringIO, Terminal), (Terminal, io.StringIO)]
)
def test_a_log_has_no_screen(
    listed: type[io.StringIO], error: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is what is read first, so the error there says all; also in colours, and where it has the error alone."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(sys, "stderr", error())
    assert not on_screen([Finding("a.b", "error", "it is wrong")], listed())


def test_findings_come_worst_first() -> None:
    """Errors are on top, each with its id, its reason and its remedy."""
    shown = text(
        draw_findings(
            [
                Finding("b.warning", "warning", "a warning"),
                Finding("a.error", "error", "an error", "because\nof this", "do that"),
            ]
        )
    )
    assert shown.splitlines() == [
        " ✘ error    an error  a.error",
        "            because",
        "            of this",
        "            Remedy: do that",
        " ! warning  a warning  b.warning",
    ]


def test_no_findings_are_said_too() -> None:
    """An empty list could mean that nothing was checked."""
    assert "ready to run" in text(draw_findings([]))


def test_a_downgrade_is_called_so() -> None:
    """Helm upgrades a release to whatever is asked for; the plan to an older version says in its title what it is."""
    out = io.StringIO()
    back = replace(PLAN, current=PLAN.target, target=PLAN.current)
    print_plan(PlanDocument.of(back, [], {}), diff=False, stream=out)
    assert "v1.37.1 → v1.36.3  a downgrade" in out.getvalue()
    assert "~ change" in out.getvalue() and "~ upgrade" not in out.getvalue()
    shown = plan_markdown(PlanDocument.of(back, [], {}))
    assert "v1.37.1 → v1.36.3 (a downgrade)" in shown and "| change |" in shown


@pytest.mark.parametrize("diff", [False, True])
def test_a_plan_shows_every_step(diff: bool) -> None:
    """Versions, steps and what each changes; the diff only when it is asked for."""
    out = io.StringIO()
    print_plan(PlanDocument.of(PLAN, [], {"kube-apiserver": 42.0}), diff=diff, stream=out)
    shown = out.getvalue()
    assert "Kubernetes v1.36.3 → v1.37.1" in shown
    assert " ~ upgrade   kube-apiserver  a:v1 → a:v2 (1 object)" in shown
    assert "docker.io/a: v1 → v2\n" in shown and "undo: rollback to revision 4; took 42 s in earlier runs\n" in shown
    assert " > playbook  smoke           smoke.yml" in shown
    assert " Point of no return: smoke; once it has started" in shown
    assert ("+image: a:v2" in shown) is diff
    assert all(line == line.rstrip() for line in shown.splitlines()), "a log's lines don't end in spaces"


def test_a_report_shows_outcome_steps_and_availability() -> None:
    """The end of a run on one page: its outcome, each step, what clients saw, where the report is."""
    state = RunState(
        run="x",
        target=KubernetesVersion(1, 37, 1),
        outcome="rolled-back",
        seconds=75.0,
        steps=(
            StepState("pod-checkpointer", "passed", "unchanged", seconds=12.0, gates=(GateState("g", "passed", 1.0),)),
            StepState("kube-apiserver", "undone", "a:v1 → a:v2", seconds=34.0, undo_seconds=11.0),
            StepState("kubernetes", "applying", "b:v1 → b:v2"),
        ),
        recoveries=(RecoveryState("succeeded", datetime(2026, 1, 1, tzinfo=UTC), "connection refused", 12.0),),
        availability=AvailabilityMeasured(1234, 1, 3, 310.0, failures=("12:00 kept GET /version: closed",)),
    )
    out = io.StringIO()
    print_report(state, Path("/c/runs/x"), out)
    shown = out.getvalue()
    assert "↶ upgrade to v1.37.1 failed and was rolled back in 1 min 15 s" in shown
    assert " ✔ pod-checkpointer  1 gate  12 s" in shown
    assert "45 s  rolled back: a:v1 → a:v2" in shown
    assert " ? kubernetes" in shown and "interrupted while being applied: b:v1 → b:v2" in shown
    assert "1,234 requests · 1 failed (3 at the first try) · longest gap 310 ms" in shown
    assert "recovered over SSH in 12 s (connection refused)" in shown
    assert "12:00 kept GET /version: closed" in shown
    assert "/c/runs/x/report.html" in shown


def test_rollback_on_request_is_no_failure() -> None:
    """A run that had succeeded, and was taken back, hadn't failed; one that had failed still has."""
    state = RunState(
        run="x", target=KubernetesVersion(1, 37, 1), outcome="rolled-back", seconds=9.0, rollback_by="anna"
    )
    out = io.StringIO()
    print_report(state, Path("/c"), out)
    assert "upgrade to v1.37.1 was rolled back as requested; total time 9.0 s" in out.getvalue()
    out = io.StringIO()
    print_history([PastRun(Path("/c/runs/x"), state)], stream=out)
    assert out.getvalue().split("  ")[1] == "↶ was rolled back as requested"
    out = io.StringIO()
    failed = StepState("a", "undone")
    print_report(replace(state, steps=(failed,), failure=failed), Path("/c"), out)
    assert "failed and was rolled back in" in out.getvalue()


def test_reasons_of_the_history_are_read_on_a_narrow_terminal() -> None:
    """A reason has the whole width below its run; through a pipe, each run is one line."""
    failed = StepState("a", "undone")
    words = " ".join(f"word{number}" for number in range(20))
    state = RunState(outcome="rolled-back", seconds=9.0, reason=words, steps=(failed,), failure=failed)
    runs = [PastRun(Path("/c/runs/x"), state), PastRun(Path("/c/runs/y"), RunState(outcome="succeeded", seconds=100.0))]
    terminal = Terminal()
    print_history(runs, stream=terminal)  # type: ignore[arg-type]
    shown = [line for line in terminal.lines if line]
    assert len(shown) == 4 and shown[0].startswith("x  ↶ failed") and shown[3].startswith("y  ✔ succeeded")
    assert " ".join(" ".join(shown[1:3]).split()) == words
    out = io.StringIO()
    print_history(runs, stream=out)
    assert len(out.getvalue().splitlines()) == 2


def test_comparison_fits_a_narrow_terminal() -> None:
    """Names of runs, times and differences are whole on 80 columns: none ends with dots."""
    runs = ("20260101T000000-v1.37.1", "20260102T000000-v1.37.1")
    row = Row("kube-apiserver", (33.0, 20.0), ("passed", "failed, rolled back"))
    terminal = Terminal()
    print_comparison(Comparison(runs, (row,), ("0 of 1", "0 of 1"), ("1 ms", "2 ms")), terminal)  # type: ignore[arg-type]
    shown = "\n".join(terminal.lines)
    assert "…" not in shown and "-13 s" in shown and shown.count("v1.37.1") == 2 and "rolled back" in shown


def test_symptoms_keep_their_columns_on_a_narrow_terminal() -> None:
    """What is longer than a line goes on below its beginning, and no word is broken; through a pipe it is one line."""
    remedy = " ".join(f"word{number}" for number in range(20))
    terminal = Terminal()
    print_symptoms([Symptom("known_hosts", "error", "has no key of a\nnor of b", remedy)], terminal)  # type: ignore[arg-type]
    shown = [line for line in terminal.lines if line]
    assert [line[:21].strip() for line in shown] == ["error   known_hosts", "", "", "", ""]
    assert " ".join(line[21:] for line in shown) == f"has no key of a nor of b Remedy: {remedy}"
    out = io.StringIO()
    print_symptoms([Symptom("disk", "ok", "much", remedy)], out)
    assert out.getvalue().splitlines()[1].endswith(f"Remedy: {remedy}")


@pytest.mark.parametrize("outcome", ["succeeded", "rolled-back", "failed", "interrupted"])
def test_every_outcome_has_its_words(outcome: RunOutcome) -> None:
    """Every outcome of a run has a headline."""
    out = io.StringIO()
    print_report(RunState(target=KubernetesVersion(1, 37, 1), outcome=outcome), Path("/c"), out)
    assert "v1.37.1" in out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.42, "0.4 s"), (9.99, "10.0 s"), (42, "42 s"), (185, "3 min 05 s"), (3725, "1 h 02 min")]
)
def test_durations_read_well(seconds: float, shown: str) -> None:
    """Times have the precision that fits their size."""
    assert duration(seconds) == shown


def test_milliseconds_turn_into_seconds() -> None:
    """Short gaps are in milliseconds, long ones in seconds."""
    assert (milliseconds(140.4), milliseconds(2300)) == ("140 ms", "2.3 s")


def test_rollback_of_nodes_says_to_which_version_they_return() -> None:
    """They have no release and no playbook of the user's, and are undone all the same."""
    old = KubernetesVersion(1, 36, 3)
    step = StepState("nodes-workers", "passed", restore_point=RestorePoint(nodes=(NodeBefore("worker-1", old),)))
    stream = io.StringIO()
    print_rollback_order([step], stream)
    assert "nodes-workers  return its nodes to kubelet v1.36.3" in stream.getvalue()


def test_rollback_of_etcd_says_to_which_image_its_members_return() -> None:
    """And that a minor that all have stays."""
    point = RestorePoint(etcd=(EtcdBefore("controller-1", "example.com/etcd:3.6.5-0", "3.6.5"),), image="x")
    stream = io.StringIO()
    print_rollback_order([StepState("etcd", "passed", restore_point=point)], stream)
    shown = " ".join(stream.getvalue().split())
    unless = "unless etcd's cluster version has changed to another minor"
    assert f"return its members to etcd example.com/etcd:3.6.5-0, {unless}" in shown


def test_what_was_shown_is_there_before_a_question() -> None:
    """Standard output may be a pipe, and questions go to standard error: what they are about isn't held back."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, write_through=False)
    show(console(stream), Text("controller-1  SHA256:mQ8"))
    assert raw.getvalue() == b"controller-1  SHA256:mQ8\n"
