"""The folder with backups, and the file with the key."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from upgrader.adapters.age import AgeFiles
from upgrader.errors import UsageError
from upgrader.steps.backup.identity_file import read_identities
from upgrader.steps.backup.store import backups, claim, prune, remove_unfinished
from upgrader.steps.backup.verify import BackupFile

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
KEY = "AGE-SECRET-KEY-1QQQ"


def put(folder: Path, *ages_in_days: int) -> list[Path]:
    """Backups of such ages, oldest first."""
    made = []
    for days in ages_in_days:
        made.append(folder / f"{NOW - timedelta(days=days):%Y%m%dT%H%M%S}-v1.36.3.tar.age")
        made[-1].touch()
    return made


def test_the_newest_are_kept(tmp_path: Path) -> None:
    """As many as wanted stay, and other files are never touched."""
    made = put(tmp_path, 9, 8, 7)
    (tmp_path / "mine.tar.age").touch()
    assert prune(tmp_path, made[-1], keep=2, max_age_seconds=None, now=NOW) == (made[0],)
    assert backups(tmp_path) == made[1:]
    assert (tmp_path / "mine.tar.age").exists()


def test_retries_do_not_push_out_the_backup_of_the_older_minor(tmp_path: Path) -> None:
    """Each retry of an upgrade takes one; the way back to the minor before is in the one that is older than all."""
    old = tmp_path / f"{NOW - timedelta(days=9):%Y%m%dT%H%M%S}-v1.35.9.tar.age"
    old.touch()
    made = put(tmp_path, 4, 3, 2)
    assert prune(tmp_path, made[-1], keep=1, max_age_seconds=None, now=NOW) == tuple(made[:2])
    assert backups(tmp_path) == [old, made[-1]]


def test_a_folder_is_one_clusters(tmp_path: Path) -> None:
    """Of two clusters that share a folder, each would remove the other's backups: the second is refused."""
    claim(tmp_path, "")
    claim(tmp_path, "uid-1")
    claim(tmp_path, "uid-1")
    with pytest.raises(UsageError, match="backups of another cluster") as refused:
        claim(tmp_path, "uid-2")
    assert "backup.folder" in (refused.value.remedy or "")


def test_old_ones_go_but_never_the_newest(tmp_path: Path) -> None:
    """Age removes all but the newest, which stays even if it is too old itself."""
    made = put(tmp_path, 9, 8, 7)
    assert prune(tmp_path, made[-1], keep=5, max_age_seconds=86400.0, now=NOW) == tuple(made[:2])
    assert backups(tmp_path) == made[2:]


@pytest.mark.parametrize("keep", [1, 2])
def test_the_one_just_taken_stays_beside_those_of_a_clock_that_was_ahead(tmp_path: Path, keep: int) -> None:
    """By their names those are newer, and it would be the oldest."""
    made = put(tmp_path, 0, -40, -41)
    prune(tmp_path, made[0], keep=keep, max_age_seconds=86400.0, now=NOW)
    assert backups(tmp_path) == [made[0], *([made[2]] if keep > 1 else [])]


def test_a_name_with_no_time_is_not_ours(tmp_path: Path) -> None:
    """It looks like ours, but no clock says 99 o'clock."""
    made, other = put(tmp_path, 0), tmp_path / "20261399T999999.tar.age"
    other.touch()
    assert prune(tmp_path, made[0], keep=1, max_age_seconds=1.0, now=NOW) == ()
    assert other.exists()


def test_unfinished_ones_are_removed(tmp_path: Path) -> None:
    """What a killed backup left goes with the next one."""
    (tmp_path / "20261123T120000-v1.36.3.tar.age.part").touch()
    (tmp_path / "other.part").touch()
    remove_unfinished(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other.part"]


def identity(folder: Path, content: str, mode: int = 0o600) -> Path:
    """A file with a key."""
    path = folder / "key.txt"
    path.write_text(content)
    path.chmod(mode)
    return path


def test_keys_are_read_as_age_keygen_writes_them(tmp_path: Path) -> None:
    """Comments and empty lines are left out."""
    assert read_identities(identity(tmp_path, f"# public key: age1…\n\n{KEY}\n")) == (KEY,)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    """The error says who can read it, and how to change that."""
    with pytest.raises(UsageError, match="other users can read it") as caught:
        read_identities(identity(tmp_path, KEY, mode))
    assert caught.value.remedy == f"chmod 600 {tmp_path}/key.txt"


def test_a_wrong_line_is_named_but_not_quoted(tmp_path: Path) -> None:
    """File and line; what is in it may be a secret of another kind."""
    with pytest.raises(UsageError, match=r"key\.txt:2: this line") as caught:
        read_identities(identity(tmp_path, "# a comment\nhunter2\n"))
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize(("content", "why"), [("", "has no age private key"), ("# nothing\n", "has no age private")])
def test_a_file_without_a_key_is_refused(tmp_path: Path, content: str, why: str) -> None:
    """An empty file is no key."""
    with pytest.raises(UsageError, match=why):
        read_identities(identity(tmp_path, content))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody writes into it."""
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UsageError, match="is not a file"):
        read_identities(tmp_path / "pipe")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """So is one that is a folder."""
    with pytest.raises(UsageError, match="No such file"):
        read_identities(tmp_path / "missing")
    with pytest.raises(UsageError, match=str(tmp_path)):
        read_identities(tmp_path)


def test_a_key_is_in_no_representation(tmp_path: Path) -> None:
    """A step's is its method's, and that is the whole restore's: one line of debugging would show the key."""
    assert KEY not in repr(BackupFile(tmp_path, (KEY,), AgeFiles()))
