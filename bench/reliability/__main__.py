"""`make reliability`: runs with a fault, and how each ends; writes the tables of docs/reliability.md."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.places import RESULTS
from bench.reliability.control_plane import ControlPlane
from bench.reliability.faults import MACHINE_FAULTS, PROXY_FAULTS, on_machines, small_disk, through
from bench.reliability.page import Run, as_json, merged, table, write_into
from testkit.command import REPOSITORY
from testkit.faults.proxy import FaultProxy, Upstream
from testkit.faults.scenario import Disturbance, Moment, Outcome, Stage
from testkit.lab_cluster import OLD, RELEASES, LabCluster
from testkit.labs import some_cluster

__all__ = ["main"]

_MOMENTS, _STEPS = "outcomes", "outcomes of steps"
_BLOCKS: Mapping[str, Sequence[str]] = {_MOMENTS: tuple(map(str, Moment)), _STEPS: RELEASES}
"""Block of the page → the columns of its table."""

_PAGE = REPOSITORY / "docs" / "reliability.md"
_FIGURES = RESULTS / "reliability.json"


def main() -> int:
    """0 when every run kept its promise; progress on standard error."""
    options = _parser().parse_args()
    runs: list[Run] = []
    with some_cluster(options.lab, "reliability") as cluster, tempfile.TemporaryDirectory() as scratch:
        for block, fault, point in _cells(options.fault, options.moment, options.step):
            last = _one(cluster, Path(scratch), fault, point)
            runs.append(as_json(last))
            _say(f"{fault} at '{point}': {last.exit_code} after {last.seconds:.0f} s: {last.trouble or last.words}")
            if last.trouble:
                _say(last.output)
            _write(runs, block, options.folder)
    return 1 if any(each["trouble"] for each in runs) else 0


def _cells(faults: Sequence[str], moments: Sequence[str], steps: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Block of the page, fault, and moment or step: those that were selected, or all."""
    if moments or not steps:
        for moment in moments or _BLOCKS[_MOMENTS]:
            yield from ((_MOMENTS, fault, moment) for fault in faults or (*PROXY_FAULTS, *MACHINE_FAULTS))
    if steps or not moments:
        for fault in faults or MACHINE_FAULTS:
            yield from ((_STEPS, fault, step) for step in steps or RELEASES if fault in MACHINE_FAULTS)


def _one(cluster: LabCluster, scratch: Path, fault: str, point: str) -> Outcome:
    """One run on a cluster that is healthy at its start."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=scratch)))
        stack.callback(cluster.restore_files)
        if not _healthy(cluster):
            _say("putting the cluster back…")
            cluster.restore()
        kubeconfig = None
        if fault in PROXY_FAULTS:
            proxy = stack.enter_context(FaultProxy(Upstream.of(cluster.folder / "kubeconfig", folder), folder))
            kubeconfig = proxy.write_kubeconfig(folder / "kubeconfig", like=cluster.folder / "kubeconfig")
            disturbance: Disturbance = through(proxy)[fault]
        else:
            disturbance = stack.enter_context(on_machines(cluster))[fault]
        if fault == "operator's disk full":
            stack.enter_context(small_disk(cluster.folder / "runs"))
        if point in RELEASES:
            return ControlPlane(cluster).play(disturbance, point)
        return Stage(cluster, folder, kubeconfig).play(disturbance, Moment(point))


def _healthy(cluster: LabCluster) -> bool:
    try:
        cluster.wait_healthy(OLD, timeout_seconds=60)
    except AssertionError:
        return False
    return True


def _write(runs: Sequence[Run], block: str, folder: Path | None) -> None:
    """Write after each run, as the measurement may be interrupted. Earlier runs of other cells stay."""
    page, figures = (folder / "reliability.md", folder / "reliability.json") if folder else (_PAGE, _FIGURES)
    before = json.loads(figures.read_text())["runs"] if figures.exists() else []
    known = merged(before, runs)
    when = f"{datetime.now(UTC):%Y-%m-%d}"
    load = os.getloadavg()[1]
    how = f"{when}, `make reliability`, one controller at {OLD}, load average {load:.0f} at the end."
    words = f"{table(known, _BLOCKS[block])}\n{how}\n"
    if folder:
        page.write_text(words)
    else:
        write_into(page, block, words)
    figures.write_text(json.dumps({"date": when, "runs": known}, indent=2) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make reliability", description=__doc__)
    parser.add_argument("--fault", action="append", choices=[*PROXY_FAULTS, *MACHINE_FAULTS], help="only this one")
    parser.add_argument("--moment", action="append", choices=_BLOCKS[_MOMENTS], help="only at this moment")
    parser.add_argument("--step", action="append", choices=RELEASES, help="only in this step of an upgrade")
    parser.add_argument("--lab", type=Path, metavar="FOLDER", help="an adopted lab with a snapshot `adopted`, to use")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="write there, and leave the documentation alone")
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
