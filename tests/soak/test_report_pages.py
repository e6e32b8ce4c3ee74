"""A run's page in a real browser: it loads whole, quickly and without a complaint, and can be used with a keyboard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from testkit import example_runs as runs
from testkit.browser import Browser
from testkit.example_runs import Story, nodes_story, series_of, state_of
from testkit.fleet_campaigns import campaign_of
from upgrader.fleet.reports.page import fleet_html
from upgrader.reporting.report.html import report_html

PAGES: dict[str, Story] = {
    "good": runs.GOOD,
    "rolled-back": runs.ROLLED_BACK,
    "recovered": runs.RECOVERED,
    "stuck": runs.STUCK,
    "interrupted": runs.INTERRUPTED,
    "hostile": runs.HOSTILE,
    "nodes": nodes_story(200, fails=3),
}
FOR_AXE = {**PAGES, "nodes": nodes_story(20, fails=3)}
"""Fewer nodes: axe computes what is behind each word."""
OUTAGES = {"recovered": (28.0, 77.0), "nodes": (5000.0, 5003.0)}
"""When the API answered nothing, in seconds since the run began."""
TAB, ENTER = 9, 13


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A browser with a profile of its own."""
    with Browser(tmp_path / "profile") as opened:
        yield opened


def page(folder: Path, name: str, pages: Mapping[str, Story] = PAGES) -> Path:
    """The page of an example run."""
    path = folder / f"{name}.html"
    series = series_of(pages[name], failing=OUTAGES.get(name, (0.0, 0.0)))
    path.write_text(report_html(state_of(pages[name]), series=series), encoding="utf-8")
    return path


def fleet_page(folder: Path, number: int) -> Path:
    """The page of a campaign of so many clusters."""
    path, shown = folder / "fleet.html", campaign_of(number)
    path.write_text(fleet_html(shown.status, shown.attempts, shown.now), encoding="utf-8")
    return path


def axe(browser: Browser) -> list[Any]:
    """What axe finds on the page that is shown, with all of it unfolded: rules and the elements that break them."""
    browser.evaluate(files("axe_core_python").joinpath("axe.min.js").read_text() + "; 0")
    browser.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    found = browser.evaluate(
        "axe.run().then(found => found.violations.map(rule => [rule.id, ...rule.nodes.map(node => node.html)]))"
    )
    assert isinstance(found, list)
    return found


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


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", FOR_AXE)
def test_everybody_can_read_it(tmp_path: Path, browser: Browser, name: str, dark: bool) -> None:
    """axe finds nothing: contrast, names of what can be pressed, headings, lists, languages."""
    browser.show(page(tmp_path, name, FOR_AXE), width=1100, dark=dark)
    assert axe(browser) == []


@pytest.mark.parametrize("number", [5, 500])
def test_page_of_a_fleet_loads_whole(tmp_path: Path, browser: Browser, number: int) -> None:
    """As that of a run: no message, no request but for the file, and nothing wider than the screen, if unfolded too."""
    path = fleet_page(tmp_path, number)
    for width in (1100, 390, 320):
        assert browser.show(path, width=width) < 2
        browser.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.problems == [] and set(browser.requests) == {path.as_uri()}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_everybody_can_read_a_fleet(tmp_path: Path, browser: Browser, dark: bool) -> None:
    """axe finds nothing on the page of a campaign."""
    browser.show(fleet_page(tmp_path, 20), width=1100, dark=dark)
    assert axe(browser) == []


def test_axe_finds_what_is_wrong(tmp_path: Path, browser: Browser) -> None:
    """The judge isn't blind: words that can hardly be seen, and a picture without words, are found."""
    path = tmp_path / "wrong.html"
    path.write_text(
        "<html lang=en><title>t</title><main><h1>x</h1><p style='color: #eee'>pale</p><img src='x:'></main>"
    )
    browser.show(path)
    assert {rule[0] for rule in axe(browser)} >= {"color-contrast", "image-alt"}


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
