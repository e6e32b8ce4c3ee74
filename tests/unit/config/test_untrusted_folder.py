"""A folder that anyone may have written is looked through in as many steps as it has files."""

from __future__ import annotations

from pathlib import Path

import pytest

from upgrader.config.untrusted_folder import NotOpened, UntrustedFolder


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was checked."""
    found: list[Path] = []
    check = UntrustedFolder.check

    def counted(folder: UntrustedFolder, path: Path) -> None:
        found.append(path)
        check(folder, path)

    monkeypatch.setattr(UntrustedFolder, "check", counted)
    return found


def test_links_in_a_circle_are_followed_once(tmp_path: Path, checked: list[Path]) -> None:
    """Folders that contain each other are refused when the first link leads back, and not after forty rounds."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for link in range(3):
            (tmp_path / name / f"{link}").symlink_to("../b" if name == "a" else "../a")
    with pytest.raises(NotOpened, match="is a link to a folder"):
        UntrustedFolder(tmp_path).check_tree(tmp_path / "a")
    assert len(checked) == 3


def test_folder_that_many_links_lead_to_is_looked_through_once(tmp_path: Path, checked: list[Path]) -> None:
    """Each of twelve folders has two links to the next one: no circle, and 24 links instead of 8,000 paths."""
    for number in range(13):
        (tmp_path / f"{number}").mkdir()
    for number in range(12):
        for link in ("x", "y"):
            (tmp_path / f"{number}" / link).symlink_to(f"../{number + 1}")
    UntrustedFolder(tmp_path).check_tree(tmp_path / "0")
    assert len(checked) == 25
