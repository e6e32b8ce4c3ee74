"""The diffs of a run's plan in its page: masked, folded, bounded, and in no report for others."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from testkit import example_runs as runs
from testkit.example_runs import state_of
from tests.unit.reporting.report.test_html import Page
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.reporting.report import plan_diffs
from upgrader.reporting.report.formats import FILES, report_text, write_reports
from upgrader.reporting.report.plan_diffs import DIFFS, PlanDiffs, StepDiff, keep_diffs, read_diffs
from upgrader.steps.step_document import ObjectChange, StepDocument, Undo

CHANGE = ObjectChange(
    "Deployment kube-system/kube-apiserver", "changed", "--- now\n+++ planned\n-  image: a:1\n+  image: a:2 <b>"
)


def step(name: str, *changes: ObjectChange) -> StepDocument:
    """A planned step that changes these objects."""
    return StepDocument(name, "release", "upgrade", "", Undo("none"), None, (), changes)


def test_a_page_has_what_was_to_change(tmp_path: Path) -> None:
    """Whoever opens the report of a run sees each object's diff, folded by step, as text."""
    keep_diffs(tmp_path / DIFFS, [step("images"), step("kube-apiserver", CHANGE)])
    assert (tmp_path / DIFFS).stat().st_mode & 0o777 == 0o600
    write_reports(tmp_path, state_of(runs.GOOD), journal="journal.jsonl")
    page = Page((tmp_path / FILES["html"]).read_text())
    assert "Planned changes" in page.text and "- image: a:1 + image: a:2 <b>" in page.text
    folded = [attributes for tag, attributes in page.elements if tag == "details" and attributes.get("class") == "diff"]
    assert len(folded) == 1 and "open" not in folded[0], "a step that changes no object has none"


def test_redacted_reports_have_none() -> None:
    """They go to others, and a diff is full of names that nothing recognises as names."""
    diffs = PlanDiffs((StepDiff("kube-apiserver", (CHANGE,)),))
    for form in FILES:
        assert "image: a:2" not in report_text(state_of(runs.GOOD), form, redacted=True, diffs=diffs)
    assert "diffs are left out" in report_text(state_of(runs.GOOD), "html", redacted=True, diffs=diffs)


def test_what_is_known_to_be_secret_is_not_kept(tmp_path: Path) -> None:
    """A password that a chart writes where none belongs: neither the file nor the page has it, and other lines stay."""
    KNOWN.learn(["correct-horse-battery"])
    diff = "+  args: [--x=correct-horse-battery]\n+  password: hunter2hunter2\n+  replicas: 2"
    keep_diffs(tmp_path / DIFFS, [step("web", ObjectChange("Deployment a/b", "changed", diff))])
    kept = (tmp_path / DIFFS).read_text()
    assert "horse" not in kept and "hunter2" not in kept and "replicas: 2" in kept
    page = report_text(state_of(runs.GOOD), "html", diffs=read_diffs(tmp_path / DIFFS))
    assert "horse" not in page and "hunter2" not in page and "replicas: 2" in page


def test_they_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a plan with megabytes of diffs each object is named, and those that still have room have their diffs."""
    monkeypatch.setattr(plan_diffs, "MAX_BYTES", 200)
    long = ObjectChange("CustomResourceDefinition x", "added", "+ x\n" * 1000)
    keep_diffs(tmp_path / DIFFS, [step("crds", long, CHANGE)])
    (found,) = read_diffs(tmp_path / DIFFS).steps
    assert [change.object for change in found.changes] == [long.object, CHANGE.object]
    assert "too long" in found.changes[0].diff and found.changes[1] == CHANGE


def test_a_disk_that_refuses_them_costs_only_them(tmp_path: Path) -> None:
    """The run goes on, and its page says that they are not known, and why."""
    keep_diffs(tmp_path / "missing" / DIFFS, [step("web", CHANGE)])
    write_reports(tmp_path, state_of(runs.GOOD), journal="journal.jsonl")
    text = Page((tmp_path / FILES["html"]).read_text()).text
    assert f"The diffs are not known: the run's folder has no {DIFFS}." in text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[" * 100_000,
        b"\xff",
        b'{"steps": 3}',
        b'{"steps": [3]}',
        b'{"steps": [{"step": "a", "changes": [{}]}]}',
        json.dumps({"steps": [{"step": "a", "changes": [{"object": "b", "change": ["c"], "diff": 1}]}]})[:-3].encode(),
    ],
)
def test_a_damaged_file_is_called_so(tmp_path: Path, content: bytes) -> None:
    """A report is made whatever is in it."""
    (tmp_path / DIFFS).write_bytes(content)
    assert read_diffs(tmp_path / DIFFS).problem == f"{DIFFS} in the run's folder is damaged"
    (tmp_path / DIFFS).unlink()
    os.mkfifo(tmp_path / DIFFS)
    assert read_diffs(tmp_path / DIFFS).problem.endswith("is not a file")
