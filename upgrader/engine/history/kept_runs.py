"""Which runs of a cluster folder are kept, and how the others are removed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from upgrader.engine.history.past_runs import past_run
from upgrader.engine.history.run_folders import run_folders
from upgrader.engine.state.run_state import RunState
from upgrader.errors import UsageError

__all__ = ["prune", "surplus"]

_REMOVING = ".removing-"


def prune(runs: Path, keep: int) -> tuple[str, ...]:
    """Remove all but the newest `keep` (≥ 1) runs and the upgrades that are needed; returns the names of the removed.

    See `surplus` for which those are. Only folders with a run's name are touched. Raises UsageError for one that can't
    be removed.
    """
    try:
        return _prune(runs, keep)
    except OSError as error:
        raise UsageError(
            f"{error.filename or runs}, of an old run, can't be removed: {error.strerror}; nothing was changed",
            remedy="Remove it by hand, or raise policy.keepRuns in upgrader.yaml.",
        ) from error


def surplus(names: Sequence[str], state: Callable[[str], RunState], keep: int) -> tuple[str, ...]:
    """The runs that may be removed: all but the newest `keep`, and the upgrades that are still needed.

    Those are the last one, which can be resumed or rolled back, and the last that succeeded, however many runs of
    `recover` and `adopt` came after. `names` are oldest first, as far as the times in them tell; `state` is a run's,
    empty where its journal is invalid. An upgrade from a machine whose clock was behind looks old: its number tells.
    """
    old = tuple(names[:-keep])
    if not old:
        return ()
    needed: dict[str, int] = {}
    for name in reversed(names):  # the newest is usually both, so that no other journal is read
        found = state(name)
        succeeded = found.is_upgrade and found.outcome == "succeeded"
        if succeeded or (found.is_upgrade and not needed):
            needed[name] = found.sequence
        if succeeded:
            break
    newest = max(needed.values(), default=0)

    def may_go(name: str) -> bool:
        if name in needed:
            return False
        found = state(name)
        return not (found.is_upgrade and found.sequence > newest)

    return tuple(filter(may_go, old))


def _prune(runs: Path, keep: int) -> tuple[str, ...]:
    names = [folder.name for folder in run_folders(runs)]
    removed = surplus(names, lambda name: past_run(runs / name).state, keep)
    old = [runs / name for name in removed]
    for folder in old:
        # Renamed first, so that a crash during the removal leaves no run without a journal.
        folder.rename(folder.with_name(_REMOVING + folder.name))
    for folder in runs.glob(f"{_REMOVING}*"):
        shutil.rmtree(folder)
    return removed
