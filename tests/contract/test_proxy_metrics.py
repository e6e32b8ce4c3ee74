"""What the real HAProxy tells Prometheus, with the chart's own configuration; and the alerts on it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import urllib3
import yaml

from testkit.haproxy_process import haproxy_program
from testkit.lab_cluster import until
from testkit.ports import free_port
from testkit.promtool import firing, promtool
from testkit.waiting import stretched
from upgrader.adapters.helm import find_helm

CHART = Path(__file__).parents[2] / "charts/kube-apiserver"
RULES = CHART / "files/rules.yaml"
HOST, OWN = "127.0.0.1", "127.0.0.2"


@pytest.fixture
def ports() -> tuple[int, int]:
    """Of kube-apiserver and of the metrics, free at all loopback addresses."""
    return free_port("0.0.0.0"), free_port("0.0.0.0")


@pytest.fixture
def config(tmp_path: Path, ports: tuple[int, int]) -> Path:
    """front.cfg as the chart renders it."""
    values = {
        "endpoints": {"addresses": [HOST]},
        "port": ports[0],
        "haproxy": {"metrics": {"port": ports[1]}, "maxConnections": 500},
    }
    command = [str(find_helm()), "template", "kube-apiserver", str(CHART), "--kube-version", "v1.36.3", "-f", "-"]
    done = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=True)
    rendered = [item for item in yaml.safe_load_all(done.stdout) if item]
    (files,) = (item["data"] for item in rendered if item["metadata"]["name"] == "kube-apiserver-proxy")
    (tmp_path / "front.cfg").write_text(files["front.cfg"])
    return tmp_path / "front.cfg"


@contextmanager
def listening(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    """An instance of the listener, until the end of the block."""
    environment = {**os.environ, "HOST_IP": HOST, "PRIVATE_ADDRESS": OWN, "ANY_ADDRESS": "0.0.0.0"}
    with (
        config.with_suffix(".log").open("a") as log,
        subprocess.Popen(
            [*haproxy_program(), "-db", "-f", str(config)], env=environment, stdout=log, stderr=log
        ) as run,
    ):
        try:
            yield run
        finally:
            run.terminate()


def listeners(port: int) -> int:
    """How many sockets listen at a TCP port of this machine."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[1].endswith(f":{port:04X}") and line[3] == "0A" for line in lines)


def scrape(port: int, path: str = "/metrics") -> tuple[int, str]:
    """(status, text); 0 while nothing listens."""
    try:
        answer = urllib3.request("GET", f"http://{HOST}:{port}{path}", retries=False, timeout=stretched(10))
    except urllib3.exceptions.HTTPError:
        return 0, ""
    return answer.status, answer.data.decode()


def series(text: str) -> dict[str, float]:
    """By name and labels, with those that a scrape adds."""
    found = {}
    for line in text.splitlines():
        if line.startswith("haproxy_") and not line.endswith("NaN"):
            name, _, value = line.rpartition(" ")
            bare, _, labels = name.partition("{")
            own = f"{labels.rstrip('}')}," if labels else ""
            found[f'{bare}{{{own}instance="10.0.0.1:8405"}}'] = float(value)
    return found


def test_two_instances_and_what_they_tell(config: Path, ports: tuple[int, int], tmp_path: Path) -> None:
    """The next instance listens beside the first; a client's connection is counted; nothing but /metrics is answered;
    all that the alerts and the dashboard ask for is there; nothing fires; and an instance that is told to end isn't
    held up by who scrapes it."""
    api, port = ports
    with socket.socket() as server, listening(config) as first:
        server.bind((OWN, api))
        server.listen()
        until("the metrics to be served", lambda: scrape(port)[0] == 200, timeout_seconds=120, interval_seconds=0.1)
        with socket.create_connection((HOST, api), timeout=stretched(10)):
            server.settimeout(stretched(10))
            accepted, _ = server.accept()
            found = series(scrape(port)[1])
            accepted.close()
        assert found['haproxy_frontend_current_sessions{proxy="kube-apiserver",instance="10.0.0.1:8405"}'] == 1
        assert found['haproxy_frontend_limit_sessions{proxy="kube-apiserver",instance="10.0.0.1:8405"}'] > 0
        assert scrape(port, "/")[0] == 403 and scrape(port, "/metrics/x")[0] == 403

        asked = RULES.read_text() + (CHART / "files/dashboard.json").read_text()
        missing = set(re.findall(r"haproxy_\w+", asked)) - {name.partition("{")[0] for name in found}
        assert missing == set()
        assert firing(tmp_path, found, RULES) == set()

        with listening(config) as second:
            until(
                "it to listen, or to end", lambda: listeners(port) == 2 or second.poll() is not None, timeout_seconds=60
            )
            assert second.poll() is None and first.poll() is None, config.with_suffix(".log").read_text()
            kept = urllib3.HTTPConnectionPool(HOST, port, maxsize=1)
            assert kept.request("GET", "/metrics").status == 200
            first.send_signal(10)  # SIGUSR1: proxy.sh ends it so
            first.wait(stretched(20))
            assert scrape(port)[0] == 200, "the other one answers"


def test_a_bad_day(tmp_path: Path) -> None:
    """No listener, one that is nearly full, and a kube-apiserver that accepts nothing."""
    assert "SUCCESS: 3 rules found" in promtool("check", "rules", RULES)
    assert firing(tmp_path, {}, RULES) == {"KubeApiserverProxyClosed"}
    labels = 'proxy="kube-apiserver",instance="10.0.0.1:8405"'
    full = {
        f'haproxy_frontend_status{{state="UP",{labels}}}': 1.0,
        f"haproxy_frontend_current_sessions{{{labels}}}": 450.0,
        f"haproxy_frontend_limit_sessions{{{labels}}}": 500.0,
    }
    assert firing(tmp_path, full, RULES) == {"KubeApiserverProxyNearlyFull"}
    refused = {
        "interval": "1m",
        "input_series": [{"series": f"haproxy_backend_connection_errors_total{{{labels}}}", "values": "0+1x40"}],
        "promql_expr_test": [
            {"expr": f"count({rule['expr']})", "eval_time": "30m", "exp_samples": [{"labels": "{}", "value": 1}]}
            for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
            if rule["alert"] == "KubeApiserverProxyRefused"
        ],
    }
    test = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [refused]}
    (tmp_path / "test.yaml").write_text(json.dumps(test))
    assert "SUCCESS" in promtool("test", "rules", tmp_path / "test.yaml")
