"""`make soak` has parts; what each said is recorded, and a result of old code is shown as such."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from scripts import soak
from scripts.soak import (
    PARTS,
    Result,
    chosen,
    commit_of,
    outdated,
    page,
    promised,
    read_results,
    record,
    releases_in,
)

REPOSITORY = Path(__file__).parents[3]
GUARD, KINDS = PARTS["guard"].pieces, PARTS["kinds"].pieces
PASSED = Result(KINDS, "2026-11-27", "0123456789ab", "0.1.0", 4000, ())
ON_A_LAB = Result(("guard_on_a_lab",), "2026-11-27", "0123456789ab", "0.1.0", 600, ())
PAGES = Result(("guard_pages",), "2026-11-28", "ba9876543210", "0.2.0", 60, ("test_guard_pages",))


def test_each_test_of_the_soak_is_in_one_part() -> None:
    """None is forgotten, and none runs twice."""
    files = [path.stem.removeprefix("test_") for path in (REPOSITORY / "tests/soak").glob("test_*.py")]
    assert Counter(name for part in PARTS.values() for name in part.tests) == Counter(files)


def test_each_file_that_has_the_mark_is_in_one_command() -> None:
    """A test that `make test` leaves out for its mark, in another folder than tests/soak, is run by one part."""
    tests = [path for folder in ("contract", "e2e") for path in (REPOSITORY / "tests" / folder).rglob("test_*.py")]
    marked = [path for path in tests if "mark.soak" in path.read_text()]
    begin = "pytest -m soak "
    commands = [each for part in PARTS.values() for each in part.commands if each.startswith(begin)]
    places = [REPOSITORY / word for each in commands for word in each.removeprefix(begin).split()]
    assert all(place.exists() for place in places)
    assert {path: sum(path.is_relative_to(place) for place in places) for path in marked} == dict.fromkeys(marked, 1)


def test_page_is_current() -> None:
    """docs/soak.md is what `make docs` makes from the recorded results."""
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    assert (REPOSITORY / "docs/soak.md").read_text() == page(read_results(), releases_in(changelog))


def test_result_is_recorded_beside_those_of_other_pieces(tmp_path: Path) -> None:
    """A piece replaces its own result, and that of several once each of them has run again; it is read as written."""
    file = tmp_path / "results" / "soak.json"
    before = Result(("guard_on_a_lab", "guard_pages"), "2026-11-26", "0123456789ab", "0.1.0", 700, ())
    record("kinds", PASSED, file)
    record("guard", before, file)
    record("guard", PAGES, file)
    assert read_results(file) == {"guard": (before, PAGES), "kinds": (PASSED,)}
    record("guard", ON_A_LAB, file)
    assert read_results(file) == {"guard": (PAGES, ON_A_LAB), "kinds": (PASSED,)}


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
    """A failure is named; a result that code has outlived is marked; a part without one says so, as does a piece."""
    text = page({"guard": (ON_A_LAB, PAGES), "kinds": (PASSED,)}, ["0.3.0", "0.2.0", "0.1.0"], "0.3.0")
    lines = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert "**failed**: test_guard_pages in 11 min between 2026-11-27 and 2026-11-28" in lines["guard"]
    assert "(`0123456789ab`, `ba9876543210`, versions 0.1.0, 0.2.0)" in lines["guard"]
    assert "; not recorded yet: pytest -m soak tests/contract/guard; **outdated**" in lines["guard"]
    assert "passed in 1 h 7 min on 2026-11-27 (`0123456789ab`, version 0.1.0); **outdated**" in lines["kinds"]
    assert lines["nodes"].endswith("| not recorded yet |")


def test_soak_says_what_it_will_take() -> None:
    """By what its pieces took last, and which of them have no measurement."""
    results = {"guard": (ON_A_LAB,), "kinds": (PASSED,)}
    assert promised({"kinds": KINDS, "nodes": PARTS["nodes"].pieces}, results) == (
        "about 1 h 7 min for kinds; not recorded yet: what nodes will take (hours, all together)"
    )
    assert promised({"guard": ("guard_on_a_lab", "guard_pages")}, results) == (
        "about 10 min for guard; not recorded yet: what guard (guard_pages) will take (hours, all together)"
    )


def test_pieces_are_chosen_by_name() -> None:
    """A part is all of its pieces, `PART/PIECE` is one; they keep their order, and each runs once."""
    assert chosen(["guard/guard_pages", "guard/guard_on_a_lab", "kinds", "kinds/kinds"]) == {
        "guard": ("guard_on_a_lab", "guard_pages"),
        "kinds": KINDS,
    }
    assert chosen([]) == {name: part.pieces for name, part in PARTS.items()}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gaurd", "there is no part gaurd; there are: upgrades, kills"),
        ("guard/pages", "there is no pages in guard; there are: pytest -m soak tests/contract/guard, guard_on_a_lab"),
    ],
)
def test_unknown_name_is_refused_with_those_that_there_are(name: str, said: str) -> None:
    """Nothing is begun."""
    command = [sys.executable, "-m", "scripts.soak", name]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert said in done.stderr


def test_each_piece_runs_and_is_recorded_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands first, then each file in a process of its own; one that fails doesn't keep the next from running."""
    ran: list[str] = []
    file = tmp_path / "soak.json"

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        ran.append(" ".join(command[2:]).partition(" --junit-xml")[0])
        assert sum(len(each.pieces) for each in read_results(file).get("x", ())) == len(ran) - 1
        return subprocess.CompletedProcess(command, any("rivals" in word for word in command))

    part = soak.Part("x", ("rivals", "stopped"), ("bench.soak --rounds {rounds} --controllers {controllers}",))
    monkeypatch.setattr(soak, "PARTS", {"x": part})
    monkeypatch.setattr(soak, "record", lambda name, result: record(name, result, file))
    monkeypatch.setattr(soak, "commit_of", lambda _: "0123456789ab")
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["soak"])
    monkeypatch.setenv("ROUNDS", "3")
    monkeypatch.delenv("CONTROLLERS", raising=False)
    with pytest.raises(SystemExit, match="True"):
        soak.main()
    assert ran == [
        "bench.soak --rounds 3 --controllers 1",
        "pytest tests/soak/test_rivals.py",
        "pytest tests/soak/test_stopped.py",
    ]
    results = read_results(file)["x"]
    assert [each.pieces for each in results] == [(piece,) for piece in part.pieces]
    assert [each.failed for each in results] == [(), ("test_rivals",), ()]


def test_figures_that_a_test_records_do_not_fail_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pytest itself, with this project's settings, runs a file as a part of the soak."""
    (tmp_path / "tests/soak").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text((REPOSITORY / "pyproject.toml").read_text())
    test = "def test_one(record_property):\n    record_property('seconds', 1)\n"
    (tmp_path / "tests/soak/test_figures.py").write_text(test)
    monkeypatch.setattr(soak, "REPOSITORY", tmp_path)
    assert soak._run_tests("figures", "2026-11-30", "0123456789ab") == ()
