"""What a Job's container does, with a stub of the command."""

from __future__ import annotations

import io
import json
import os
import signal
from pathlib import Path

import pytest

from upgrader.errors import Blocked, Interrupted, UsageError
from upgrader.fleet import job_process
from upgrader.fleet.copies_in_secrets import chunks_of
from upgrader.fleet.end_signals import end_signals
from upgrader.fleet.events import Pins
from upgrader.fleet.job_objects import end_of
from upgrader.fleet.job_process import run_in_job
from upgrader.fleet.outcomes import CommandEnd, command_end

LINE = (
    '{"format_version":"1.0","time":"2026-12-01T00:00:00Z","type":"CommandEnded","data":{"exit_code":%d,"run":"r"%s}}'
)


class Container:
    """Its folders, with the chunks of a cluster folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.copies = folder / "clusters" / "a", folder / "work" / "inputs"
        self.termination, self.said = folder / "termination", io.StringIO()
        self.chunks = folder / "chunks"
        self.chunks.mkdir()
        made = folder / "made"
        own = Path(f"{made}{self.folder}")
        own.mkdir(parents=True)
        (own / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
        for number, chunk in enumerate(chunks_of(made, str(self.copies))):
            (self.chunks / f"{number:04}").write_bytes(chunk)

    def run(self, script: str, pins: str = "1/c/p") -> int:
        program = ("sh", "-c", script, "sh")
        places = (self.chunks, self.folder, self.copies, self.termination)
        with end_signals() as signals:
            return run_in_job(*places, pins, ["run"], output=self.said, signals=signals, program=program)

    def end(self) -> CommandEnd | None:
        return command_end(self.termination.read_bytes())


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Container:
    monkeypatch.setattr(job_process, "own_pins", lambda: Pins("1", "c", "p"))
    return Container(tmp_path)


def test_run_has_its_inputs_and_leaves_its_last_words(container: Container) -> None:
    """It reads the copies, in a folder of its own; what it writes is passed on, and its last line is left."""
    script = f"echo $UPGRADER_APPROVED_COPIES; echo $1; echo '{LINE % (4, '')}'; echo; exit 4"
    assert container.run(script) == 4
    assert container.said.getvalue().splitlines()[:2] == [str(container.copies), "run"]
    assert container.end() == command_end(LINE % (4, "")) is not None
    assert (container.folder / "upgrader.yaml").is_file() and container.folder.stat().st_mode & 0o777 == 0o700


def test_words_that_are_too_long_are_cut(container: Container) -> None:
    """What the kubelet takes is still the whole line of an end, with each text's beginning."""
    error = json.dumps({"code": "GateFailed", "what": "w" * 90, "where": "x" * 9000, "why": "\u20ac" * 9000})
    (container.chunks.parent / "line").write_text(LINE % (4, f',"error":{error}'))
    container.run(f"cat {container.chunks.parent / 'line'}")
    end = container.end()
    assert container.termination.stat().st_size <= 4096
    assert end is not None and (end.run, end.code, end.what) == ("r", "GateFailed", "w" * 90)
    assert end.why and set(end.why) == {"\u20ac"}


def test_run_that_was_killed_leaves_no_words(container: Container) -> None:
    """Neither half a line nor any other; its exit code is a shell's."""
    assert container.run("echo '{'; kill -9 $$") == 137
    assert not container.termination.exists()


def test_signal_is_handed_on(container: Container) -> None:
    """The run is told to stop, as the kubelet tells its container."""
    handler = signal.getsignal(signal.SIGTERM)
    assert container.run(f"trap 'exit 130' TERM; kill -TERM {os.getpid()}; while :; do :; done") == 130
    assert signal.getsignal(signal.SIGTERM) == handler


def readable(container: Container) -> CommandEnd | None:
    """What the coordinator reads in the pod's status."""
    terminated = {"exitCode": Interrupted.exit_code, "message": container.termination.read_text()}
    return end_of({"status": {"containerStatuses": [{"name": "run", "state": {"terminated": terminated}}]}})


def test_signal_before_the_run(container: Container, monkeypatch: pytest.MonkeyPatch) -> None:
    """No run is begun, and the coordinator reads why; the Job may try again."""

    def told() -> Pins:
        os.kill(os.getpid(), signal.SIGTERM)
        return Pins("1", "c", "p")

    monkeypatch.setattr(job_process, "own_pins", told)
    with pytest.raises(Interrupted, match="before its run began"):
        container.run(f"touch {container.chunks}/ran")
    end = readable(container)
    assert end is not None and (end.exit_code, end.run, end.code) == (130, "", "Interrupted")
    assert "terminated before its run began" in end.what and not (container.chunks / "ran").exists()


def test_signal_that_the_run_could_not_take_yet(container: Container) -> None:
    """A run that it ends while it starts has not said so: its container does, with the code of an interruption."""
    with pytest.raises(Interrupted, match="ended without a result"):
        container.run(f"kill -TERM {os.getpid()}; while :; do :; done")
    end = readable(container)
    assert end is not None and (end.exit_code, end.code) == (130, "Interrupted")


def test_image_with_another_upgrader_begins_nothing(container: Container) -> None:
    """It is refused, names both, and says so to the coordinator."""
    with pytest.raises(Blocked, match="has the upgrader 1/c/p, but the campaign was started with 2/c/p"):
        container.run("exit 0", pins="2/c/p")
    end = container.end()
    assert end is not None and (end.exit_code, end.code) == (3, "Blocked") and not container.copies.exists()


def test_places_that_can_not_be_written(container: Container) -> None:
    """The folder of the cluster, and the file of the last words: each is named."""
    container.folder.parent.write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        container.run("exit 0")
    end = container.end()
    assert end is not None and end.exit_code == 2
    container.folder.parent.unlink()
    container.termination.unlink()
    container.termination.mkdir()
    with pytest.raises(UsageError, match="termination can't be written"):
        container.run(f"echo '{LINE % (0, '')}'")
