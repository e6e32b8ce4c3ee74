"""The side-by-side benchmark: what it counts, and what its page and picture show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from bench.sidebyside.helm import message_of
from bench.sidebyside.kubeadm import announced
from bench.sidebyside.observe import anonymous_bytes
from bench.sidebyside.page import Circumstances, page, ratio, spread
from bench.sidebyside.plot import picture, typical
from bench.sidebyside.trial import BAD_FLAG_PUSHED, UPGRADE, Mark, Seen, Trial, per_second
from bench.sidebyside.ways import WAYS, journal_marks
from tests.unit.bench.tables import row, rows
from upgrader.errors import ApiError

TITLES = {"kubeadm": "(a) kubeadm", "charts": "bare Helm", "run": "(d) run"}
WHERE = Circumstances("2026-11-21", ("bench --repeat 1", "bench --add"), 2, 50, 180, "tmpfs", {"Helm": "v4"})


def trial(way: str, seconds: float | None = 100.0, *, failed: int = 0, what: str = UPGRADE) -> Trial:
    """A trial of a way that took so long and cost so many requests."""
    seen = Seen(requests=1000, failed=failed, raw_failed=failed + 1, longest_gap_ms=failed * 20.0)
    return Trial(way, what, 1, 0.5, seconds, seconds, seen=seen)


def shown(trials: Sequence[Trial]) -> str:
    """The page of these trials."""
    return page(WHERE, TITLES, trials, "zero-outage.svg")


def test_remarks_are_on_the_page() -> None:
    """Hand-written remarks follow the circumstances each time the page is written."""
    text = page(WHERE, TITLES, [trial("run")], "zero-outage.svg", "The first round was ended.\n")
    assert text.index("## Circumstances") < text.index("The first round was ended.\n\n## How it was measured")


def test_a_hang_is_seen_although_all_was_answered_later() -> None:
    """Answers count in the second in which they came: a second without answers is 0, whatever follows."""
    assert per_second([(1.0, 50), (2.0, 50), (3.0, 150)]) == (50.0, 0.0, 100.0)


def test_reports_between_whole_seconds_are_shared_out() -> None:
    """Counts at irregular times give an even rate, and an incomplete last second is left out."""
    assert per_second([(0.75, 30), (1.25, 50), (2.25, 90)]) == (40.0, 40.0)
    assert per_second([]) == ()


def test_memory_excludes_caches() -> None:
    """Both versions of control groups give the anonymous memory, children included where there are any."""
    assert anonymous_bytes("cache 900\nrss 1\ntotal_cache 990\ntotal_rss 70") == 70
    assert anonymous_bytes("anon 71\nfile 900") == 71


def test_spread_of_equal_or_missing_values() -> None:
    """A median with least and most; equal values as one; no value is a dash, never a zero."""
    assert spread([3.0, 1.0, 20.0]) == "3 (1–20)"
    assert spread([2.0, 2.0]) == "2"
    assert spread([None]) == "–"


def test_ratio_needs_both_sides() -> None:
    """The overhead compares medians of upgrades only, and is missing if one side is."""
    runs = [trial("run", seconds) for seconds in (110.0, 120.0, 500.0)]
    bad = trial("run", 900.0, what=BAD_FLAG_PUSHED)
    assert ratio([*runs, bad, trial("charts", 100.0)], "run", "charts") == pytest.approx(1.2)
    assert ratio(runs, "run", "charts") is None
    assert ratio([trial("run", None), trial("charts")], "run", "charts") is None


def test_page_shows_each_way_with_its_number_of_trials() -> None:
    """A way has one row for all its trials; a way without trials has none."""
    text = shown([trial("run"), trial("run", failed=2), trial("kubeadm", failed=400)])
    kubeadm, run = rows(text)
    assert (kubeadm["way"], kubeadm["failed"], kubeadm["n"]) == ("(a) kubeadm", "400", "1")
    assert (run["way"], run["failed"], run["n"]) == ("(d) run", "1 (0–2)", "2")
    assert "bare Helm" not in text


def test_page_names_every_command_that_measured() -> None:
    """The page lists every command that measured, also for trials that were added later."""
    text = shown([trial("run")])
    assert "$ bench --repeat 1\n$ bench --add\n" in text
    assert "Nodes' disks on tmpfs" in text


def test_a_failed_upgrade_has_no_times() -> None:
    """The times of a failed upgrade are a dash, and its note has the reason."""
    text = shown([replace(trial("run", None), note="FAILED: it hung")])
    run = row(text, "(d) run")
    assert (run["wall time, s"], run["all done, s"]) == ("–", "–")
    assert "FAILED: it hung" in text


def test_page_warns_of_a_busy_machine() -> None:
    """The page warns only if the machine was busy before the trials began."""
    assert "The machine was busy" in shown([replace(trial("run"), load_average=24.0)])
    assert "The machine was busy" not in shown([trial("run")])


def test_page_names_who_fixed_a_bad_flag() -> None:
    """The page says who fixed a bad flag, and counts them where trials differ."""
    by_operator = replace(trial("kubeadm", 210.0, what=BAD_FLAG_PUSHED), fixed_by="an operator")
    by_itself = replace(by_operator, fixed_by="kubeadm itself")
    assert "(a) kubeadm: an operator (2×); kubeadm itself (1×)" in shown([by_operator, by_itself, by_operator])
    assert "(a) kubeadm: an operator\n" in shown([by_operator])
    assert "(a) kubeadm: not fixed in the time" in shown([replace(by_operator, fixed_by="", done_seconds=None)])


def test_sections_by_number_of_controllers() -> None:
    """Trials with one and with three controllers have separate sections."""
    text = shown([trial("run"), replace(trial("run", failed=9), controllers=3)])
    one, three = text.split("## 3 controllers")
    assert "## One controller" in one
    assert row(one, "(d) run")["failed"] == "0" and row(three, "(d) run")["failed"] == "9"


def test_picture_shows_the_trial_in_the_middle() -> None:
    """The picture shows the middle trial of a way, not its best or worst."""
    trials = [trial("run", failed=failed) for failed in (9, 0, 3)]
    assert typical(trials).seen.failed == 3
    assert typical(trials[:2]).seen.failed == 0


def test_picture_marks_steps_and_shows_what_was_lost() -> None:
    """The SVG is well-formed, names every step, and shows a second without answers as 0."""
    seen = Seen(requests=150, failed=50, answered=(50.0, 0.0, 50.0), marks=(Mark(1.0, "a & b"), Mark(2.5, "next")))
    root = ET.fromstring(picture({"(d) `run` <x>": replace(trial("run"), seen=seen)}, 50.0))
    space = "{http://www.w3.org/2000/svg}"
    texts = [element.text or "" for element in root.iter(f"{space}text")]
    assert {"a & b", "next"} <= set(texts)
    assert "(d) run <x>: 50 of 150 requests failed, longest gap 0.0 s" in texts
    (lost,) = [element for element in root.iter(f"{space}rect") if element.get("class") == "lost"]
    ground = float(lost.get("y", "")) + float(lost.get("height", ""))
    (good,) = root.iter(f"{space}path")
    heights = [float(point.split(",")[1]) for point in good.get("d", "").replace(" Z", "").split()]
    assert heights[3:5] == [ground, ground]
    assert heights[1] == heights[5] == float(lost.get("y", ""))


def test_steps_of_a_run_are_marked_at_the_times_of_its_journal() -> None:
    """The start of a step or an undo becomes a mark; other lines don't."""
    lines = [
        {"type": "StepStarted", "time": "1970-01-01T00:00:10Z", "data": {"step": "kube-apiserver"}},
        {"type": "GateChecked", "time": "1970-01-01T00:00:11Z", "data": {"step": "kube-apiserver"}},
        {"type": "UndoStarted", "time": "1970-01-01T00:00:12.5Z", "data": {"step": "kube-apiserver"}},
    ]
    assert journal_marks(lines) == [Mark(10.0, "kube-apiserver"), Mark(12.5, "undo kube-apiserver")]


