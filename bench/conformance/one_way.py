"""One way to test, from the choice of specs to their record."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.conformance.clusters import bring, plain_cluster
from bench.conformance.images import listed_images
from bench.conformance.programs import Programs
from bench.conformance.record import Record, recorded
from bench.conformance.results import Result, explained, missing_images, overlapping
from bench.conformance.specs import Chosen, choose, conformance_specs, left_out, remember_images, upgrade_tests_to_run
from bench.conformance.suite import Suite
from bench.conformance.ways import (
    Disturbed,
    around,
    during,
    oldest_kubelet,
    undisturbed,
    upgrade_specs,
    upgraded,
)
from testkit.lab_cluster import LabCluster
from upgrader.lab.oci_archive import Image

__all__ = ["Asked", "OneWay"]


@dataclass(frozen=True)
class Asked:
    """What the command was told: the versions, which specs, and how it was called."""

    start: str
    target: str
    focus: str
    processes: int
    minutes: float
    explain: bool
    logs: Path
    command: str


class OneWay:
    """A way on a cluster: `during` or `around` begin at the old version, `after` ends at the new one."""

    def __init__(self, way: str, asked: Asked, cluster: LabCluster, built: Programs, images: Sequence[Image]) -> None:
        self._way, self._asked, self._cluster, self._built = way, asked, cluster, built
        self._images = images
        kubeconfig, logs = cluster.folder / "kubeconfig", asked.logs / way
        self._suite = Suite(built, kubeconfig, asked.target, logs, asked.processes, asked.minutes)

    def run(self, write: Callable[[Record], None]) -> Record:
        """Run them, and `write` what is known: once without and once with explanations, which take their time."""
        began = time.monotonic()
        command: dict[str, Any] = {
            "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M}",
            "command": self._asked.command,
            "from": self._asked.start,
            "cores": os.cpu_count() or 1,
            "focus": self._asked.focus,
        }
        bring(self._images, self._cluster)
        chosen = self._choose()
        disturbed = self._work(chosen.run)
        command["changes"] = [change.as_json() for change in disturbed.changes]
        command["seconds"] = round(time.monotonic() - began)
        chosen, results = self._without_missing_images(chosen, disturbed.results)
        spans = [(change.begun, change.ended) for change in disturbed.changes]
        beside = overlapping(results, spans) if self._way == "during" else None
        write(recorded(command, chosen, results, {}, beside))
        failed = [result for result in results if result.failed]
        print(f"{self._way}: {len(results)} specs, {len(failed)} failed; logs in {self._suite.folder}", file=sys.stderr)
        why = self._explain(failed) if failed and self._asked.explain else {}
        record = recorded(command, chosen, results, why, beside)
        write(record)
        for result in failed:
            print(f"  {result.name}: {why.get(result.name, (True, 'not explained'))[1]}", file=sys.stderr)
        return record

    def _choose(self) -> Chosen:
        asked = self._asked
        if self._way == "around":
            return upgrade_tests_to_run(upgrade_specs(self._suite), left_out()["upgrade_tests"], asked.focus)
        command = [str(self._built.e2e), "--list-conformance-tests"]
        listed = subprocess.run(command, cwd=self._built.folder, capture_output=True, text=True, check=True).stdout
        left = left_out()
        return choose(
            conformance_specs(listed),
            left["images"],
            kubelet=oldest_kubelet(self._cluster),
            reasons=left["specs"],
            focus=asked.focus,
            during=self._way == "during",
            oldest=asked.start,
        )

    def _work(self, names: Sequence[str]) -> Disturbed:
        asked = self._asked
        if self._way == "around":
            return around(self._cluster, self._suite, names, asked.start, asked.target)
        if self._way == "during":
            return during(self._cluster, self._suite, names, asked.target)
        upgraded(self._cluster, asked.target)
        return Disturbed(self._suite.run(self._built.e2e, names, "after"), ())

    def _without_missing_images(self, chosen: Chosen, results: Sequence[Result]) -> tuple[Chosen, Sequence[Result]]:
        """Specs that failed for an image of upstream that the lab doesn't have are left out, now and from now on."""
        had = {image.name for image in self._images}
        lacking = [name for name in listed_images(self._built) if name not in had and not name.startswith("invalid.")]
        learned = {name: image for name, image in missing_images(results).items() if image in lacking}
        if learned:
            remember_images(learned)
        left = {name: f"the lab doesn't have the image {image}" for name, image in learned.items()}
        run = tuple(name for name in chosen.run if name not in learned)
        return (
            replace(chosen, run=run, left_out={**chosen.left_out, **left}),
            [result for result in results if result.name not in learned],
        )

    def _explain(self, failed: Sequence[Result]) -> Mapping[str, tuple[bool, str]]:
        names = [result.name for result in failed]
        around_it = self._way == "around"
        unlimited = replace(self._suite, minutes=Suite.minutes)
        again = () if around_it else unlimited.run(self._built.e2e, names, "again")
        with plain_cluster(self._asked.target, self._images) as cluster:
            plain = replace(unlimited, kubeconfig=cluster.folder / "kubeconfig")
            if around_it:
                without_us = undisturbed(cluster, plain, names, self._asked.target)
            else:
                without_us = plain.run(self._built.e2e, names, "without-us")
        return explained(failed, again, without_us)
