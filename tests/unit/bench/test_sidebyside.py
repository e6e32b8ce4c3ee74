"""The side-by-side benchmark: what it counts, and what its page and picture say of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from bench.sidebyside.helm import said
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


def test_what_a_person_says_of_the_figures_is_on_the_page() -> None:
    """Remarks come after the circumstances that they are about, whenever the page is written anew."""
    said = page(WHERE, TITLES, [trial("run")], "zero-outage.svg", "The first round was ended.\n")
    assert said.index("## Circumstances") < said.index("The first round was ended.\n\n## How it was measured")


def test_a_hang_is_seen_although_all_was_answered_later() -> None:
    """Answers are counted in the second in which they came: a second of silence is empty, whatever comes after it."""
    assert per_second([(1.0, 50), (2.0, 50), (3.0, 150)]) == (50.0, 0.0, 100.0)


def test_reports_between_whole_seconds_are_shared_out() -> None:
    """A count that comes twice a second, and not on time, gives an even rate; part of a second at the end is left."""
    assert per_second([(0.75, 30), (1.25, 50), (2.25, 90)]) == (40.0, 40.0)
    assert per_second([]) == ()


def test_caches_are_no_memory_of_the_control_plane() -> None:
    """Both kinds of control groups give the memory that can't be taken back, children included where there are any."""
    assert anonymous_bytes("cache 900\nrss 1\ntotal_cache 990\ntotal_rss 70") == 70
    assert anonymous_bytes("anon 71\nfile 900") == 71


def test_spread_tells_when_there_is_none() -> None:
    """The median with least and most; a single value or equal ones alone; nothing at all is a dash, never a zero."""
    assert spread([3.0, 1.0, 20.0]) == "3 (1–20)"
    assert spread([2.0, 2.0]) == "2"
    assert spread([None]) == "–"


def test_ratio_needs_both_sides() -> None:
    """The pipeline's overhead is told by medians of upgrades alone, and not at all when one side is missing."""
    runs = [trial("run", seconds) for seconds in (110.0, 120.0, 500.0)]
    bad = trial("run", 900.0, what=BAD_FLAG_PUSHED)
    assert ratio([*runs, bad, trial("charts", 100.0)], "run", "charts") == pytest.approx(1.2)
    assert ratio(runs, "run", "charts") is None
    assert ratio([trial("run", None), trial("charts")], "run", "charts") is None


def test_page_shows_each_way_with_its_number_of_trials() -> None:
    """A way is one row over all of its trials; ways without trials have none."""
    text = shown([trial("run"), trial("run", failed=2), trial("kubeadm", failed=400)])
    kubeadm, run = rows(text)
    assert (kubeadm["way"], kubeadm["failed"], kubeadm["n"]) == ("(a) kubeadm", "400", "1")
    assert (run["way"], run["failed"], run["n"]) == ("(d) run", "1 (0–2)", "2")
    assert "bare Helm" not in text


def test_page_names_every_command_that_measured() -> None:
    """Trials that were added later came from another command: both can be repeated."""
    text = shown([trial("run")])
    assert "$ bench --repeat 1\n$ bench --add\n" in text
    assert "Nodes' disks on tmpfs" in text


def test_an_upgrade_that_did_not_arrive_is_not_taken_for_a_quick_one() -> None:
    """Its times are a dash, and the note says what went wrong."""
    text = shown([replace(trial("run", None), note="FAILED: it hung")])
    run = row(text, "(d) run")
    assert (run["wall time, s"], run["all done, s"]) == ("–", "–")
    assert "FAILED: it hung" in text


def test_page_warns_of_a_busy_machine() -> None:
    """Figures of a machine that had other work are called that at the top; those of an idle one aren't."""
    assert "Not of an idle machine" in shown([replace(trial("run"), load_average=24.0)])
    assert "Not of an idle machine" not in shown([trial("run")])


def test_page_says_who_mended_a_bad_flag() -> None:
    """What came back by itself and what a person had to do are told apart, and counted when they differ."""
    by_person = replace(trial("kubeadm", 210.0, what=BAD_FLAG_PUSHED), mended_by="a person")
    by_itself = replace(by_person, mended_by="kubeadm itself")
    assert "(a) kubeadm: a person (2×); kubeadm itself (1×)" in shown([by_person, by_itself, by_person])
    assert "(a) kubeadm: a person\n" in shown([by_person])
    assert "(a) kubeadm: nobody, in the time" in shown([replace(by_person, mended_by="", done_seconds=None)])


def test_sections_by_number_of_controllers() -> None:
    """Trials with one and with three controllers are never thrown together."""
    text = shown([trial("run"), replace(trial("run", failed=9), controllers=3)])
    one, three = text.split("## 3 controllers")
    assert "## One controller" in one
    assert row(one, "(d) run")["failed"] == "0" and row(three, "(d) run")["failed"] == "9"


def test_picture_shows_the_trial_in_the_middle() -> None:
    """Neither the best nor the worst trial stands for a way."""
    trials = [trial("run", failed=failed) for failed in (9, 0, 3)]
    assert typical(trials).seen.failed == 3
    assert typical(trials[:2]).seen.failed == 0


def test_picture_marks_steps_and_shows_what_was_lost() -> None:
    """It is well-formed, names every step whatever its characters, and a second without answers reaches the ground."""
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
    """Steps, their gates and undos become marks; lines that begin nothing don't."""
    lines = [
        {"type": "StepStarted", "time": "1970-01-01T00:00:10Z", "data": {"step": "kube-apiserver"}},
        {"type": "GateChecked", "time": "1970-01-01T00:00:11Z", "data": {"step": "kube-apiserver"}},
        {"type": "UndoStarted", "time": "1970-01-01T00:00:12.5Z", "data": {"step": "kube-apiserver"}},
    ]
    assert journal_marks(lines) == [Mark(10.0, "kube-apiserver"), Mark(12.5, "undo kube-apiserver")]


def test_kubeadm_says_what_it_replaces() -> None:
    """Only the line that begins a component's replacement marks it."""
    assert announced('[upgrade/staticpods] Preparing for "kube-apiserver" upgrade\n') == "kube-apiserver"
    assert (
        announced('[upgrade/staticpods] Moving new manifest to "/etc/kubernetes/manifests/kube-apiserver.yaml"') == ""
    )


def test_trials_survive_their_file() -> None:
    """What was measured earlier can be read back and added to."""
    seen = Seen(errors={"refused": 3}, answered=(50.0, 1.5), marks=(Mark(1.0, "kube-apiserver"),))
    written = replace(trial("run"), seen=seen, mended_by="itself")
    assert Trial.from_json(written.as_json()) == written


def test_every_way_has_a_name_of_its_own() -> None:
    """Figures are kept by name."""
    assert len({way.name for way in WAYS}) == len({way.title for way in WAYS}) == len(WAYS)


def test_helms_words_are_not_cut_within_one() -> None:
    """The page says what Helm said, from its first word on, without the command line, and no more than a line of it."""
    error = ApiError(f"helm upgrade --wait failed\nhelm upgrade x: Error: UPGRADE FAILED: {'no answer ' * 30}")
    assert said(error).startswith("UPGRADE FAILED: no answer")
    assert said(error).endswith("answer …") or said(error).endswith("no …")
    assert len(said(error)) <= 160
