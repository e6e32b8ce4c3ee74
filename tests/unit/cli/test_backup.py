"""`upgrader backup keygen`: a key for backups, without a program that nobody has installed."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from upgrader.cli.main import cli
from upgrader.config.age_recipient import check_recipient
from upgrader.errors import UsageError
from upgrader.steps.backup.identity_file import read_identities


def test_a_key_is_made(tmp_path: Path) -> None:
    """What is printed is a line of upgrader.yaml, the file is for its owner alone, and `--identity` takes it."""
    result = CliRunner().invoke(cli, ["-C", str(tmp_path), "backup", "keygen", str(tmp_path / "key.txt")])
    assert result.exit_code == 0, result
    (public,) = yaml.safe_load(result.stdout)["backup"]["recipients"]
    assert check_recipient(public) == public
    (private,) = read_identities(tmp_path / "key.txt")
    assert private not in result.output
    assert stat.S_IMODE((tmp_path / "key.txt").stat().st_mode) == 0o600


def test_a_key_that_is_there_stays(tmp_path: Path) -> None:
    """Without it, nothing would read the backups that it was made for."""
    (tmp_path / "key.txt").write_text("mine")
    error = CliRunner().invoke(cli, ["-C", str(tmp_path), "backup", "keygen", str(tmp_path / "key.txt")]).exception
    assert isinstance(error, UsageError) and "doesn't replace a private key" in error.message
    assert (tmp_path / "key.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("where", "why"), [("cluster/key.txt", "is in the cluster folder"), ("none/key.txt", "can't be written")]
)
def test_a_place_for_no_key_is_refused(tmp_path: Path, where: str, why: str) -> None:
    """The cluster's folder is committed and copied; a folder that isn't there is named."""
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster/upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    error = CliRunner().invoke(cli, ["-C", str(tmp_path / "cluster"), "backup", "keygen", str(tmp_path / where)])
    assert isinstance(error.exception, UsageError) and why in error.exception.message
    assert not (tmp_path / where).exists()
