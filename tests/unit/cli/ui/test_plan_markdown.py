"""A plan in Markdown: complete, and with nothing in it that becomes markup."""

from __future__ import annotations

import re

import pytest

from testkit.plan_documents import FROM, TO, document
from upgrader.app.offline_plan import OfflinePlan, OfflineStep
from upgrader.cli.ui.plan_markdown import plan_markdown
from upgrader.model.redaction.markdown import block, code, details
from upgrader.steps.step_document import ObjectChange

HOSTILE = "x` |a\\| </code></details>\n```\n/close @all <img src=x> [y](http://z) \x1b[2J&lt;"


def test_plan_of_a_merge_request() -> None:
    """A row for each step, a folded diff for each that changes objects, and every finding."""
    shown = plan_markdown(document())
    assert shown.startswith("### Plan: Kubernetes v1.36.3 → v1.37.1\n")
    images = "`registry.k8s.io/a:v1 → registry.k8s.io/web:v2`"
    assert f"| `web` | upgrade | `change web` | {images} | `rollback to revision 4` | 3 min 05 s |" in shown
    assert "| `smoke` | playbook | `smoke.yml` |  | `none` |  |" in shown
    assert "**Point of no return:** `smoke`; once it has started" in shown
    assert "<summary><code>web</code> 1 object</summary>\n\n```diff\n# Deployment web (changed)\n" in shown
    assert shown.count("<details>") == shown.count("</details>") == 1
    assert "#### Checks: none blocks the run" in shown and "a finding  nodes.ready" in shown


def test_plan_without_the_cluster() -> None:
    """A merge request's own job has no credentials: the table says what it changes of the other folder."""
    change = ObjectChange("ConfigMap web", "changed", "-a: 1\n+a: 2")
    steps = (OfflineStep("web", "release", "charts/web", (change,)), OfflineStep("smoke", "playbook", "smoke.yml"))
    shown = plan_markdown(OfflinePlan(TO, steps, {"controllers": ("one",)}, FROM, ("old",)))
    assert "### Plan: Kubernetes v1.36.3 → v1.37.1 (offline)" in shown
    assert "| `web` | `objects: 1 changed` |" in shown and "| `smoke` | `playbook smoke.yml` |" in shown
    assert "| `old` | no longer in the pipeline" in shown and "controllers: one" in shown
    assert shown.count("\n- ") == 3, "what is not known"


def test_nothing_becomes_markup() -> None:
    """Names, diffs and findings of others end no cell, no block and no details, and speak to no forge."""
    shown = plan_markdown(document(HOSTILE, finding=HOSTILE))
    outside = []
    fence = ""
    for line in shown.split("\n"):
        opened = re.match("`{3,}", line)
        if fence:
            fence = "" if line == fence else fence
        elif opened:
            fence = opened[0]
        else:
            outside.append(line)
    assert not fence and "\x1b" not in shown
    text = "\n".join(outside)
    assert not re.search(r"@all|<img|^/close|\]\(|x`", text, re.MULTILINE)
    assert text.count("<details>") == text.count("</details>") == 1
    assert not any(line.startswith("/") for line in shown.split("\n")), "some forges obey it in a block, too"
    rows = [line for line in outside if line.startswith("|")]
    assert {line.count("|") for line in rows} == {rows[0].count("|")}


@pytest.mark.parametrize("text", ["a|b", "a`b", "a\\", "<b>", "a\nb&amp;"])
def test_what_a_code_span_can_not_hold(text: str) -> None:
    """It is written by numbers, as a forge's renderers disagree about it."""
    assert re.fullmatch(r"<code>[\w &#;]+</code>", code(text))


def test_fence_is_longer_than_what_it_holds() -> None:
    """A log line of backticks ends no block."""
    assert block("a\n`````\nb") == "``````\na\n`````\nb\n``````"


def test_summary_is_html() -> None:
    """Between the tags of a summary, Markdown is not read, so backticks would be shown."""
    assert details("a.b", "1 object", "x").splitlines()[1] == "<summary><code>a&#46;b</code> 1 object</summary>"
