"""`make demo`: upgrade a real one-controller cluster under load, and print what its clients noticed."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.demo.parts import remember
from bench.demo.while_building import built, recording_of
from testkit.api_load import ApiLoad, LoadSeen
from testkit.command import REPOSITORY, must, upgrader
from testkit.versions import COMPONENTS, running_versions
from testkit.workload import Tally, Workload
from upgrader.adapters.kube import KubeAdapter
from upgrader.lab.existing_labs import find

__all__ = ["main"]

_NAME = "demo"


def main() -> int:
    """0 when every component is at the target and the workload was undisturbed; the last line names what went wrong."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--from", dest="start", default="v1.36.3", help="Kubernetes version of the new cluster")
    parser.add_argument("--to", dest="target", default="v1.37.1", help="version to upgrade it to")
    parser.add_argument("--record", metavar="FILE", type=Path, help="also write the upgrade's events there, for replay")
    arguments = parser.parse_args()
    folder = REPOSITORY / ".lab" / _NAME

    _build(arguments.start, arguments.target)
    _title(f"A new cluster with one controller, Kubernetes {arguments.start}")
    if find(_NAME):  # an earlier demo, perhaps incomplete
        _do("lab", "down", "--force", "--name", _NAME)
    with _timed("lab"):
        _do("lab", "up", "--name", _NAME, "--kubernetes", arguments.start)
    _title("Its control plane moves from static pods into Helm charts")
    with _timed("adopt"):
        _do("-C", folder, "adopt", "--yes")

    kube = KubeAdapter(folder / "kubeconfig")
    _title("A workload: a web server behind a Service, its client, and a pod that asks the API")
    workload = Workload(kube)
    with _timed("workload"):
        workload.deploy()
    pods, versions = workload.pods(), running_versions(kube)

    _title(f"The upgrade to {arguments.target}, with clients at work")
    begun = time.monotonic()
    with ApiLoad(folder / "kubeconfig") as load:
        with _timed("upgrade"):
            _upgrade(folder, arguments.target, arguments.record)
        seconds = time.monotonic() - begun
        seen = load.stop()
    upgraded = running_versions(kube)
    disturbances = workload.pods().disturbances_since(pods)
    tallies = {
        "  its own requests": workload.tally("client"),
        "API, by a pod (ClusterIP)": workload.tally("operator"),
    }
    _print_result(versions, upgraded, disturbances, tallies, seen, seconds, folder)

    wrong = [f"{name} is at {upgraded[name]}" for name in COMPONENTS if upgraded[name] != arguments.target]
    if wrong or disturbances:
        print("demo: FAILED: " + "; ".join([*wrong, *disturbances]), file=sys.stderr)
        return 1
    print(
        f"\nThe cluster is still there: upgrader -C {folder.relative_to(REPOSITORY)} plan; `make demo-down` removes it."
    )
    return 0


def _print_result(
    before: Mapping[str, str],
    after: Mapping[str, str],
    disturbances: tuple[str, ...],
    tallies: Mapping[str, Tally],
    seen: LoadSeen,
    seconds: float,
    folder: Path,
) -> None:
    _title(f"What happened in {seconds:.0f} s")
    for component in COMPONENTS:
        print(f"{component:28}{before[component]:>10} → {after[component]}")
    print(f"{'workload':28}{'; '.join(disturbances) or 'the same pods, 0 restarts'}")
    for who, tally in tallies.items():
        print(f"{who:28}{_counts(tally.requests, tally.failed, tally.longest_gap_ms)}")
    print(f"{'API, by clients of the demo':28}{seen.requests} requests, {seen.failed} failed")
    if seen.raw_failed > seen.failed:
        # Such a client waits as long as the server asked, while others get answers: the API has no gap.
        waited = f"Retry-After says 5 s, no client waited for more than {seen.longest_gap_ms / 1000:.1f} s"
        print(f"{'':28}({seen.raw_failed - seen.failed} were asked to retry later, and succeeded then; {waited})")
    for failure in seen.failures[:10] if seen.failed else ():
        print(f"{'':28}{failure}")
    measured = json.loads(_newest_report(folder).read_text())["availability"]
    if measured:
        counts = _counts(measured["requests"], measured["failed"], measured["longest_gap_ms"])
        print(f"{'API, by upgrader':28}{counts}")


def _counts(requests: int, failed: int, longest_gap_ms: float) -> str:
    return f"{requests} requests, {failed} failed, longest gap {longest_gap_ms:.0f} ms"


def _newest_report(folder: Path) -> Path:
    return max((folder / "runs").glob("*/report.json"), key=lambda path: path.stat().st_mtime)


class _Group(subprocess.Popen[bytes]):
    """A command with all that it has started."""

    def terminate(self) -> None:
        os.killpg(self.pid, signal.SIGTERM)


def _build(start: str, target: str) -> None:
    """Everything that isn't in the cache; a failure ends the demo with the build's exit code."""
    log = REPOSITORY / ".lab" / "demo-build.log"
    log.parent.mkdir(exist_ok=True)
    command = ["make", "--no-print-directory", "-j2", "demo-parts", f"FROM={start}", f"TO={target}"]
    with log.open("wb") as output:
        # In a session of its own: Ctrl-C ends the recording that is shown meanwhile.
        build = _Group(
            command,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = built(build, log, recording_of)
    if code:
        print(log.read_text(errors="replace")[-2000:], file=sys.stderr)
        print(f"demo: the build ended with exit code {code}: {log.relative_to(REPOSITORY)}", file=sys.stderr)
        sys.exit(code)


@contextmanager
def _timed(part: str) -> Iterator[None]:
    """Keep how long a part took, for the next demo's estimate."""
    begun = time.monotonic()
    yield
    remember(part, time.monotonic() - begun)


def _title(text: str) -> None:
    print(f"\n=== {text}", flush=True)


def _upgrade(folder: Path, target: str, record: Path | None) -> None:
    words = ("-C", folder, "run", "--to", target, "--yes")
    if record is None:
        _do(*words)
        return
    # What a recording is made from is what `-o json` prints, which masks secrets: nothing else is kept of the run.
    ended = must(upgrader(*words, "-o", "json", timeout_seconds=1800))
    # Its last line is of the command, and has the folder's path on this machine.
    lines = ended.stdout.splitlines(keepends=True)
    record.write_text("".join(line for line in lines if json.loads(line)["type"] != "CommandEnded"))


def _do(*arguments: str | Path) -> None:
    """Run an upgrader command on the terminal; a failure ends the demo with its exit code."""
    print(f"$ upgrader {' '.join(map(str, arguments))}", flush=True)
    ended = upgrader(*arguments, shown=True, timeout_seconds=1800)
    if ended.exit_code:
        print(
            f"demo: `upgrader {' '.join(map(str, arguments))}` ended with exit code {ended.exit_code}", file=sys.stderr
        )
        sys.exit(ended.exit_code)


if __name__ == "__main__":
    sys.exit(main())
