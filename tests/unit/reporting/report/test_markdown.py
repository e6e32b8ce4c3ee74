"""`report.md`: the summary for a merge request."""

from __future__ import annotations

import re

from testkit import example_runs as runs
from testkit.example_runs import nodes_story, state_of
from upgrader.model.redaction.markdown import prose
from upgrader.reporting.report.markdown import report_markdown


def test_outcome_comes_first() -> None:
    """Headline, sentence, remedy, command, cause and the table of steps."""
    text = report_markdown(state_of(runs.ROLLED_BACK))
    lines = text.splitlines()
    assert lines[0] == "### ↶ Upgrade to v1.37.1: failed and rolled back"
    assert "The cluster is healthy at v1.36.3." in lines[2]
    assert "**Next:** Remove `enable-the-impossible` from extraArgs" in text
    assert "upgrader run --to v1.37.1" in text
    assert "| ↶ | `kube-apiserver` | failed, rolled back | 20 s |" in text
    assert "| · | `kubernetes` | pending |" in text
    assert "API: 0 of 2,160 requests failed, longest gap 96 ms" in text


def test_what_was_skipped_is_said_with_the_reason() -> None:
    """Whoever reviews a run sees what its operator overruled, and why."""
    text = report_markdown(state_of(runs.GOOD))
    assert "`etcd.space`" in text and "because: `defragmented on Friday, CHG-1042`" in text


def test_availability_that_nobody_recorded_is_not_zero() -> None:
    """A run whose process died has counted nothing that could be read."""
    text = report_markdown(state_of(runs.INTERRUPTED))
    assert "availability of the API: not known" in text and "requests failed" not in text


def test_hostile_texts_are_code() -> None:
    """Nothing of a log becomes markup, an image, a mention or a command to the forge."""
    text = report_markdown(state_of(runs.HOSTILE))
    outside = re.sub(r"(?ms)^(`{3,}).*?^\1$|<code>.*?</code>", "", text)
    assert "script" not in outside and "@all" not in outside and "7*7" not in outside
    assert "\x1b" not in text


def test_summary_of_many_nodes_is_short() -> None:
    """Forges cut long comments off: the table has an end, and says how many are left out."""
    text = report_markdown(state_of(nodes_story(200, fails=40)))
    assert "… and 150 more steps." in text and len(text) < 40_000


def test_prose_is_read_as_words() -> None:
    """A sentence of ours stays a sentence, what is typed is code, and anything that a forge obeys makes it all code."""
    assert (
        prose("Remove `x` from values/a.yaml: v1.37.1 has none.") == "Remove `x` from values/a.yaml: v1.37.1 has none."
    )
    for hostile in ("see @all", "closes #1", "www.example.com", "<b>", "[a](b)", "*a*", "_a_", "a `b", "!1", "/close"):
        assert prose(hostile).startswith(("<code>", "`")), hostile
