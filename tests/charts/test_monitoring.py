"""Alerts and the dashboard of the pod-checkpointer: off unless asked for, and about series that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from testkit.checkpointer_series import GOOD, series_of
from tests.charts.conftest import CHARTS, Render

FILES = CHARTS / "pod-checkpointer/files"
ALL = {"metrics": {name: {"enabled": True} for name in ("podMonitor", "prometheusRule", "dashboard")}}


def expressions() -> Iterator[str]:
    """All queries of the alerts and of the dashboard."""
    for group in yaml.safe_load((FILES / "rules.yaml").read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])
    for panel in json.loads((FILES / "dashboard.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def test_every_series_is_exported() -> None:
    """No alert and no panel asks for a series that the pod-checkpointer's code doesn't have, and none is left out."""
    exported = {name.partition("{")[0] for name in series_of(GOOD)}
    asked = {name for text in expressions() for name in re.findall(r"upgrader_\w+", text)}
    assert asked <= exported
    assert exported - asked <= {"upgrader_checkpointer_passes_total"}


def test_values_of_labels_are_those_of_the_code() -> None:
    """A state that the code doesn't know would never be seen."""
    known = {value for name in series_of(GOOD) for value in re.findall(r'state="(\w+)"', name)}
    assert {value for text in expressions() for value in re.findall(r'state="(\w+)"', text)} <= known


def test_off_by_default(render: Render) -> None:
    """A cluster without the Prometheus operator gets nothing that it doesn't know."""
    found = render("pod-checkpointer")
    assert not {item["kind"] for item in found.objects} & {"PodMonitor", "PrometheusRule", "ConfigMap"}


def test_objects(render: Render) -> None:
    """The operator gets the alerts as they are in the file, with its labels; Grafana's sidecar gets the dashboard."""
    values: dict[str, Any] = {**ALL, "metrics": {**ALL["metrics"]}}
    values["metrics"]["prometheusRule"] = {"enabled": True, "labels": {"release": "prometheus"}}
    found = render("pod-checkpointer", values)
    rule = found.get("PrometheusRule", "pod-checkpointer")
    assert rule["spec"] == yaml.safe_load((FILES / "rules.yaml").read_text())
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    dashboard = found.get("ConfigMap", "pod-checkpointer-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["pod-checkpointer.json"]) == json.loads((FILES / "dashboard.json").read_text())


def test_what_is_scraped(render: Render) -> None:
    """The port that the container names, of the pods themselves: their standby pods share the address."""
    found = render("pod-checkpointer", ALL)
    monitor = found.get("PodMonitor", "pod-checkpointer")["spec"]
    container = found.container("DaemonSet", "pod-checkpointer", "checkpointer")
    assert [each["port"] for each in monitor["podMetricsEndpoints"]] == [port["name"] for port in container["ports"]]
    labels = found.pod("DaemonSet", "pod-checkpointer")["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    (without,) = monitor["selector"]["matchExpressions"]
    assert without["operator"] == "DoesNotExist" and without["key"] not in labels


@pytest.mark.parametrize("chart", ["pod-checkpointer", "kube-apiserver", "fleet"])
def test_panels_do_not_overlap(chart: str) -> None:
    """Each panel has a place of its own on the dashboard, and a title."""
    taken: set[tuple[int, int]] = set()
    for panel in json.loads((CHARTS / chart / "files/dashboard.json").read_text())["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert panel["title"] and not cells & taken and place["x"] + place["w"] <= 24
        taken |= cells
