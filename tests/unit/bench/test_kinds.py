"""What bench/results/kinds.json says was seen, and the page that is made from it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from bench.kinds.__main__ import main
from bench.kinds.page import ORDER, page, supported
from bench.kinds.public_files import public_files, read_files
from bench.kinds.record import read, recorded
from testkit.kinds.catalogue import KINDS, Kind
from testkit.kinds.columns import COLUMNS, Cell, whole_way
from testkit.lab_cluster import OLD, TARGET, LabCluster

REPOSITORY = Path(__file__).parents[3]
ROWS = read(REPOSITORY / "bench" / "results" / "kinds.json")
FILES = read_files(REPOSITORY / "bench" / "results" / "public_files.json")
_CELLS = [cell for row in ROWS for cell in row["cells"].values()]
TESTS = sorted({each["test"] for each in (*_CELLS, *FILES) if "test" in each})
PASSED = Cell("passed", "2026-01-02", 12.34, 100)


def _row(**cells: Any) -> dict[str, Any]:
    return {"kind": "x", "title": "An x, or two", "what": "Words.", "cells": cells}


def test_the_page_is_current() -> None:
    """`make docs` makes it: what it calls tested is what the tests and the labs have shown."""
    assert (REPOSITORY / "docs/reference/supported.md").read_text() == supported(ROWS, FILES, OLD, TARGET)


@pytest.mark.parametrize("test", TESTS)
def test_tests_that_it_names_are_there(test: str) -> None:
    """A result that rests on a test goes when the test does."""
    file, _, name = test.partition("::")
    tree = ast.parse((REPOSITORY / file).read_text())
    assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


REFUSED = sorted({cell["words"] for row in ROWS for cell in row["cells"].values() if cell["result"] == "refused"})


def _messages() -> Iterator[tuple[int, re.Pattern[str]]]:
    """Each text of adoption and of the checks before it: a pattern for it, and the length without the values in it."""
    for file in (file for part in ("adopt", "preflight") for file in (REPOSITORY / "upgrader" / part).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [str(part.value) if isinstance(part, ast.Constant) else "" for part in parts]
            if fixed := "".join(texts):
                yield len(fixed), re.compile("".join(re.escape(text) if text else ".+" for text in texts))


def test_messages_that_it_quotes_are_the_programs() -> None:
    """An operator searches the page for the error: a message that was reworded is quoted as it is now. At least a
    quarter of it is the program's own, as a text of little else than values would fit anything.
    """
    messages = [*_messages()]
    for words in REFUSED:
        assert any(fixed * 4 >= len(words) and pattern.fullmatch(words) for fixed, pattern in messages), words


def test_every_kind_has_one_row_and_known_columns() -> None:
    """A dozen kinds at least; what isn't known is no cell, so that it is shown as not tried."""
    names = [row["kind"] for row in ROWS]
    assert len(names) == len(set(names)) >= 12
    assert set(ORDER) == set(COLUMNS) and all(set(row["cells"]) <= set(ORDER) for row in ROWS)
    for row in ROWS:
        for cell in row["cells"].values():
            assert cell["result"] in ("passed", "derived", "refused", "rolled back", "failed")
            assert ("test" in cell) != ("command" in cell) and ("words" in cell) == (
                cell["result"] not in ("passed", "derived")
            )


def test_each_refusal_has_a_decision() -> None:
    """What is refused is refused for a reason that an ADR gives, and not because nobody has tried it."""
    for row in ROWS:
        for cell in row["cells"].values():
            assert ("adr" in cell) == (cell["result"] in ("refused", "rolled back")), row["kind"]
            assert "adr" not in cell or (REPOSITORY / "docs" / "adr" / cell["adr"]).is_file(), row["kind"]


def test_names_of_kinds_are_those_of_commands() -> None:
    """Each can be asked for once, and is a part of a lab's name."""
    names = [kind.name for kind in KINDS]
    assert len(names) == len(set(names)) and all(len(f"kinds-{name}-1234567") <= 32 for name in names)


