"""Changed copies of frozen values."""

from __future__ import annotations

import pytest

from upgrader.engine.state.copies import changed
from upgrader.engine.state.run_state import RunState


def test_copy_has_the_changes_and_everything_else() -> None:
    """The value itself stays as it is."""
    before = RunState(run="r1", reason="why")
    assert changed(before, run="r2") == RunState(run="r2", reason="why")
    assert before.run == "r1"


def test_field_that_there_is_not() -> None:
    """A misspelt field is an error, as it is with dataclasses.replace."""
    with pytest.raises(TypeError, match="RunState has no field runn"):
        changed(RunState(), runn="r2")
