"""Metric gates' questions: a real Prometheus and the fake answer alike, also when data was lost."""

from __future__ import annotations

import math
import shutil
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.debian_programs import debian_program
from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from testkit.fakes.prometheus import FakePrometheus
from testkit.http_server import Handler, http_server
from testkit.local_service import local_service
from testkit.ports import free_port
from testkit.waiting import Patience
from tests.contract.checking import checked
from upgrader.adapters.clock import SystemClock
from upgrader.adapters.http_service import HttpClient
from upgrader.adapters.prometheus import PrometheusApi
from upgrader.engine.execution.gatekeeper import hold_all
from upgrader.errors import GateFailed, ServiceError
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.metric_gate import MetricGate
from upgrader.model.event import Event
from upgrader.model.gate_settings import GatePolicy, MetricGateSettings
from upgrader.model.observability import HttpEndpoint
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.pipeline import GateRun
from upgrader.ports import Prometheus
from upgrader.preflight.metric_gates import check_metric_gates

pytestmark = pytest.mark.contract

TWO = 'vector(1) or label_replace(vector(2), "a", "b", "", "")'
_CONFIG = """\
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: self
    static_configs: [{targets: ['127.0.0.1:PORT']}]
"""


class Server:
    """A Prometheus of Debian's package that scrapes itself, which can be stopped, started and robbed of its data."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        (folder / "prometheus.yml").write_text(_CONFIG.replace("PORT", str(self.port)))
        self.api = PrometheusApi(HttpClient(HttpEndpoint(f"http://127.0.0.1:{self.port}"), 10))

    def run(self) -> Iterator[None]:
        program = str(debian_program("prometheus", "prometheus"))
        arguments = ("--config.file=prometheus.yml", "--storage.tsdb.path=data")
        with local_service(
            lambda port: [program, *arguments, f"--web.listen-address=127.0.0.1:{port}"],
            "/-/ready",
            self.folder,
            self.port,
        ):
            yield

    def lose_data(self) -> None:
        shutil.rmtree(self.folder / "data")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    return Server(tmp_path_factory.mktemp("prometheus"))


@pytest.fixture(scope="module")
def real(server: Server) -> Iterator[PrometheusApi]:
    for _ in server.run():
        yield server.api


@pytest.fixture
def url(real: PrometheusApi, server: Server) -> str:
    """Where it is."""
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture(params=["real", "fake"])
def prometheus(request: pytest.FixtureRequest) -> Prometheus:
    if request.param == "real":
        api: PrometheusApi = request.getfixturevalue("real")
        return api
    return FakePrometheus(
        {
            "vector(1)": (({}, 1.0),),
            "vector(0) / 0": (({}, math.nan),),
            "vector(1) / 0": (({}, math.inf),),
            TWO: (({}, 1.0), ({"a": "b"}, 2.0)),
        }
    )


def test_one_value_a_step(prometheus: Prometheus) -> None:
    """As many values as were asked for, in one series."""
    (series,) = prometheus.values("vector(1)", points=7, step_seconds=3)
    assert series.values == (1.0,) * 7


def test_no_series(prometheus: Prometheus) -> None:
    """A query without a result is answered with no series, which is no error."""
    assert prometheus.values('up{job="nobody"}', points=3, step_seconds=1) == ()


def test_no_number(prometheus: Prometheus) -> None:
    """NaN and infinity arrive as what they are."""
    (nan,) = prometheus.values("vector(0) / 0", points=2, step_seconds=1)
    (infinite,) = prometheus.values("vector(1) / 0", points=2, step_seconds=1)
    assert all(map(math.isnan, nan.values)) and infinite.values == (math.inf, math.inf)


def test_several_series(prometheus: Prometheus) -> None:
    """Each series is told apart by its labels."""
    found = prometheus.values(TWO, points=1, step_seconds=1)
    assert {(tuple(each.labels.items()), each.values) for each in found} == {((), (1.0,)), ((("a", "b"),), (2.0,))}


def test_refused_query(prometheus: Prometheus) -> None:
    """A query that can't be read is an error with the server's words, not an empty answer."""
    with pytest.raises(ServiceError, match=r"refused the query: .*parse error"):
        prometheus.values("sum(", points=1, step_seconds=1)


def test_gates_before_a_run(prometheus: Prometheus) -> None:
    """The check finds what could not pass, and nothing where the value is within the limits."""

    def found(query: str, maximum: float = 1.0) -> list[str]:
        gate = MetricGateSettings("g", query, GatePolicy(), maximum=maximum)
        context = replace(checked(FakeKube()), prometheus=prometheus, metric_gates=(gate,))
        return [finding.id for finding in check_metric_gates(context)]

    assert found("vector(1)") == []
    assert found("vector(1)", 0.5) == ["metrics.outside"]
    for query in ("vector(0) / 0", 'up{job="nobody"}', TWO, "sum("):
        assert found(query) == ["metrics.unanswered"]


def test_lost_data(tmp_path: Path) -> None:
    """A Prometheus that starts without its data makes the gate unknown; once it is back for a window, it holds.

    What it is asked is its own `up`, which it has only for times at which it has scraped itself.
    """
    server = Server(tmp_path)
    settings = MetricGateSettings(
        "up", 'min(up{job="self"}) # all of them', GatePolicy(1, 0.0, 60.0), minimum=1, window_seconds=12
    )
    gate = MetricGate(server.api, SystemClock(), settings)
    for _ in server.run():
        _wait_for(gate, VerdictKind.HOLDS)
    assert "the request to " in gate.check().reason and gate.check().kind is VerdictKind.UNKNOWN
    server.lose_data()
    for _ in server.run():
        assert gate.check().kind is VerdictKind.UNKNOWN
        lost = _wait_for(gate, VerdictKind.UNKNOWN, "values since the step's change")
        assert "lost data" in lost.remedy
        assert "is 1, allowed: at least 1" in _wait_for(gate, VerdictKind.HOLDS).reason


class _Unheard:
    """Nobody is told of the gate's checks."""

    def emit(self, event: Event) -> None:
        """Nothing."""


