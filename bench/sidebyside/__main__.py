"""`make bench-sidebyside`: ways to upgrade a control plane, side by side, under the same load on the same lab."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.places import PAGES, results_file
from bench.recovery.measure import Site
from bench.sidebyside.observe import Observer, memory_files
from bench.sidebyside.page import Circumstances, page
from bench.sidebyside.plot import picture, typical
from bench.sidebyside.stages import controllers, make_lab, start_from
from bench.sidebyside.trial import BAD_FLAG_PUSHED, UPGRADE, Trial
from bench.sidebyside.ways import WAYS, Way
from testkit.command import REPOSITORY
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.labs import nodes_disks
from testkit.pushed_changes import BAD_FLAG
from upgrader.errors import UpgraderError
from upgrader.lab.binaries import HELM
from upgrader.lab.existing_labs import find
from upgrader.lab.nspawn_machine import machine_of
from upgrader.ports import Kind

__all__ = ["main"]

_PODS = Kind("v1", "pods")
_BEFORE_SECONDS, _AFTER_SECONDS = 5.0, 10.0
_DONE_SECONDS = 300.0
_WENT_WRONG = (AssertionError, LookupError, UpgraderError, TimeoutError, subprocess.TimeoutExpired)
_SHOWN = ("controllers", "repeat", "bad-flags", "rate", "patience")
_TITLES = {way.name: way.title for way in WAYS}


def main() -> int:
    """0 when every upgrade reached the target; progress on standard error, results in files."""
    options = _parser().parse_args()
    wanted = [way for way in WAYS if not options.only or way.name in options.only]
    file: Path = results_file(options.out, "zero-outage.json")
    earlier, trials = _earlier(file) if options.add else ([], [])
    commands = list(dict.fromkeys([*earlier, _command(options)]))
    missed = 0
    with _site(options.lab, options.controllers) as site:
        jobs = [(number, way) for number in range(options.repeat) for way in wanted]
        for number, way in jobs:
            begun = time.monotonic()
            try:
                start_from(site, way.stage)
                for trial in _trials(site, way, options, bad_flag=number < options.bad_flags):
                    trials.append(trial)
                    _say(f"{number + 1} of {options.repeat}  {_line(trial)} ({time.monotonic() - begun:.0f} s)")
                    _write(options, commands, trials)  # after each trial, as the measurement may be interrupted
                    missed += trial.what == UPGRADE and trial.done_seconds is None
            except _WENT_WRONG as error:
                missed += 1
                _say(f"{number + 1} of {options.repeat}  {way.name}: FAILED: {error}")
    return 1 if missed else 0


def _trials(site: Site, way: Way, options: argparse.Namespace, *, bad_flag: bool) -> Iterator[Trial]:
    """The upgrade, then the bad flag, if selected and if the cluster is healthy after the upgrade."""
    upgraded = _upgrade(site, way, options.rate)
    yield upgraded
    if bad_flag and upgraded.done_seconds is not None:
        yield _bad_flag(site, way, options.rate, options.patience)


def _upgrade(site: Site, way: Way, rate: float) -> Trial:
    load = os.getloadavg()[0]
    command = done = None
    with _observer(site, rate) as observer:
        time.sleep(_BEFORE_SECONDS)
        begun = observer.seconds
        try:
            note = way.upgrade(site, TARGET, observer.mark)
            command = observer.seconds - begun
            done = _when_done(site, observer, begun)
        except _WENT_WRONG as error:
            note = f"FAILED: {error}"
        time.sleep(_AFTER_SECONDS)
        seen = observer.stop()
    return Trial(way.name, UPGRADE, len(controllers(site)), load, command, done, note=note, seen=seen)


def _bad_flag(site: Site, way: Way, rate: float, patience: float) -> Trial:
    load = os.getloadavg()[0]
    done, fixed_by, note = None, "", ""
    with _observer(site, rate) as observer:
        time.sleep(_BEFORE_SECONDS)
        try:
            fixed_by = way.bad_flag(site, TARGET, observer.mark, patience)
            done = _when_done(site, observer, observer.marked(BAD_FLAG_PUSHED))
        except _WENT_WRONG as error:
            note = f"FAILED: {error}"
        time.sleep(_AFTER_SECONDS)
        seen = observer.stop()
    return Trial(way.name, BAD_FLAG_PUSHED, len(controllers(site)), load, None, done, fixed_by, note, seen)


def _when_done(site: Site, observer: Observer, begun: float) -> float:
    """Wait until the cluster has settled; returns the seconds since `begun`. Raises TimeoutError with what is left."""
    found: list[str] = []

    def holds() -> bool:
        versions = site.cluster.versions()
        found[:] = [f"{name} is at {version}" for name, version in versions.items() if version != TARGET]
        found.extend([] if found else [*_with_bad_flag(site), *site.unfinished()])
        return not found

    try:
        until("the upgraded control plane", holds, timeout_seconds=_DONE_SECONDS)
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {'; '.join(found)}") from error
    return observer.seconds - begun


def _with_bad_flag(site: Site) -> list[str]:
    pods = site.cluster.kube.list(_PODS, "kube-system")
    return [f"pod {pod['metadata']['name']} has the bad flag" for pod in pods if BAD_FLAG in json.dumps(pod["spec"])]


def _observer(site: Site, rate: float) -> Observer:
    placement = site.lab.placement
    groups = [machine_of(placement, placement.node(name)).group for name in controllers(site)]
    return Observer(site.cluster.folder / "kubeconfig", rate, [memory_files(group) for group in groups])


def _write(options: argparse.Namespace, commands: Sequence[str], trials: Sequence[Trial]) -> None:
    where = Circumstances(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commands=commands,
        cores=os.cpu_count() or 1,
        requests_per_second=options.rate,
        patience_seconds=options.patience,
        disks=nodes_disks(),
        versions=_versions(),
    )
    shown = {
        f"{way.title}{'' if count == 1 else f', {count} controllers'}": typical(group)
        for count in sorted({trial.controllers for trial in trials})
        for way in WAYS
        if (group := [t for t in trials if (t.way, t.what, t.controllers) == (way.name, UPGRADE, count)])
    }
    options.out.mkdir(parents=True, exist_ok=True)
    head = json.dumps(asdict(where))[:-1]
    lines = ",\n".join(json.dumps(trial.as_json()) for trial in trials)
    results_file(options.out, "zero-outage.json").write_text(f'{head}, "trials": [\n{lines}\n]}}\n')
    remarks = results_file(options.out, "zero-outage.remarks.md")  # hand-written; each new page has them
    text = remarks.read_text() if remarks.exists() else ""
    (options.out / "zero-outage.md").write_text(page(where, _TITLES, trials, "zero-outage.svg", text))
    (options.out / "zero-outage.svg").write_text(picture(shown, options.rate))


def _command(options: argparse.Namespace) -> str:
    """The command, without options that only name folders."""
    chosen = {name: getattr(options, name.replace("-", "_")) for name in _SHOWN}
    words = [f"--{name} {value:g}" for name, value in chosen.items()]
    return " ".join(["python -m bench.sidebyside", *words, *(f"--only {way}" for way in options.only or ())])


def _versions() -> Mapping[str, str]:
    command = ["git", "rev-parse", "--short", "HEAD"]
    head = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return {
        "Kubernetes": f"{OLD} → {TARGET}",
        "Helm": HELM,
        "upgrader": head.stdout.strip() or "unknown",
        "Linux": platform.release(),
        "Python": platform.python_version(),
    }


def _earlier(file: Path) -> tuple[list[str], list[Trial]]:
    """The commands of earlier measurements, and their trials."""
    if not file.exists():
        return [], []
    content = json.loads(file.read_text())
    return content["commands"], [Trial.from_json(found) for found in content["trials"]]


def _line(trial: Trial) -> str:
    seen = trial.seen
    times = f"{trial.command_seconds or 0:.0f} s, done {trial.done_seconds or 0:.0f} s"
    counts = f"{seen.failed} failed, {seen.raw_failed} raw of {seen.requests}, gap {seen.longest_gap_ms:.0f} ms"
    return f"{trial.way}, {trial.what}: {times}; {counts} {trial.fixed_by} {trial.note}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-sidebyside", description=__doc__)
    parser.add_argument("--controllers", type=int, choices=[1, 3], default=1, help="of the lab (default: 1)")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="upgrades by each way (default: 5)")
    parser.add_argument(
        "--bad-flags", type=int, default=5, metavar="N", help="in how many a bad flag follows (default: 5)"
    )
    parser.add_argument("--rate", type=float, default=50.0, metavar="R", help="requests a second (default: 50)")
    parser.add_argument("--patience", type=float, default=180.0, metavar="S", help="with a bad flag (default: 180)")
    parser.add_argument("--only", action="append", choices=list(_TITLES), help="this way")
    parser.add_argument(
        "--lab", type=Path, metavar="FOLDER", help="a lab to make (PARENT/.lab/NAME), to use again and to keep"
    )
    parser.add_argument("--add", action="store_true", help="keep the trials that the output has")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the results")
    return parser


@contextmanager
def _site(folder: Path | None, count: int) -> Iterator[Site]:
    """The named lab, made if it doesn't exist, or a new one, which is removed at the end."""
    with tempfile.TemporaryDirectory() as scratch:
        place = folder.resolve() if folder else Path(scratch) / ".lab" / f"bench-{os.getpid()}"
        cluster = LabCluster(place.name, place.parents[1], Path(scratch) / "kept")
        site = Site(cluster)
        try:
            if not find(cluster.name):
                cluster.home.mkdir(parents=True, exist_ok=True)
                make_lab(site, count)
            yield site
        finally:
            if folder is None and find(cluster.name):
                cluster.down()


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
