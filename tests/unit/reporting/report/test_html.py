"""`report.html`: what it says, and what a hostile log can't make of it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from testkit import example_runs as runs
from testkit.example_runs import Story, nodes_story, state_of
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.model.event import Note
from upgrader.model.version import KubernetesVersion
from upgrader.reporting.report.html import report_html

EXAMPLES = {
    "good": runs.GOOD,
    "rolled back": runs.ROLLED_BACK,
    "recovered": runs.RECOVERED,
    "stuck": runs.STUCK,
    "interrupted": runs.INTERRUPTED,
    "hostile": runs.HOSTILE,
    "empty": (),
}


class Page(HTMLParser):
    """A page as a browser reads it: its elements with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._in_style = False
        self.style = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._in_style = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.style += data
        else:
            self.words.append(data)

    @property
    def text(self) -> str:
        """What is read, with single spaces."""
        return " ".join(" ".join(self.words).split())


def page(story: Story, *, running: bool = False) -> Page:
    """The page of a story."""
    return Page(report_html(state_of(story), running=running))


@pytest.mark.parametrize("name", EXAMPLES)
def test_page_loads_nothing_and_runs_nothing(name: str) -> None:
    """No script, image, frame or form, no inline style or handler, no address: a log is text, whatever is in it."""
    found = page(EXAMPLES[name])
    tags = {tag for tag, _ in found.elements}
    assert tags & {"script", "img", "link", "iframe", "form", "object", "base", "input"} == set()
    for tag, attributes in found.elements:
        assert [key for key in attributes if key.startswith("on") or key == "style"] == [], tag
        target = attributes.get("href") or attributes.get("src") or "#"
        assert target.startswith("#"), "links lead only within the page"


@pytest.mark.parametrize("name", EXAMPLES)
def test_policy_allows_only_the_pages_own_style(name: str) -> None:
    """The Content-Security-Policy comes before the style, denies everything else, and names the style by its hash."""
    found = page(EXAMPLES[name])
    metas = [attributes for tag, attributes in found.elements if tag == "meta"]
    (policy,) = [meta["content"] for meta in metas if meta.get("http-equiv") == "Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(found.style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    tags = [tag for tag, _ in found.elements]
    assert tags.index("meta") < tags.index("style") and tags.count("style") == 1
    assert not re.search(r"url\((?!#)|@import", found.style), "the style loads nothing"


def test_hostile_texts_are_shown_as_they_are() -> None:
    """What a log says can be read, and is no markup, no template and no command to CI; control characters are gone."""
    html = report_html(state_of(runs.HOSTILE))
    found = Page(html)
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in found.text
    assert "{{ 7*7 }}" in found.text and "49" not in found.text
    assert "\x1b" not in html and "\x00" not in html
    html.encode()  # what was no UTF-8 is replaced


def test_secrets_in_texts_are_masked() -> None:
    """A password in a note of an old journal, which was not masked when it was written, isn't in the page."""
    story = (*runs.GOOD[:3], (2.0, Note("helm: --set password=hunter2hunter2")))
    assert "hunter2" not in report_html(state_of(story))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "good",
            ["Succeeded", "All 5 steps have passed their gates; the control plane runs v1.37.1.", "v1.36.3 → v1.37.1"],
        ),
        ("rolled back", ["Failed and rolled back", "The cluster is healthy at v1.36.3.", "upgrader run --to v1.37.1"]),
        ("recovered", ["the API was recovered over SSH first", "2,096 of 5,310", "Recovery"]),
        ("stuck", ["Manual action required", "could not be rolled back", "disarm the alarm", "upgrader resume"]),
        ("interrupted", ["Interrupted", "upgrader resume", "upgrader rollback", "not known", "pause of 9 h 59 min"]),
        ("empty", ["Its journal has no record yet."]),
    ],
)
def test_first_thing_is_the_outcome_and_what_to_do(name: str, said: list[str]) -> None:
    """Outcome, one sentence, the next command; what is not known is called so, never left out."""
    text = page(EXAMPLES[name]).text
    assert [words for words in said if words not in text] == []


