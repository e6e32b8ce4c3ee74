"""`upgrader report`: a run's reports from its journal alone."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import webbrowser
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from testkit import example_runs as runs
from testkit.example_runs import RUN, journal_of
from testkit.fakes.clock import FakeClock
from upgrader.adapters.clock import SystemClock
from upgrader.cli.main import cli
from upgrader.config.plain_file import read_plain
from upgrader.engine.journal import journal_file
from upgrader.engine.journal.journal_file import Journal
from upgrader.engine.locks.folder_lock import folder_lock
from upgrader.errors import JournalError, UsageError
from upgrader.reporting.report import formats

LATER = "20260102T000000-v1.37.1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster folder with a run that was killed, and that left no report."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    journal_of(runs.INTERRUPTED, tmp_path)
    return tmp_path


def upgrader(folder: Path, *arguments: str) -> Result:
    """Run a command on the folder."""
    return CliRunner().invoke(cli, ["-C", str(folder), *arguments], catch_exceptions=False)


def test_report_of_a_run_that_was_killed(folder: Path) -> None:
    """All four files are there, readable by their owner alone, and the page's path is printed."""
    output = upgrader(folder, "report").stdout
    run = folder / "runs" / RUN
    assert output == f"{run / 'report.html'}\n"
    assert sorted(path.name for path in run.iterdir()) == [
        "journal.jsonl",
        "junit.xml",
        "report.html",
        "report.json",
        "report.md",
    ]
    assert {stat.S_IMODE(path.stat().st_mode) for path in run.iterdir()} == {0o600}
    assert "Interrupted" in (run / "report.html").read_text()
    assert json.loads((run / "report.json").read_text())["outcome"] == "interrupted"


def test_one_form_on_standard_output(folder: Path) -> None:
    """`-o` prints and writes no file; the run is the one that is named."""
    journal_of(runs.GOOD, folder, LATER)
    assert upgrader(folder, "report", RUN, "-o", "markdown").stdout.startswith("### ? Upgrade to v1.37.1: interrupted")
    assert upgrader(folder, "report", "-o", "markdown").stdout.startswith("### ✔ Upgrade to v1.37.1: succeeded")
    assert json.loads(upgrader(folder, "report", "-o", "json").stdout)["run"] == LATER
    assert upgrader(folder, "report", "-o", "junit").stdout.startswith("<?xml")
    assert upgrader(folder, "report", "-o", "html").stdout.startswith("<!doctype html>")
    assert [path.name for path in (folder / "runs" / RUN).iterdir()] == ["journal.jsonl"]


def test_running_run_is_not_called_interrupted(folder: Path) -> None:
    """While a process works on the run, its report says so."""
    with folder_lock(folder, "anna@laptop (process 7)", FakeClock()):
        path = folder / "runs" / "20990101T000000-v1.37.1" / "journal.jsonl"
        path.parent.mkdir()
        journal = Journal(path, SystemClock())
        for _, event in runs.INTERRUPTED[:-4]:
            journal.emit(event)
        journal.close()
        assert "It is still running" in upgrader(folder, "report", "-o", "html").stdout
        assert "It was interrupted" in upgrader(folder, "report", RUN, "-o", "html").stdout
    assert "It was interrupted" in upgrader(folder, "report", "-o", "html").stdout


