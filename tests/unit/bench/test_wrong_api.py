"""`python -m bench.wrong_api`: what it records, and the page that is made from it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from bench.places import PAGES
from bench.wrong_api import Row, page_with_table, read, record, table
from testkit.wrong_surroundings import written

GOOD = Row(
    "issuer", "`--a=b`", 4, 40.2, 70.0, 90.0, "", "gate continuity | broken", "1, 2", "2026-01-01", "0123456789ab"
)


def test_table_tells_which_ended_well() -> None:
    """Each way of being wrong has its row. Well ended are only exit code 4, in time, on a healthy cluster, with a
    message that names it; or 0 for what is harmless, and 3 for what a check must block.
    """
    bad = [replace(GOOD, seconds=91.0), replace(GOOD, exit_code=5), replace(GOOD, healthy="pod x is not Ready")]
    bad.append(replace(GOOD, named=False))
    harmless = replace(GOOD, name="range", harmless=True, cause="")
    told = replace(GOOD, name="audit", blocked=True)
    last = [replace(harmless, exit_code=0), told, replace(told, exit_code=3, commit="")]
    text = table([GOOD, *bad, harmless, *last])
    ended = "1, 2 | 2026-01-01 (`0123456789ab`) | gate continuity / broken |"
    assert f"| issuer | `--a=b` | `rehearsal.token` | 4 | 40 | 90 | 70 | yes | {ended}" in text
    assert (
        "| issuer | `--a=b` | `rehearsal.token` | 4 | **91** | 90 |" in text
        and "| issuer | `--a=b` | `rehearsal.token` | **5** | – | 90 |" in text
    )
    assert "| **not named**: gate continuity / broken |" in text
    assert (
        "| audit | `--a=b` | nothing: the run finds it | 3 | – | – | 70 | yes | 1, 2 | 2026-01-01 | gate continuity"
        in text
    )
    assert "| range | `--a=b` | – | 0 | – | – | 70 | yes | 1, 2 | 2026-01-01 (`0123456789ab`) | harmless" in text
    assert "3 of 9 ended as they should" in text and "pod x is not Ready" in text


def test_table_has_what_names_a_row_before_the_run() -> None:
    """A check that blocks or warns, and a rehearsal whose case has the same name, or another one for it."""
    names = ("dead etcd", "too few requests under load", "key lost", "no apps/v1", "DNS answers wrongly")
    lines = table([replace(GOOD, name=name) for name in names]).splitlines()[2:]
    named = [line.split(" | ")[2] for line in lines[: len(names)]]
    checks = ["`planned-etcd.unanswered`", "`flags.fewer-requests`"]
    assert named == [*checks, "`rehearsal.unreadable`", "`rehearsal.gone`", "nothing: the run finds it"]


def test_row_is_recorded_in_place_of_what_was_known(tmp_path: Path) -> None:
    """Others stay, in the order in which they are tried."""
    file = tmp_path / "wrong-api.json"
    for row in (replace(GOOD, name="client CA"), replace(GOOD, exit_code=5), GOOD):
        record(row, file)
    assert read(file) == [GOOD, replace(GOOD, name="client CA")]


def test_page_keeps_its_text() -> None:
    """Only the table, and the line that counts its rows, are replaced."""
    page = f"# Title\n\nBefore.\n\n{table([])}\n- After.\n"
    made = page_with_table(page, [GOOD])
    assert made == f"# Title\n\nBefore.\n\n{table([GOOD])}\n- After.\n"
    assert page_with_table(made, []) == page


def test_page_is_current() -> None:
    """docs/benchmarks/wrong-api.md is what `make docs` makes from the recorded results."""
    page = (PAGES / "wrong-api.md").read_text()
    assert page == page_with_table(page, read())


def test_busy_writers_write_what_is_accepted() -> None:
    """kube-apiserver creates no object by an apply whose body lacks its name: each write would be refused at once, and
    none would take the seconds that keep a seat.
    """
    path, body = written(7, 1)
    assert path.partition("?")[0].endswith(f"/{json.loads(body)['metadata']['name']}")
