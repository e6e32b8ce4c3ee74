"""An API server with what guard needs, and pods and sets as their controllers and kubelets would leave them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from bench.guard.programs import AGGREGATOR, AS_IT_IS, Programs, Replica
from testkit.api_servers import api_servers
from testkit.command import REPOSITORY
from testkit.lab_cluster import OLD, until
from upgrader.adapters.helm import find_helm
from upgrader.adapters.kube import KubeAdapter
from upgrader.ports import Kind

__all__ = ["BUDGETS", "PODS", "PROTECTORS", "SETS", "Site", "becomes", "chart_definitions", "chart_objects", "site"]

PODS = Kind("v1", "pods")
SETS = Kind("apps/v1", "statefulsets")
BUDGETS = Kind("rollout-operator.grafana.com/v1", "zoneawarepoddisruptionbudgets")
PROTECTORS = Kind("podseidon.kubewharf.io/v1alpha1", "podprotectors")
_NAMESPACES = Kind("v1", "namespaces", namespaced=False)
_DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
_THREADS = 4
_CHART = REPOSITORY / "charts" / "guard"
_KINDS = {"protector": {"enabled": True}, "zoneBudget": {"enabled": True, "namespaces": ["shop"]}}


@dataclass(frozen=True)
class Site:
    """The API server, as its administrator."""

    kube: KubeAdapter
    kubeconfig: Path
    folder: Path
    programs: Programs

    @contextmanager
    def started(self, name: str, role: str, environment: Mapping[str, str] = AS_IT_IS) -> Iterator[Replica]:
        """A replica in this role that is ready, until the end of the block. Its log is by that name."""
        with self.programs.started(self.folder / name, self.kubeconfig, role, environment) as process:
            becomes(f"{name} to be ready", lambda: process.get("/ready")[0] == 200, seconds=180)
            yield process

    @contextmanager
    def counting(self, environment: Mapping[str, str] = AS_IT_IS) -> Iterator[Replica | None]:
        """With an aggregator, where there is one, until the end of the block."""
        if not self.programs.counts:
            yield None
            return
        with self.started("aggregator", AGGREGATOR, environment) as aggregator:
            yield aggregator

    def pods(self, app: str, count: int) -> list[Any]:
        """So many new ones with the label `app`, all Ready."""
        with ThreadPoolExecutor(_THREADS) as threads:
            return list(threads.map(lambda number: self.pod(f"{app}-{number}", {"app": app}), range(count)))

    def pod(self, name: str, labels: dict[str, str], *, owner: Any = None, ready: bool = True) -> Any:
        """A new one, as it is then. `ready`: so is it, or else it only runs."""
        meta: dict[str, Any] = {"name": name, "labels": labels}
        if owner is not None:
            known = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner["metadata"]["name"]}
            meta["ownerReferences"] = [{**known, "uid": owner["metadata"]["uid"], "controller": True}]
        spec = {"containers": [{"name": "x", "image": "x"}], "terminationGracePeriodSeconds": 0}
        self.kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}, "shop")
        return self.runs(name, ready=ready)

    def runs(self, name: str, *, ready: bool, ahead: float = 0) -> Any:
        """A pod as its kubelet writes it, whose clock is so many seconds ahead of this machine's."""
        at = f"{datetime.now(UTC) + timedelta(seconds=ahead):%Y-%m-%dT%H:%M:%SZ}"
        states = {"PodScheduled": True, "Ready": ready}
        conditions = [{"type": kind, "status": str(so), "lastTransitionTime": at} for kind, so in states.items()]
        return self.kube.patch(
            PODS, name, {"status": {"phase": "Running", "conditions": conditions}}, "shop", subresource="status"
        )

    def protector(self, name: str, app: str, least: int, *, young: int = 0, **config: int) -> None:
        """One of the pods with the label `app`. `young`: its `minReadySeconds`; `config`: its
        `admissionHistoryConfig`.
        """
        selector = {"matchLabels": {"app": app}}
        spec: dict[str, Any] = {"minAvailable": least, "minReadySeconds": young, "selector": selector}
        if config:
            spec["admissionHistoryConfig"] = config
        manifest = {"apiVersion": PROTECTORS.api_version, "kind": "PodProtector", "metadata": {"name": name}}
        self.kube.create(PROTECTORS, {**manifest, "spec": spec}, "shop")

    def wait_counted(self, names: Sequence[str], pods: int) -> None:
        """Until an aggregator has counted so many for each of these protectors; where there is none, it is written."""
        if not self.programs.counts:
            for name in names:
                self._write_counts(name, pods)
            return

        def counted() -> bool:
            found: Any = self.kube.list(PROTECTORS, "shop")
            summaries = {each["metadata"]["name"]: (each.get("status") or {}).get("summary") or {} for each in found}
            return all(summaries.get(name, {}).get("aggregatedAvailableReplicas") == pods for name in names)

        becomes(f"{len(names)} protectors to have {pods} pods", counted, seconds=120)

    def _write_counts(self, name: str, pods: int) -> None:
        """As an aggregator that has seen them all, and every deletion that was allowed before."""
        kinds = ("total", "available", "ready", "scheduled", "running")
        aggregation: dict[str, Any] = {f"{each}Replicas": pods for each in kinds}
        aggregation["lastEventTime"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        sums = ("aggregatedAvailableReplicas", "estimatedAvailableReplicas", "aggregatedReady", "aggregatedScheduled")
        summary: dict[str, Any] = dict.fromkeys((*sums, "totalReplicas", "aggregatedRunning"), pods)
        cells = [{"cellID": "one", "aggregation": aggregation, "admissionHistory": {"buckets": []}}]
        status = {"cells": cells, "summary": {**summary, "maxLatencyMillis": 0}}
        self.kube.patch(PROTECTORS, name, {"status": status}, "shop", subresource="status")


def becomes(what: str, holds: Callable[[], bool], *, seconds: float = 60) -> float:
    """Wait until it is so, looking every 20 ms; how long that took. Raises TimeoutError."""
    return until(what, holds, timeout_seconds=seconds, interval_seconds=0.02)


@contextmanager
def site(folder: Path, programs: Programs, definitions: Sequence[Any] = ()) -> Iterator[Site]:
    """With the namespaces `ops` and `shop`, PodProtectors and zone-aware budgets; until the end of the block.

    `definitions`: the CustomResourceDefinitions, unless they are the chart's of these.
    """
    with api_servers(folder) as servers, servers.serving(OLD) as kube:
        for name in ("ops", "shop"):
            kube.create(_NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for each in definitions or chart_definitions(_KINDS):
            kube.create(_DEFINITIONS, each)
        becomes("PodProtectors to be served", lambda: kube.list(PROTECTORS, "shop") == ())
        time.sleep(1)  # what was just defined may be unknown to the next request
        yield Site(kube, servers.kubeconfig(), folder, programs)


def chart_objects(values: Mapping[str, Any], chart: Path = _CHART) -> list[Any]:
    """What Helm makes of guard's chart, or another, with these values, for the namespace `ops`."""
    command = [str(find_helm()), "template", chart.name, str(chart), "--namespace=ops", "--include-crds", "--values=-"]
    given = json.dumps({"image": {"repository": "x"}, **values})
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def chart_definitions(values: Mapping[str, Any]) -> list[Any]:
    """The CustomResourceDefinitions of guard's chart with these values."""
    return [each for each in chart_objects(values) if each["kind"] == "CustomResourceDefinition"]