def test_one_journal_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have megabytes each: that of the run is read, whichever it is, and no other."""
    journal_of(runs.GOOD, folder, LATER)
    read: list[str] = []

    def reading(path: Path, most_bytes: int) -> bytes:
        read.append(path.parent.name)
        return read_plain(path, most_bytes)

    monkeypatch.setattr(journal_file, "read_plain", reading)
    upgrader(folder, "report", "-o", "junit")
    upgrader(folder, "report", RUN, "-o", "junit")
    assert read == [LATER, RUN]


def test_nothing_is_imported_that_asks_a_cluster() -> None:
    """A report of a run in the folder is there in a moment: those imports alone would take a second."""
    look = "import sys, upgrader.cli.report; sys.exit('upgrader.app.wiring' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0


def test_redacted(folder: Path) -> None:
    """Names of the inventory and addresses are replaced."""
    (folder / "hosts.yml").write_text("controllers: {hosts: {controller-1: {ansible_host: 192.168.77.11}}}\n")
    journal_of(runs.ROLLED_BACK, folder, LATER)
    shown = upgrader(folder, "report", "--redacted", "-o", "html").stdout
    assert "on host-1 exits at once" in shown and "using address-1" in shown
    assert "controller-1" not in shown and "192.168" not in shown


def test_redacted_without_an_inventory_is_refused(folder: Path) -> None:
    """Names that are not known can't be replaced: rather no report than one that tells them."""
    with pytest.raises(UsageError, match="host names can't be replaced"):
        upgrader(folder, "report", "--redacted", "-o", "html")


def test_compared(folder: Path) -> None:
    """Two runs side by side, for people and for programs."""
    journal_of(runs.GOOD, folder, LATER)
    shown = upgrader(folder, "report", "--compare", RUN, LATER).stdout
    assert RUN in shown.splitlines()[0] and LATER in shown.splitlines()[0]
    assert "kube-apiserver" in shown and "longest gap of the API" in shown
    found = json.loads(upgrader(folder, "report", "--compare", RUN, LATER, "-o", "json").stdout)
    assert found["runs"] == [RUN, LATER]
    assert "| `images` |" in upgrader(folder, "report", "--compare", RUN, LATER, "-o", "markdown").stdout


def test_opened_in_a_browser(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is made, then opened; where there is no browser, its path is said."""
    opened: list[str] = []

    def no_browser(address: str) -> bool:
        opened.append(address)
        return False

    monkeypatch.setattr(webbrowser, "open", no_browser)
    result = upgrader(folder, "report", "--open")
    assert opened == [(folder / "runs" / RUN / "report.html").as_uri()]
    assert "No browser could be started" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--open", "-o", "html"], "--open and -o can't be combined"),
        (["--redacted"], "--redacted needs -o"),
        (["--compare", RUN, RUN, "-o", "html"], "--compare can only be combined with two runs"),
        (["--compare", RUN, RUN, "--redacted"], "--compare can only be combined with two runs"),
        (["20200101T000000-v1.0.0"], "there is no run 20200101T000000-v1.0.0"),
    ],
)
def test_what_makes_no_sense_is_refused(folder: Path, arguments: list[str], message: str) -> None:
    """Nothing is printed and no file is written, and the error says what is wrong."""
    with pytest.raises(UsageError, match=message):
        upgrader(folder, "report", *arguments)
    assert [path.name for path in (folder / "runs" / RUN).iterdir()] == ["journal.jsonl"]


def test_damaged_journal_has_no_report(folder: Path) -> None:
    """A report of a journal that was changed might say what never happened: the older files stay as they are."""
    path = folder / "runs" / RUN / "journal.jsonl"
    path.write_bytes(path.read_bytes().replace(b"kube-apiserver", b"kube-apiservez", 1))
    with pytest.raises(UsageError, match=r"journal\.jsonl:1"):
        upgrader(folder, "report")


def test_no_run_yet(tmp_path: Path) -> None:
    """A new folder has none, and says why others' could not be read."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    with pytest.raises(UsageError, match="no run in this folder; the runs of other machines could not be read"):
        upgrader(tmp_path, "report")


def test_other_folders_are_refused(tmp_path: Path) -> None:
    """Where there is no upgrader.yaml there is no cluster."""
    with pytest.raises(UsageError, match=r"no upgrader\.yaml"):
        upgrader(tmp_path, "report")


def test_full_disk_says_how_the_run_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that can't be written is an error with the file's name; the journal has everything."""

    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(formats, "write_atomic", no_room)
    with pytest.raises(JournalError, match=r"report\.json can't be written: No space left"):
        upgrader(folder, "report")
