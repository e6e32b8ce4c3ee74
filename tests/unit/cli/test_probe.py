"""`upgrader probe` as a process, against a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from testkit.waiting import stretched
from tests.unit.gates.availability.server import ApiServer
from upgrader.cli.main import cli
from upgrader.errors import UsageError
from upgrader.gates.availability import prober_control
from upgrader.gates.availability.prober import OBJECT


@pytest.fixture
def folder(api: ApiServer) -> Path:
    """A cluster folder with the server's kubeconfig."""
    folder = api.kubeconfig.parent
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    return folder


def test_for_a_time(folder: Path, api: ApiServer) -> None:
    """It ends by itself, prints its counts as JSON and nothing else, and leaves nothing in the cluster."""
    arguments = ["-C", str(folder), "probe", "--rate", "40", "--for", "1.5s", "--json"]
    arguments += ["--address", f"https://127.0.0.1:{api.port}"]
    ended = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert ended.exit_code == 0
    seen = json.loads(ended.stdout)
    assert seen["failures"] == []
    assert seen["requests"] > 10
    assert {lane["client"] for lane in seen["lanes"]} == {
        "fresh HTTP/1.1",
        "fresh HTTP/2",
        "kept HTTP/1.1",
        "kept HTTP/2",
    }
    assert seen["watches"]["events"] > 0 and seen["watches"]["missed"] == 0
    assert OBJECT not in api.objects


@pytest.mark.parametrize(
    ("configured", "arguments", "rate"),
    [(None, [], 10.0), (50, [], 50.0), (0, [], 10.0), (50, ["--rate", "5"], 5.0), (0, ["--rate", "5"], 5.0)],
)
def test_its_rate(
    folder: Path, monkeypatch: pytest.MonkeyPatch, configured: int | None, arguments: list[str], rate: float
) -> None:
    """As given, else as configured for runs; a probe that was asked for isn't turned off by a configured 0."""
    if configured is not None:
        with (folder / "upgrader.yaml").open("a") as file:
            file.write(f"availability: {{requestsPerSecond: {configured}}}\n")
    asked: list[float] = []

    def refuse(_: Path, *, requests_per_second: float, **__: object) -> None:
        asked.append(requests_per_second)
        raise UsageError("not here")

    monkeypatch.setattr(prober_control, "AvailabilityProbe", refuse)
    CliRunner().invoke(cli, ["-C", str(folder), "probe", *arguments])
    assert asked == [rate]


def test_until_ctrl_c(folder: Path, api: ApiServer) -> None:
    """Ctrl-C ends the probe, not the command: the result is printed, and its object is deleted."""
    command = [sys.executable, "-m", "upgrader", "-C", str(folder), "probe", "--rate", "40"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        with api.changed:
            assert api.changed.wait_for(lambda: api.version > 102, stretched(60))
        os.kill(process.pid, signal.SIGINT)
        out, complaint = process.communicate(timeout=stretched(60))
    assert (process.returncode, complaint) == (0, "")
    assert " 0 failed (0 at the first try)" in out
    assert OBJECT not in api.objects


@pytest.mark.parametrize("arguments", [["--for", "90"], ["--rate", "0"], ["--address", "10.0.0.1:6443"]])
def test_what_can_not_be_done_is_said(folder: Path, arguments: list[str]) -> None:
    """A wrong duration, rate or address is refused with a message, and no request is sent."""
    command = [sys.executable, "-m", "upgrader", "-C", str(folder), "probe", *arguments]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=stretched(60))
    assert ended.returncode == 2
    assert arguments[1] in ended.stderr
