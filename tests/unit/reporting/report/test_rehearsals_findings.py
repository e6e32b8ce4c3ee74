"""What a rehearsal found is in each of a run's reports."""

from __future__ import annotations

import json
from dataclasses import replace

from testkit import example_runs as runs
from testkit.example_runs import state_of
from upgrader.app.execution import _warnings
from upgrader.engine.state.report import report_json
from upgrader.model.event import RunStarted, SkippedCheck
from upgrader.reporting.report.html import report_html
from upgrader.reporting.report.markdown import report_markdown
from upgrader.steps.rehearsal.differences import Difference, findings_of

DROPPED = Difference("dropped", "statefulsets.apps", "spec.maxUnavailable", 2, ("shop/db", "shop/queue"))
GONE = Difference("gone", "podgroups.scheduling.k8s.io", "", 1, ("shop/batch",))


def test_a_rehearsals_findings_are_in_each_report() -> None:
    """A warning, with its objects where the report has room; and an error that its operator accepted, with the reason:
    in the page, in the file for programs, and in the Markdown of a merge request.
    """
    dropped, gone = findings_of([DROPPED, GONE])
    (at, begun), *rest = runs.GOOD
    assert isinstance(begun, RunStarted)
    accepted = SkippedCheck(gone.id, gone.title, "webs are deleted first")
    begun = replace(begun, warnings=_warnings([dropped]), skipped=(accepted,))
    state = state_of([(at, begun), *rest])
    texts = report_html(state), report_markdown(state), json.dumps(report_json(state))
    for text in texts:
        for said in (dropped.id, dropped.title, gone.id, gone.title, "webs are deleted first"):
            assert said in text
    assert "shop/queue" in texts[0] and "shop/queue" in texts[2]
