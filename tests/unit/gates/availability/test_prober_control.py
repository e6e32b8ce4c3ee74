"""The prober as a process, against a real server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from testkit.waiting import stretched
from tests.unit.gates.availability.server import ApiServer
from upgrader.errors import UsageError
from upgrader.gates.availability.prober import COLLECTION, OBJECT
from upgrader.gates.availability.prober_control import AvailabilityProbe
from upgrader.gates.availability.series_file import SERIES, SeriesWriter, read_series
from upgrader.model.availability import Availability


def until(reached: threading.Event) -> None:
    """Wait for what a test waits for, but not for ever."""
    assert reached.wait(stretched(60))


def test_it_counts_and_leaves_nothing_behind(api: ApiServer) -> None:
    """Reads and writes go through both kinds of connection, nothing fails, and its object is gone at the end."""
    enough = threading.Event()

    def look(seen: Availability) -> None:
        if seen.requests >= 12:
            enough.set()

    with AvailabilityProbe(api.kubeconfig, requests_per_second=50, on_change=look) as probe:
        until(enough)
        assert OBJECT in api.objects
        seen = probe.stop()
    assert seen.requests >= 12
    assert seen.failures == ()
    assert (seen.failed, seen.raw_failed) == (0, 0)
    assert seen.longest_gap_ms > 0
    assert {method for method, _ in api.requests} == {"GET", "PUT", "POST", "DELETE"}
    assert api.requests[-1][0] == "DELETE"
    assert OBJECT not in api.objects
    assert probe.stop() == probe.snapshot() == seen


def test_its_samples_have_every_request_once(api: ApiServer, tmp_path: Path) -> None:
    """What is kept over time sums up to the counts at the end, those of the last second among them."""
    enough = threading.Event()

    def look(seen: Availability) -> None:
        if seen.requests >= 12:
            enough.set()

    with (
        SeriesWriter(tmp_path / SERIES) as writer,
        AvailabilityProbe(api.kubeconfig, requests_per_second=50, on_change=look, keep=writer.append) as probe,
    ):
        until(enough)
        seen = probe.stop()
    found = read_series(tmp_path / SERIES)
    assert sum(each.ok + each.failed for each in found.samples) == seen.requests
    assert {"get", "write", "list"} <= {kind for each in found.samples for kind in each.kinds}
    assert max(each.slowest_ms for each in found.samples) == seen.latency.longest
    assert found.unreadable == 0 and writer.problem == ""


def test_failures_carry_time_client_and_request(api: ApiServer) -> None:
    """A failed request is told with all that ties it to the step that was running."""
    api.script = [500]
    failed = threading.Event()

    def look(seen: Availability) -> None:
        if seen.failed:
            failed.set()

    with AvailabilityProbe(api.kubeconfig, requests_per_second=20, on_change=look) as probe:
        until(failed)
    first = probe.snapshot().failures[0]
    assert first.time.endswith("Z")
    assert first.error == "HTTP 500"
    assert first.client.endswith("HTTP/1.1") or first.client.endswith("HTTP/2")


def test_it_ends_though_requests_have_no_answer(api: ApiServer) -> None:
    """A server that hangs can't keep the prober: it ends in order, and counts what was answered."""
    api.script = [200, 200, *["hang"] * 100]
    with AvailabilityProbe(api.kubeconfig, requests_per_second=20) as probe:
        until(api.hanging)
        seen = probe.stop()
    assert seen.failures == ()
    assert seen.failures == ()


def test_a_bad_kubeconfig_is_said_at_once(api: ApiServer) -> None:
    """A prober that can't start is an error with its own words, not a run without counts."""
    api.kubeconfig.write_text("current-context: x\n")
    with pytest.raises(UsageError, match="there is no context named 'x'"):
        AvailabilityProbe(api.kubeconfig).start()


@pytest.mark.parametrize(("status", "error"), [(401, "HTTP 401"), (503, "HTTP 503")])
def test_a_first_request_must_be_answered(api: ApiServer, status: int, error: str) -> None:
    """A prober that can't reach the API before a run says so then: its failures would take a healthy upgrade back."""
    api.script = [status]
    address = f"https://127.0.0.1:{api.port}"
    with pytest.raises(UsageError, match=f"a first request failed: {address}: {error}") as caught:
        AvailabilityProbe(api.kubeconfig, must_answer=True).start()
    assert "requestsPerSecond: 0" in caught.value.remedy
    with AvailabilityProbe(api.kubeconfig, must_answer=True) as probe:
        assert probe.counts() is not None


def test_a_prober_that_dies_is_not_a_good_record(api: ApiServer) -> None:
    """When the process is killed the counts say that they are not complete."""
    probe = AvailabilityProbe(api.kubeconfig, requests_per_second=20)
    probe.start()
    assert probe._process is not None
    os.kill(probe._process.pid, signal.SIGKILL)
    seen = probe.stop()
    assert "ended unexpectedly (exit code -9)" in str(seen.failures[0])


def test_it_ends_with_its_parent(api: ApiServer) -> None:
    """When the parent is gone, both pipes closed, the prober ends and takes its object out of the cluster."""
    options = {"kubeconfig": str(api.kubeconfig), "context": "", "requests_per_second": 10}
    process = subprocess.Popen(
        [sys.executable, "-m", "upgrader.gates.availability.prober", json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None and process.stdout is not None
        while b'"requests": 0' in (line := process.stdout.readline()):
            assert line
        process.stdout.close()
        process.stdin.close()
        assert process.wait(stretched(30)) == 0
    assert api.requests[-1] == ("DELETE", f"{COLLECTION}/{OBJECT}")


def test_a_client_writes_one_thing_at_a_time(api: ApiServer) -> None:
    """A server that answers no write has one of each client to bear, however many are due; reads go on meanwhile."""
    api.hang_writes = True
    enough = threading.Event()

    def look(seen: Availability) -> None:
        if seen.requests >= 60:
            enough.set()

    with AvailabilityProbe(api.kubeconfig, requests_per_second=60, on_change=look):
        until(enough)
        # By HTTP/2 the test's server does one thing after the other, so a fresh and a kept client's may wait there.
        assert 1 <= api.open_writes <= 4
        api.release.set()