def test_kubeadm_announces_what_it_replaces() -> None:
    """Only the line that announces a component's replacement marks it."""
    assert announced('[upgrade/staticpods] Preparing for "kube-apiserver" upgrade\n') == "kube-apiserver"
    assert (
        announced('[upgrade/staticpods] Moving new manifest to "/etc/kubernetes/manifests/kube-apiserver.yaml"') == ""
    )


def test_trials_survive_their_file() -> None:
    """Trials that were written as JSON can be read again."""
    seen = Seen(errors={"refused": 3}, answered=(50.0, 1.5), marks=(Mark(1.0, "kube-apiserver"),))
    written = replace(trial("run"), seen=seen, fixed_by="itself")
    assert Trial.from_json(written.as_json()) == written


def test_every_way_has_a_name_of_its_own() -> None:
    """Names and titles of ways are unique, as figures are stored by name."""
    assert len({way.name for way in WAYS}) == len({way.title for way in WAYS}) == len(WAYS)


def test_helms_message_is_cut_between_words() -> None:
    """Helm's message is shown without the command line, and shortened to one line between words."""
    error = ApiError(f"helm upgrade --wait failed\nhelm upgrade x: Error: UPGRADE FAILED: {'no answer ' * 30}")
    assert message_of(error).startswith("UPGRADE FAILED: no answer")
    assert message_of(error).endswith("answer …") or message_of(error).endswith("no …")
    assert len(message_of(error)) <= 160
