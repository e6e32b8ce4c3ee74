"""A folder of a controller in which one program at a time works."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.onhost.common.private_folder import locked
from upgrader.onhost.common.questions import Failed


def test_one_at_a_time(tmp_path: Path) -> None:
    """The second one is told what keeps it, and comes in once the first has left."""
    folder = str(tmp_path / "kept")
    with locked(folder, 1, "busy"), pytest.raises(Failed, match="busy"), locked(folder, 0, "busy"):
        pass
    with locked(folder, 0, "busy"):
        pass


def test_folder_of_somebody_else(tmp_path: Path) -> None:
    """Where others may write or read, or a link leads elsewhere, nothing is done."""
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    (tmp_path / "link").symlink_to(folder)
    for each in (folder, tmp_path / "link"):
        with pytest.raises(Failed, match="only root"), locked(str(each), 1, "busy"):
            pass