def _failure(url: str, query: str, seconds: float = 60) -> GateFailed:
    """How a step ends whose metric gate asks this; its deadline passes without being waited for."""
    api, clock = PrometheusApi(HttpClient(HttpEndpoint(url), seconds)), FakeClock()
    settings = MetricGateSettings("g", query, GatePolicy(1, 1.0, 3.0), minimum=0, window_seconds=1)
    gates = (GateRun(MetricGate(api, clock, settings), settings.policy),)
    with pytest.raises(GateFailed) as caught:
        hold_all("step", gates, clock=clock, reporter=_Unheard(), absence=ApiAbsence(FakeKube(), clock, math.inf))
    return caught.value


@pytest.mark.parametrize(
    ("query", "why"),
    [("vector(0) / 0", "the value nan"), ('up{job="nobody"}', "no series"), ("sum(", "refused the query")],
    ids=["NaN", "no data", "no query"],
)
def test_outcome_of_a_step(url: str, query: str, why: str) -> None:
    """What a Prometheus can't say fails the step at the gate's deadline, and the error says what it said."""
    assert why in _failure(url, query).message


def test_slow_prometheus(url: str) -> None:
    """One that answers after the request's deadline fails the step, too; once it answers in time, the gate holds."""
    hold = threading.Event()

    def later(request: Handler) -> None:
        hold.wait()
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url + request.path) as answer:
            request.reply(answer.status, answer.read())

    with http_server(later) as between:
        assert "no answer within 0.5 s" in _failure(between.url, "vector(1)", 0.5).message
        hold.set()
        settings = MetricGateSettings("g", "vector(1)", GatePolicy(1, 0.0, 60.0), minimum=0, window_seconds=1)
        gate = MetricGate(PrometheusApi(HttpClient(HttpEndpoint(between.url), 60)), SystemClock(), settings)
        _wait_for(gate, VerdictKind.HOLDS)


def _wait_for(gate: MetricGate, kind: VerdictKind, text: str = "") -> Verdict:
    patience = Patience(120)
    while (verdict := gate.check()).kind is not kind or text not in verdict.reason:
        assert patience.left(), verdict
        time.sleep(0.2)
    return verdict
