"""`make soak` has parts; what each said is recorded, and a result of old code is shown as such."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from scripts import soak
from scripts.soak import PARTS, Result, commit_of, outdated, page, promised, read_results, record, releases_in

REPOSITORY = Path(__file__).parents[3]
PASSED = Result("2026-11-27", "0123456789ab", "0.1.0", 4000, ())


def test_each_test_of_the_soak_is_in_one_part() -> None:
    """None is forgotten, and none runs twice."""
    files = [path.stem.removeprefix("test_") for path in (REPOSITORY / "tests/soak").glob("test_*.py")]
    assert Counter(name for part in PARTS.values() for name in part.tests) == Counter(files)


def test_page_is_current() -> None:
    """docs/soak.md is what `make docs` makes from the recorded results."""
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    assert (REPOSITORY / "docs/soak.md").read_text() == page(read_results(), releases_in(changelog))


def test_result_is_recorded_beside_those_of_other_parts(tmp_path: Path) -> None:
    """A part replaces its own, and is read as it was written."""
    file = tmp_path / "results" / "soak.json"
    record("guard", PASSED, file)
    record("kinds", PASSED, file)
    failed = Result("2026-11-28", "0123456789ab+", "0.1.0", 60, ("test_guard_pages",))
    record("guard", failed, file)
    assert read_results(file) == {"guard": failed, "kinds": PASSED}


def test_recorded_results_do_not_make_a_commit_another(tmp_path: Path) -> None:
    """A part that follows another names the same commit; files that differ are shown by "+"."""

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *arguments], cwd=tmp_path, check=True)

    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message", "first")
    for path in ("bench/results/soak.json", "docs/soak.md"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    assert not commit_of(tmp_path).endswith("+")
    (tmp_path / "docs/other.md").touch()
    assert commit_of(tmp_path).endswith("+")


@pytest.mark.parametrize(
    ("of", "present", "old"),
    [("0.3.0", "0.3.0", False), ("0.2.0", "0.3.0", False), ("0.1.0", "0.3.0", True), ("0.3.0", "0.4.0", False)],
)
def test_result_is_outdated_after_more_than_a_release(of: str, present: str, old: bool) -> None:
    """The present version and the release before it count as current; a version under development is one of its own."""
    assert outdated(of, ["0.3.0", "0.2.0", "0.1.0"], present) is old


def test_page_says_what_failed_and_what_is_outdated() -> None:
    """A failure is named; a result that code has outlived is marked; a part without one says so."""
    failed = Result("2026-11-28", "ba9876543210", "0.2.0", 60, ("test_guard_pages",))
    text = page({"guard": failed, "kinds": PASSED}, ["0.3.0", "0.2.0", "0.1.0"], "0.3.0")
    lines = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert "**failed**: test_guard_pages in 1 min on 2026-11-28 (`ba9876543210`, version 0.2.0) |" in lines["guard"]
    assert "passed in 1 h 7 min" in lines["kinds"] and "**outdated**, as 0.3.0 has changed since" in lines["kinds"]
    assert lines["nodes"].endswith("| not recorded yet |")


def test_soak_says_what_it_will_take() -> None:
    """By what its parts took last, and which of them nobody has measured."""
    said = promised(["guard", "kinds"], {"guard": PASSED})
    assert said == "about 1 h 7 min for guard; not recorded yet: what kinds will take (hours, all together)"


def test_unknown_part_is_refused_with_those_that_there_are() -> None:
    """Nothing is begun."""
    command = [sys.executable, "-m", "scripts.soak", "gaurd"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert "there is no part gaurd; there are: upgrades, kills" in done.stderr


def test_part_runs_all_of_its_tests_and_tells_those_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands first, then each file in a process of its own; one that fails doesn't keep the next from running."""
    ran: list[str] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(" ".join(command[2:]))
        return subprocess.CompletedProcess(command, any("rivals" in word for word in command))

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setenv("ROUNDS", "3")
    monkeypatch.delenv("CONTROLLERS", raising=False)
    part = soak.Part("x", ("rivals", "stopped"), ("bench.soak --rounds {rounds} --controllers {controllers}",))
    assert soak._run(part, "2026-11-29", "0123456789ab") == ("test_rivals",)
    assert [line.partition(" --junit-xml")[0] for line in ran] == [
        "bench.soak --rounds 3 --controllers 1",
        "pytest tests/soak/test_rivals.py",
        "pytest tests/soak/test_stopped.py",
    ]
