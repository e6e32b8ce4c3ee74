"""Templates of the user's own, in place of those that come with upgrader."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.engine.state.run_state import RunState
from upgrader.errors import ConfigError
from upgrader.rendering import Templates
from upgrader.reporting.report.formats import FILES, report_text, write_reports


@pytest.fixture
def templates(tmp_path: Path) -> Templates:
    """A user's, which has none of its own yet."""
    (tmp_path / "upgrader/templates/report").mkdir(parents=True)
    return Templates.of_user({"XDG_CONFIG_HOME": str(tmp_path)})


def _page(templates: Templates) -> Path:
    assert templates.own is not None
    return templates.own / "report/report.html.j2"


def test_one_takes_the_place_of_ours(templates: Templates) -> None:
    """The user's page is rendered with the values that ours gets, escaped as ever; what it imports is still ours."""
    _page(templates).write_text(
        '{% from "report/macros.html.j2" import icon %}<h1>Ours: {{ view.headline.outcome }} {{ "<b>" }}</h1>'
        '{{ icon("good") }}'
    )
    page = report_text(RunState(), "html", templates=templates)
    assert page.startswith("<h1>Ours: ") and "&lt;b&gt;" in page and "<svg" in page
    assert "<testsuites" in report_text(RunState(), "junit", templates=templates), "others stay"


def test_own_style_sheet_is_allowed_by_its_hash(templates: Templates) -> None:
    """The page has the user's style sheet, and its Content-Security-Policy the hash of that one."""
    builtin = report_text(RunState(), "html", templates=templates)
    (_page(templates).parent / "report.css").write_text("body { color: teal }")
    page = report_text(RunState(), "html", templates=templates)
    assert "body { color: teal }" in page
    assert page.partition("style-src")[2][:60] != builtin.partition("style-src")[2][:60]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("fine\n{% if %}", 2),
        ("{{ nothing_like_it }}", 1),
        ("\n\n{{ 1 / 0 }}", 3),
        ("{{ view.__class__.__mro__ }}", 1),
        ('{% extends "report/report.html.j2" %}', 1),
    ],
    ids=["syntax", "undefined", "arithmetic", "out of the sandbox", "of itself, where ours was meant"],
)
def test_wrong_one_is_named(templates: Templates, tmp_path: Path, text: str, line: int) -> None:
    """Asked for alone, the error has its file and line; at the end of a run, every report is made all the same, and the
    page says so."""
    page = _page(templates)
    page.write_text(text)
    with pytest.raises(ConfigError, match=rf"report\.html\.j2:{line}: ") as raised:
        report_text(RunState(), "html", templates=templates)
    assert raised.value.remedy and "remove it" in raised.value.remedy

    write_reports(tmp_path, RunState(), journal="journal.jsonl", templates=templates)
    assert all((tmp_path / name).stat().st_size for name in FILES.values())
    made = (tmp_path / FILES["html"]).read_text()
    assert "Your own template was not used: " in made and f"report.html.j2:{line}: " in made


@pytest.mark.parametrize("environment", [{}, {"HOME": "relative"}, {"HOME": "/nonexistent"}])
def test_without_a_folder_there_are_ours_alone(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No home, a relative one (a cluster's folder could answer for it) and one without templates: ours."""
    assert Templates.of_user(environment).own is None
