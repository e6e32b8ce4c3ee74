"""What others do during a run is recorded case by case, and docs/charts.md shows it."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from scripts import others_at_work, soak
from scripts.others_at_work import CASES, Seen, page_with_table, read, record, seen_in, table

REPOSITORY = Path(__file__).parents[3]
EDITED, RESTARTED, DELETED = (
    "test_deployment_is_edited_by_hand",
    "test_pods_are_restarted_by_hand",
    "test_pod_is_deleted_by_hand",
)
SEEN = Seen("2026-11-29", "0123456789ab", 40)
JUNIT = f"""<testsuites><testsuite>
<testcase name="{EDITED}" time="40.4"><system-out>text</system-out></testcase>
<testcase name="{RESTARTED}" time="9.6"><failure message="no">text</failure></testcase>
<testcase name="{DELETED}" time="0"><skipped/></testcase>
<testcase name="test_something_else" time="1"/>
</testsuite></testsuites>"""


def test_each_test_is_a_case() -> None:
    """None is missing in the table, and none of the table is gone."""
    module = ast.parse((REPOSITORY / "tests/soak/test_others_at_work.py").read_text())
    functions = (each.name for each in module.body if isinstance(each, ast.FunctionDef))
    assert {name.partition("[")[0] for name in CASES} == {name for name in functions if name.startswith("test_")}


def test_page_is_current() -> None:
    """The table of docs/charts.md is what `make docs` makes from the recorded results."""
    page = (REPOSITORY / "docs/charts.md").read_text()
    assert page == page_with_table(page, read())
    assert table(read()) in page


def test_cases_that_ran_are_recorded_beside_others(tmp_path: Path) -> None:
    """One that failed is shown as failed; what was skipped, or is no case, keeps what was known."""
    junit, file = tmp_path / "junit.xml", tmp_path / "others.json"
    assert seen_in(junit, SEEN.date, SEEN.commit) == {}
    junit.write_text(JUNIT)
    record({RESTARTED: SEEN, DELETED: SEEN}, file)
    record(seen_in(junit, "2026-11-29", "0123456789ab"), file)
    failed = Seen("2026-11-29", "0123456789ab", 10, failed=True)
    assert read(file) == {EDITED: SEEN, RESTARTED: failed, DELETED: SEEN}
    lines = {line.split(" | ")[0]: line for line in table(read(file)).splitlines()}
    assert "(4) | `kubectl-edit` | 40 | 2026-11-29 (`0123456789ab`) |" in lines["| " + CASES[EDITED].other]
    assert "**failed the last time**; expected: succeeds" in lines["| " + CASES[RESTARTED].other]
    assert "not recorded yet" in table({})


def test_some_cases_of_a_part_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are recorded as cases; a file without any is no failure. What failed is named: a file that ran no test,
    too.
    """
    ran: list[list[str]] = []
    recorded: dict[str, Seen] = {}

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(command[2:])
        if "others" in command[3]:
            (junit,) = (word.partition("=")[2] for word in command if word.startswith("--junit-xml="))
            Path(junit).write_text(JUNIT)
            return subprocess.CompletedProcess(command, 1)
        return subprocess.CompletedProcess(command, 5)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(others_at_work, "record", recorded.update)
    files = ("rivals", "others_at_work")
    failed = [soak._run_tests(name, "2026-11-29", "0123456789ab", "edited or restarted") for name in files]
    assert failed == [(), (f"test_others_at_work::{RESTARTED}",)]
    assert [(command[1], command[2:4]) for command in ran] == [
        (f"tests/soak/test_{name}.py", ["-k", "edited or restarted"]) for name in files
    ]
    assert set(recorded) == {EDITED, RESTARTED} and recorded[RESTARTED].failed
    assert soak._run_tests("rivals", "2026-11-29", "0123456789ab") == ("test_rivals",)
