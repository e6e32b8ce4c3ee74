"""What the commands that add and remove controllers refuse by themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.cli.main import cli
from upgrader.errors import UsageError


def test_undo_and_new_controllers_exclude_each_other(tmp_path: Path) -> None:
    """One restores what the other adopts; nothing is read before that is said."""
    arguments = ["-C", str(tmp_path), "adopt", "--undo", "--new-controllers"]
    with pytest.raises(UsageError, match="can't be combined"):
        cli.main(arguments, standalone_mode=False)
