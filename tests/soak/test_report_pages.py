"""A run's page in a real browser: it loads whole, quickly and without a complaint, and can be used with a keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit import example_runs as runs
from testkit.browser import Browser
from testkit.example_runs import Story, nodes_story, state_of
from upgrader.report.html import report_html

PAGES: dict[str, Story] = {
    "good": runs.GOOD,
    "rolled-back": runs.ROLLED_BACK,
    "recovered": runs.RECOVERED,
    "stuck": runs.STUCK,
    "interrupted": runs.INTERRUPTED,
    "hostile": runs.HOSTILE,
    "nodes": nodes_story(200, fails=3),
}
TAB, ENTER = 9, 13


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    with Browser(tmp_path / "profile") as opened:
        yield opened


def page(folder: Path, name: str) -> Path:
    """The page of an example run."""
    path = folder / f"{name}.html"
    path.write_text(report_html(state_of(PAGES[name])), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", PAGES)
def test_page_loads_whole_and_without_a_complaint(tmp_path: Path, browser: Browser, name: str) -> None:
    """No console message, no request but for the file itself, its style in force, and nothing wider than the screen."""
    path = page(tmp_path, name)
    for width, dark in ((1100, False), (1100, True), (390, False), (320, True)):
        seconds = browser.show(path, width=width, dark=dark)
        assert seconds < 2, "a page of 200 nodes is there at once"
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, (width, dark)
        background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(20, 23, 26)" if dark else "rgb(250, 249, 247)"), "the policy allows the style"
    assert browser.problems == []
    assert set(browser.requests) == {path.as_uri()}


def test_steps_open_with_the_keyboard(tmp_path: Path, browser: Browser) -> None:
    """Tab reaches each step, Enter opens it, and what has the focus can be seen."""
    browser.show(page(tmp_path, "good"))
    browser.press("Tab", TAB)
    assert browser.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    browser.press("Enter", ENTER)
    assert browser.evaluate("document.activeElement.parentElement.open") is True


def test_paper_has_what_is_folded(tmp_path: Path, browser: Browser) -> None:
    """Printed, every step is unfolded, on white."""
    path = page(tmp_path, "good")
    hidden = "[...document.querySelectorAll('.gate')].filter(each => each.checkVisibility() === false).length"
    browser.show(path)
    browser.evaluate("document.querySelectorAll('.gate').length > 10 || undefined.x")
    on_screen = "getComputedStyle(document.querySelector('details'), '::details-content').contentVisibility"
    assert browser.evaluate(on_screen) == "hidden"
    browser.show(path, media="print", dark=True)
    assert browser.evaluate(on_screen) == "visible"
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate(hidden) == 0
