"""`make conformance`: Kubernetes' own tests after, during and around `upgrader run`; writes docs/conformance.*"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.conformance.images import made_images
from bench.conformance.page import WAYS, page
from bench.conformance.programs import Programs, programs
from bench.conformance.record import merged, ours, recorded
from bench.conformance.results import Result, explained, missing_images, overlapping
from bench.conformance.specs import choose, conformance_specs, left_out, remember_images, upgrade_tests_to_run
from bench.conformance.suite import Suite
from bench.conformance.ways import around, during, oldest_kubelet, undisturbed, upgrade_specs, upgraded
from testkit.command import REPOSITORY, must, upgrader
from testkit.lab_cluster import OLD, TARGET, LabCluster
from testkit.labs import some_cluster
from upgrader.cli.lab_progress import progress
from upgrader.lab.command_runner import CommandRunner
from upgrader.lab.image_delivery import deliver
from upgrader.lab.kubeadm_cluster import KubeadmCluster
from upgrader.lab.oci_archive import Image
from upgrader.lab.registry import find

__all__ = ["main"]

_WORKERS = ("--workers", "2")
"""Many specs want two nodes for ordinary pods."""


def main() -> int:
    """0 when no spec failed for which upgrader may be the reason, and every run succeeded."""
    options = _options()
    with progress() as display:
        built = programs(options.target, display)
        images = made_images(built, display)
    code = 0
    with some_cluster(options.lab, "conformance", *_WORKERS) as cluster:
        for way in options.way:
            if way != "after" and set(cluster.versions().values()) != {options.start}:
                cluster.restore()
            code |= _Way(way, options, cluster, built, images).run()
    return code


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("way", nargs="*", default=["during", "after", "around"], metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--from", dest="start", default=OLD, help="Kubernetes version of the new cluster")
    parser.add_argument("--to", dest="target", default=TARGET, help="version to upgrade it to, and of the tests")
    parser.add_argument("--focus", default="", metavar="REGEX", help="only specs whose name has a match")
    parser.add_argument("--procs", type=int, default=4, help="how many specs are at work at once")
    parser.add_argument("--no-explain", action="store_true", help="don't run failed specs again, here and elsewhere")
    parser.add_argument("--learn", action="store_true", help="add specs whose image is missing to left_out.json")
    parser.add_argument(
        "--lab", type=Path, metavar="FOLDER", help="an adopted lab with two workers, saved as `adopted`"
    )
    parser.add_argument("--out", type=Path, default=REPOSITORY / "docs", help="folder of the page")
    parser.add_argument("--logs", type=Path, default=None, metavar="FOLDER", help="where the tests' logs are kept")
    options = parser.parse_args()
    unknown = set(options.way) - set(WAYS)
    if unknown:
        parser.error(f"no way is called {', '.join(sorted(unknown))}: there are {', '.join(WAYS)}")
    options.logs = (options.logs or Path(tempfile.mkdtemp(prefix="conformance-"))).resolve()
    return options


class _Way:
    """One way, from the choice of specs to the page."""

    def __init__(
        self, way: str, options: argparse.Namespace, cluster: LabCluster, built: Programs, images: Sequence[Image]
    ) -> None:
        self._way, self._options, self._cluster, self._built = way, options, cluster, built
        self._images = images
        folder = options.logs / way
        self._suite = Suite(built, cluster.folder / "kubeconfig", options.target, folder, options.procs)

    def run(self) -> int:
        """1 if a spec failed for which upgrader may be the reason, or its run did."""
        options, began = self._options, time.monotonic()
        command: dict[str, Any] = {
            "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
            "command": f"python -m bench.conformance {shlex.join(_told())}".strip(),
            "from": options.start,
            "cores": os.cpu_count() or 1,
            "focus": options.focus,
        }
        _bring(self._images, self._cluster)
        disturbed = None
        if self._way == "around":
            program = self._built.upgrades
            chosen = upgrade_tests_to_run(upgrade_specs(self._suite), left_out()["upgrade_tests"], options.focus)
            disturbed = around(self._cluster, self._suite, chosen.run, options.start, options.target)
        else:
            program = self._built.e2e
            specs, needs = conformance_specs(_listed(self._built)), left_out()["images"]
            is_during, kubelet = self._way == "during", oldest_kubelet(self._cluster)
            chosen = choose(specs, needs, kubelet=kubelet, focus=options.focus, during=is_during, oldest=options.start)
            if is_during:
                disturbed = during(self._cluster, self._suite, chosen.run, options.target)
            else:
                upgraded(self._cluster, options.target)
                results = self._suite.run(program, chosen.run, "after")
        if disturbed:
            results = disturbed.results
            command["changes"] = [
                {
                    "what": change.what,
                    "seconds": round((change.ended - change.begun).total_seconds(), 1),
                    "exit_code": change.exit_code,
                    "refused": change.refused,
                }
                for change in disturbed.changes
            ]
        if options.learn:
            remember_images(missing_images(results))
        why = {} if options.no_explain else self._explain(program, results)
        command["seconds"] = round(time.monotonic() - began)
        changes = disturbed.changes if disturbed else ()
        beside = overlapping(results, [(change.begun, change.ended) for change in changes])
        record = recorded(command, chosen, results, why, beside if self._way == "during" else None)
        self._write(record)
        failed = [result for result in results if result.failed]
        print(f"{self._way}: {len(results)} specs, {len(failed)} failed; logs in {self._suite.folder}", file=sys.stderr)
        for result in failed:
            print(f"  {result.name}: {why.get(result.name, (True, 'not explained'))[1]}", file=sys.stderr)
        return int(bool(ours(record)) or any(change.exit_code for change in changes))

    def _explain(self, program: Path, results: Sequence[Result]) -> dict[str, tuple[bool, str]]:
        failed = [result for result in results if result.failed]
        if not failed:
            return {}
        names = [result.name for result in failed]
        around_it = self._way == "around"
        again = () if around_it else self._suite.run(program, names, "again")
        with _plain_cluster(self._options.target, self._images) as cluster:
            plain = replace(self._suite, kubeconfig=cluster.folder / "kubeconfig")
            if around_it:
                without_us = undisturbed(cluster, plain, names, self._options.target)
            else:
                without_us = plain.run(program, names, "without-us")
        return dict(explained(failed, again, without_us))

    def _write(self, record: Any) -> None:
        file = self._options.out / "conformance.json"
        known = json.loads(file.read_text()) if file.exists() else {}
        of_version = known.setdefault(self._options.target, {})
        of_version[self._way] = merged(of_version.get(self._way), record)
        file.write_text(json.dumps(known, indent=1) + "\n")
        (self._options.out / "conformance.md").write_text(page(known))


@contextmanager
def _plain_cluster(version: str, images: Sequence[Image]) -> Iterator[LabCluster]:
    """A cluster as kubeadm made it, of the same shape, never adopted nor upgraded."""
    name = f"plain-{os.getpid()}"
    with tempfile.TemporaryDirectory() as home:
        try:
            must(upgrader("-C", home, "lab", "up", "--name", name, "--kubernetes", version, *_WORKERS))
            cluster = LabCluster(name, Path(home), Path(home) / "kept", version=version)
            try:
                _bring(images, cluster)
                yield cluster
            finally:
                cluster.kube.close()
        finally:
            upgrader("-C", home, "lab", "down", "--name", name)


def _bring(images: Sequence[Image], cluster: LabCluster) -> None:
    """Import the images into each node that lacks them."""
    placement = find(cluster.name)
    if placement is None:
        raise SystemExit(f"there is no lab {cluster.name} on this machine")
    runner = CommandRunner()
    deliver(images, placement, KubeadmCluster(placement, runner), runner)


def _listed(built: Programs) -> str:
    command = [str(built.e2e), "--list-conformance-tests"]
    return subprocess.run(command, cwd=built.folder, capture_output=True, text=True, check=True).stdout


def _told() -> list[str]:
    """The command's arguments, without paths, which are this machine's."""
    told, words = [], iter(sys.argv[1:])
    for word in words:
        if word in ("--lab", "--out", "--logs"):
            next(words, None)
        elif not word.startswith(("--lab=", "--out=", "--logs=")):
            told.append(word)
    return told


if __name__ == "__main__":
    sys.exit(main())
