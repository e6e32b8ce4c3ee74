"""What `upgrader certs renew` shows before it asks, and says afterwards."""

from __future__ import annotations

from click.testing import CliRunner, Result

from tests.unit.app.test_certificate_renewal import Place, place
from upgrader.cli.main import cli

__all__ = ["place"]


def renew(place: Place, *arguments: str, answer: str = "") -> Result:
    """The command, in the cluster's folder."""
    return CliRunner().invoke(cli, ["-C", str(place.folder), "certs", "renew", *arguments], input=answer)


def test_dry_run_shows_and_changes_nothing(place: Place) -> None:
    """Each certificate with its end, each step, and that nothing was changed."""
    ended = renew(place, "--dry-run", "--within", "60d")
    assert ended.exit_code == 0, ended.output
    lines = [line.split() for line in ended.output.splitlines()]
    assert ["controller-1", "apiserver", "2026-01-21", "00:00", "20", "d"] in lines
    assert "kubeadm certs renew apiserver" in ended.output and "Nothing was changed." in ended.output
    assert set(place.serials().values()) == {0}


def test_declined(place: Place) -> None:
    """It asks first, and no is no."""
    ended = renew(place, answer="n\n")
    assert ended.exit_code == 1 and "Renew these certificates?" in ended.output
    assert set(place.serials().values()) == {0}


def test_done(place: Place) -> None:
    """Whoever has a copy of admin.conf hears that it is another file; a second time there is nothing to renew."""
    ended = renew(place, "--yes")
    assert ended.exit_code == 0, ended.output
    assert "was not renewed. If it is a copy" in ended.output
    again = renew(place, "--yes", "--within", "30d")
    assert again.exit_code == 0 and "Nothing to renew" in again.output


def test_nothing_is_said_of_kubeconfigs_that_stay(place: Place) -> None:
    """Of which no copy gets old."""
    place.hosts.certificates["controller-1"].pop("super-admin.conf")
    ended = renew(place, "--yes", "--within", "60d")
    assert ended.exit_code == 0 and "is a copy" not in ended.output