def test_why_it_failed_is_there_with_the_log() -> None:
    """The gate's verdict, the last lines of the pod's log, and the remedy."""
    text = page(runs.ROLLED_BACK).text
    for words in ("gate deployment/kube-apiserver failed after 8 s", "unknown flag: --enable-the-impossible", "Remove"):
        assert words in text
    assert "controller-1 has not answered yet" in text, "a gate that was unknown says why"


def test_what_was_skipped_and_warned_of_is_there() -> None:
    """A check that was overruled, with the reason that the operator gave, and the warnings of checks."""
    text = page(runs.GOOD).text
    assert "etcd's database is 78 % of its quota" in text and "defragmented on Friday, CHG-1042" in text
    assert "backup.none" in text and "Set backup.recipients in upgrader.yaml." in text


def test_steps_that_failed_are_unfolded() -> None:
    """Whoever opens the page of a failure sees it; steps that passed are folded."""
    found = page(runs.ROLLED_BACK)
    assert ["open" in attributes for tag, attributes in found.elements if tag == "details"] == [False, False, True]


def test_outcomes_are_said_in_words_too() -> None:
    """Nobody needs colours: each step has its outcome as text."""
    text = page(runs.ROLLED_BACK).text
    assert "images passed" in text and "kube-apiserver failed, rolled back" in text and "kubernetes pending" in text


def test_running_run_is_called_so() -> None:
    """A page that is made in the middle of a run doesn't claim that the run was interrupted."""
    text = page(runs.INTERRUPTED, running=True).text
    assert "It is still running" in text and "waiting for its gates" in text
    assert "interrupted while" not in text


def test_many_nodes_begin_with_those_that_failed() -> None:
    """Two hundred steps: those that failed are linked from the top, and lead to their rows."""
    found = page(nodes_story(200, fails=3))
    targets = [str(attributes["href"]) for tag, attributes in found.elements if tag == "a"]
    assert targets == ["#step-198", "#step-199", "#step-200"]
    ids = {attributes.get("id") for _, attributes in found.elements}
    assert {target[1:] for target in targets} <= ids


def test_bars_stay_within_their_rows() -> None:
    """Every bar begins and ends within the width, also where clocks went backwards."""
    backwards: Story = [(each[0] if place % 3 else 5.0, each[1]) for place, each in enumerate(runs.GOOD)]
    for story in (*EXAMPLES.values(), backwards):
        for tag, attributes in page(story).elements:
            x, width = str(attributes.get("x", "")), str(attributes.get("width", ""))
            if tag == "rect" and x.endswith("%"):
                assert 0 <= float(x[:-1]) <= 100 and float(x[:-1]) + float(width[:-1]) <= 100.5


def test_untouched_cluster_is_called_so() -> None:
    """A preparation that failed leaves the cluster as it was, which is the first thing to know."""
    failed = StepState("images", "failed", reason="no such image", remedy="fix its name", prepares=True)
    state = RunState(
        "r",
        target=KubernetesVersion(1, 37, 1),
        outcome="rolled-back",
        steps=(failed,),
        failure=failed,
        planned=("images",),
    )
    text = Page(report_html(state)).text
    assert "before it changed anything; the cluster is unchanged" in text and "fix its name" in text


def test_colours_can_be_read() -> None:
    """Every colour of text has at least 4.5:1 on every ground that it is used on, in light and in dark (WCAG AA)."""
    style = page(runs.GOOD).style
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", part)) for part in style.split("@media")[:2])
    for palette in (light, dark):
        for tone in ("good", "back", "bad", "open", "ink"):
            grounds = ["page", "well", *([f"{tone}-tint"] if tone != "ink" else ["card", "good-tint", "bad-tint"])]
            for ground in grounds:
                assert contrast(palette[tone], palette[ground]) >= 4.5, (tone, ground)
        assert min(contrast(palette[each], palette["page"]) for each in ("soft", "idle")) >= 4.5


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, as WCAG defines it."""
    brighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of `#rrggbb`."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
