"""Which runs a cluster folder keeps, and which it removes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.engine.journals import a_run
from upgrader.engine.history.kept_runs import prune, surplus
from upgrader.engine.history.past_runs import past_runs
from upgrader.engine.state.run_state import RunState
from upgrader.errors import UsageError
from upgrader.model.run_kind import RunKind


def names(runs: Path) -> list[str]:
    """The runs that are there."""
    return [run.name for run in past_runs(runs)]


def test_nothing_to_remove(tmp_path: Path) -> None:
    """A cluster folder that never saw a run has nothing to remove."""
    assert prune(tmp_path / "runs", 1) == ()


def test_newest_runs_are_kept(tmp_path: Path) -> None:
    """Runs older than the newest N are removed, folder and all."""
    made = [a_run(tmp_path, day) for day in range(1, 6)]
    assert prune(tmp_path, 3) == tuple(made[:2])
    assert names(tmp_path) == made[2:]
    assert [path.name for path in tmp_path.iterdir() if path.name not in made] == []


def test_last_successful_run_is_kept(tmp_path: Path) -> None:
    """However many failures came after it, the last run that succeeded stays; earlier successes are removed."""
    a_run(tmp_path, 1)
    good = a_run(tmp_path, 2)
    made = [a_run(tmp_path, day, "rolled-back") for day in range(3, 8)]
    prune(tmp_path, 2)
    assert names(tmp_path) == [good, *made[-2:]]


def test_runs_of_other_sorts_push_no_upgrade_out(tmp_path: Path) -> None:
    """However often `recover` was run since, the last upgrade, and the last upgrade that succeeded, are kept."""
    good, interrupted = a_run(tmp_path, 1), a_run(tmp_path, 3, None)
    a_run(tmp_path, 2, "rolled-back")
    made = [a_run(tmp_path, day, "succeeded", RunKind.RECOVER) for day in range(4, 8)]
    prune(tmp_path, 1)
    assert names(tmp_path) == [good, interrupted, made[-1]]


@pytest.mark.parametrize("damaged", [False, True])
def test_run_that_can_go_on_is_kept(tmp_path: Path, damaged: bool) -> None:
    """The newest run stays when it was interrupted, and when its journal is not valid."""
    for day in (1, 2):
        a_run(tmp_path, day)
    newest = a_run(tmp_path, 3, None)
    if damaged:
        (tmp_path / newest / "journal.jsonl").write_bytes(b"garbage\n")
    prune(tmp_path, 1)
    assert newest in names(tmp_path)


def test_only_runs_are_removed(tmp_path: Path) -> None:
    """Folders and files of other names, and links, are not touched."""
    made = [a_run(tmp_path, day) for day in (1, 2, 3)]
    (tmp_path / "notes").mkdir()
    (tmp_path / ".lock").touch()
    elsewhere = tmp_path.parent / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "20250101T000000-linked").symlink_to(elsewhere)
    prune(tmp_path, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "20250101T000000-linked", made[2], "notes"]


def test_interrupted_removal_is_completed(tmp_path: Path) -> None:
    """A folder whose removal was interrupted is not a run any more, and is removed the next time."""
    half = tmp_path / f".removing-{a_run(tmp_path, 1)}"
    (tmp_path / half.name.removeprefix(".removing-")).rename(half)
    newest = a_run(tmp_path, 2)
    assert names(tmp_path) == [newest]
    prune(tmp_path, 5)
    assert not half.exists()


def test_run_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that can't be removed is an error that names it, before the run changes anything."""
    old = a_run(tmp_path, 1)
    a_run(tmp_path, 2)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("upgrader.engine.history.kept_runs.shutil.rmtree", refuse)
    with pytest.raises(UsageError, match=rf"{old}.* Permission denied"):
        prune(tmp_path, 1)


def test_upgrade_of_a_machine_whose_clock_is_behind_is_kept() -> None:
    """A CI runner without a clock began the newest upgrade, in 1970 by its name: the places that sort runs by their
    names keep it all the same, as it is to be resumed. An older one of that runner goes.
    """
    named = {f"202601{day:02d}T000000-v1.37.1": RunState(run="r", sequence=day, outcome="succeeded") for day in (1, 2)}
    older = {"19700101T000000-v1.37.1": RunState(run="r", sequence=1)}
    newest = {"19700101T000100-v1.37.1": RunState(run="r", sequence=3)}
    states = {**older, **newest, **named}
    assert surplus(sorted(states), states.__getitem__, 1) == ("19700101T000000-v1.37.1", "20260101T000000-v1.37.1")
