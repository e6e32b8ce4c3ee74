"""Metrics, alerts and the dashboard of HAProxy beside kube-apiserver: nothing of it unless asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.charts.conftest import CHARTS, Refused, Render

FILES = CHARTS / "kube-apiserver/files"
ONE: dict[str, Any] = {"endpoints": {"addresses": ["192.0.2.11"]}}
ON = {"enabled": True}


def metrics(**values: Any) -> dict[str, Any]:
    """One controller, with these values of `haproxy.metrics`."""
    return ONE | {"haproxy": {"metrics": values}}


def test_off_by_default(render: Render) -> None:
    """No port is opened, and a cluster without the Prometheus operator gets nothing that it doesn't know."""
    found = render("kube-apiserver", ONE)
    assert "prometheus" not in found.get("ConfigMap", "kube-apiserver-proxy")["data"]["front.cfg"]
    assert not {item["kind"] for item in found.objects} & {"PodMonitor", "PrometheusRule"}
    assert {i["metadata"]["name"] for i in found.objects if i["kind"] == "ConfigMap"} == {"kube-apiserver-proxy"}


def test_port_is_the_nodes_and_named_in_no_pod(render: Render) -> None:
    """It is bound like the listener for clients, which instances share; a port of the pod would keep the scheduler from
    starting the next instance on a node where one runs. The operator is told the port by a relabelling."""
    found = render("kube-apiserver", metrics(port=9405, podMonitor=ON))
    assert 'bind "${HOST_IP}:9405"' in found.get("ConfigMap", "kube-apiserver-proxy")["data"]["front.cfg"]
    containers = found.pod("Deployment", "kube-apiserver")["spec"]["containers"]
    assert all("9405" not in json.dumps(each.get("ports", [])) for each in containers)
    (endpoint,) = found.get("PodMonitor", "kube-apiserver-proxy")["spec"]["podMetricsEndpoints"]
    assert [rule.get("replacement") for rule in endpoint["relabelings"]][1:3] == ["$1:9405", "[$1]:9405"]
    assert endpoint["relabelings"][0]["regex"] in {each["name"] for each in containers}


def test_a_standby_pod_is_not_scraped(render: Render) -> None:
    """It has the labels of the pod whose copy it is, and the address."""
    spec = render("kube-apiserver", metrics(port=9405, podMonitor=ON)).get("PodMonitor", "kube-apiserver-proxy")["spec"]
    assert spec["selector"]["matchExpressions"] == [
        {"key": "checkpointer.upgrader.io/checkpoint-of", "operator": "DoesNotExist"}
    ]


def test_objects(render: Render) -> None:
    """The operator gets the alerts as they are in the file; Grafana's sidecar gets the dashboard, by its label."""
    found = render("kube-apiserver", metrics(port=9405, prometheusRule=ON | {"labels": {"a": "b"}}, dashboard=ON))
    rule = found.get("PrometheusRule", "kube-apiserver-proxy")
    assert rule["spec"] == yaml.safe_load((FILES / "rules.yaml").read_text()) and rule["metadata"]["labels"]["a"] == "b"
    dashboard = found.get("ConfigMap", "kube-apiserver-proxy-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    text = dashboard["data"]["kube-apiserver-proxy.json"]
    assert json.loads(text) == json.loads((FILES / "dashboard.json").read_text())


@pytest.mark.parametrize("what", ["podMonitor", "prometheusRule"])
def test_what_scrapes_nothing_is_refused(render: Render, what: str) -> None:
    """Without the port there are no metrics: an alert would fire for ever."""
    with pytest.raises(Refused, match=r"haproxy\.metrics\.port"):
        render("kube-apiserver", metrics(**{what: ON}))