def test_a_kind_whose_program_isnt_given_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Before a lab is made: it would take minutes to find out there."""
    for given in ([], ["--program", str(tmp_path)]):
        monkeypatch.setattr("sys.argv", ["kinds", "--kind", "plain", "--kind", "kube-vip", *given])
        with pytest.raises(SystemExit, match="2"):
            main()
        assert "git clone https://github.com/kube-vip/kube-vip" in capsys.readouterr().err


def test_a_command_has_the_program_that_it_needs() -> None:
    """What the page says can be typed."""
    (kind,) = (each for each in KINDS if each.name == "kube-vip")
    (row,) = recorded([], kind, "adopt", PASSED)
    assert row["cells"]["adopt"]["command"] == "python -m bench.kinds --kind kube-vip --program kube-vip"


def test_a_column_replaces_what_was_known_of_it() -> None:
    """A new adoption is another cluster: what was seen of the last one's other columns goes."""
    rows = [_row(adopt={"result": "refused"}, run={"result": "passed"}), {**_row(), "kind": "y"}]
    after = recorded(rows, Kind("x"), "run", PASSED)
    assert after[0]["cells"]["adopt"] == {"result": "refused"} and after[1] == rows[1]
    assert after[0]["cells"]["run"]["command"] == "python -m bench.kinds --kind x"
    assert list(recorded(after, Kind("x"), "adopt", PASSED)[0]["cells"]) == ["adopt"]


def test_a_column_that_is_tried_alone_leaves_the_others() -> None:
    """It has a command of its own, which can be typed."""
    rows = [_row(adopt={"result": "passed"}, run={"result": "passed"})]
    (row,) = recorded(rows, Kind("x"), "bad flag", PASSED, alone=True)
    assert row["cells"]["adopt"] == {"result": "passed"} and row["cells"]["run"] == {"result": "passed"}
    assert row["cells"]["bad flag"]["command"] == "python -m bench.kinds --kind x --only 'bad flag'"


def test_only_some_columns_are_tried_after_those_that_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """An undo needs a cluster that was adopted and upgraded."""
    columns = {name: lambda _cluster: PASSED for name in COLUMNS}
    monkeypatch.setattr("testkit.kinds.columns.COLUMNS", columns)
    cluster = cast(LabCluster, None)
    assert [name for name, _ in whole_way(cluster, Kind("x"), only=["undo"])] == ["adopt", "run", "undo"]
    assert [name for name, _ in whole_way(cluster, Kind("x"))] == list(COLUMNS)


def test_a_kind_without_a_row_gets_one() -> None:
    """Its title and words are written by hand afterwards."""
    assert recorded([], Kind("z"), "adopt", PASSED)[0]["cells"]["adopt"]["requests"] == 100


def test_cells_say_how_it_is_known() -> None:
    """By a lab on a day, by a test on a lab, by unit tests, not at all."""
    cells = {
        "adopt": {"result": "derived", "test": "tests/unit/a.py::b"},
        "run": {"result": "passed", "test": "tests/e2e/a.py::b"},
        "bad flag": {"result": "passed", "date": "2026-01-02", "command": "c", "seconds": 1.0, "requests": 1000},
    }
    text = page([_row(**cells)], OLD, TARGET)
    assert "| derived | passed (lab test) | passed 2026-01-02 | not tried | not tried |" in text
    assert "0 of 1,000 requests failed" in text and "(#an-x-or-two)" in text


def test_only_the_results_that_there_are_are_explained() -> None:
    """A reader looks for no cell that says *Derived*, and finds what *Rolled back* means."""
    dated = {"result": "passed", "date": "2026-01-02", "command": "c"}
    tested = {"result": "passed", "test": "tests/soak/a.py::b"}
    unit = {"test": "tests/unit/a.py::b", "words": "no way", "adr": "0001-x.md"}
    text = page([_row(adopt=dated)], OLD, TARGET)
    assert "*Passed* with a date" in text and text.count("*Passed") == 1
    assert not any(f"*{word}*:" in text for word in ("Derived", "Refused", "Rolled back"))
    for result in ("derived", "refused", "rolled back"):
        text = page([_row(adopt=tested), {**_row(adopt={**unit, "result": result}), "kind": "y"}], OLD, TARGET)
        assert "*Passed (lab test)*" in text and "*Passed* with a date" not in text
        found = [word for word in ("Derived", "Refused", "Rolled back") if f"*{word}*:" in text]
        assert found == [result.capitalize()]


def test_other_peoples_files_have_a_row_each() -> None:
    """With where they are, and what became of them; none is there twice."""
    assert len({(each["where"], each["path"]) for each in FILES}) == len(FILES) >= 30
    text = public_files([{"where": "a/b", "path": "c.yaml", "odd": "d", "outcome": "taken over"}])
    assert text.endswith("|---|---|---|\n| a/b: c.yaml | d | taken over |\n")


def test_what_is_refused_has_no_other_columns() -> None:
    """Its words are there."""
    cell = {"result": "refused", "test": "tests/unit/a.py::b", "words": "no way", "adr": "0001-x.md"}
    text = page([_row(adopt=cell)], OLD, TARGET)
    assert "| refused | – | – | – | – |" in text and '"no way" ([why](../adr/0001-x.md)).' in text
