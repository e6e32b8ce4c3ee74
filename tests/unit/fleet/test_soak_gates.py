"""The gates that a soak asks in a cluster: as its folder was approved, and what can't be asked doesn't pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.fakes.prometheus import FakePrometheus
from testkit.fleet_folder import write_fleet
from upgrader.fleet.inputs import inputs_of
from upgrader.fleet.soak_gates import GateAnswer, SoakGates
from upgrader.model.observability import HttpEndpoint
from upgrader.ports import Prometheus

YAML = """\
kubernetesVersion: v1.36.3
observability: {prometheus: {url: https://prometheus.example.com, bearerTokenFile: token}}
gates:
  metrics:
  - {metric: errors, query: errors, max: 0.01, window: 2m, deadline: 10m}
  - {metric: orders, query: orders, min: 1, window: 2m}
  - {metric: unasked, query: unasked, min: 1}
"""
NAMES = ("errors", "orders")


class Asked:
    """A cluster folder, what was approved of it, and its Prometheus."""

    def __init__(self, folder: Path) -> None:
        self.fleet, self.folder = write_fleet(folder), folder / "clusters/a"
        (self.folder / "upgrader.yaml").write_text(YAML)
        (self.folder / "token").write_text("prom-token-1\n")
        self.files = inputs_of(self.fleet, self.folder, (), {}).files
        self.prometheus = FakePrometheus({"errors": (({}, 0.0),), "orders": (({}, 5.0),)})
        self.tokens: list[str] = []
        self.gates = SoakGates(self.open)
        self.about: list[GateAnswer] = []

    def open(self, endpoint: HttpEndpoint) -> Prometheus:
        assert endpoint.url == "https://prometheus.example.com" and endpoint.token_file
        self.tokens.append(endpoint.token_file.read_text())
        return self.prometheus

    def ask(self, seconds: float = 600.0, *names: str) -> GateAnswer:
        self.about.clear()
        return self.gates.ask(self.folder, self.files, names or NAMES, seconds, self.about.append)


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


def test_gates_by_name(asked: Asked) -> None:
    """Those that are named, and no others, are asked for their whole window, which doesn't reach to before the run's
    end; the first one that doesn't pass is named with its reason and its deadline.
    """
    assert asked.ask() == GateAnswer()
    assert asked.prometheus.asked == [("errors", 30, 4), ("orders", 30, 4)]
    early = asked.ask(40.0)
    assert (early.gate, early.deadline_seconds) == ("errors", 600.0) and "for 40 of 120 s" in early.reason
    asked.prometheus.series["orders"] = (({}, 0.5),)
    answer = asked.ask()
    assert answer == GateAnswer("orders", "`orders` was 0.5 in the last 120 s, allowed: at least 1", 240.0)


def test_blind_gate_does_not_pass(asked: Asked) -> None:
    """No answer, missing values and a gate that the folder lacks keep the soak from ending."""
    asked.prometheus.refused = "no answer within 5 s"
    assert asked.ask().gate == "errors" and "no answer within 5 s" in asked.ask().reason
    asked.prometheus.refused, asked.prometheus.lost = "", 3
    assert "only 3 of 30 values" in asked.ask().reason
    answer = asked.ask(600.0, "latency")
    assert answer.unknown and "upgrader.yaml has no metric gate latency" in answer.reason


def test_gate_is_named_before_it_is_asked(asked: Asked) -> None:
    """Who waits no longer for the answer can say which gate has none, and how long that may take to pass."""
    assert asked.ask().passes
    assert asked.about == [GateAnswer("errors", deadline_seconds=600.0), GateAnswer("orders", deadline_seconds=240.0)]
    asked.prometheus.series["errors"] = (({}, 0.3),)
    assert asked.ask().gate == "errors" and [each.gate for each in asked.about] == ["errors"]


def test_only_what_was_approved_is_asked(asked: Asked) -> None:
    """An edit of the folder changes no query and no server, and keeps a coordinator that doesn't know what was approved
    from asking at all.
    """
    asked.ask()
    (asked.folder / "upgrader.yaml").write_text(YAML.replace("prometheus.example.com", "evil.example.com"))
    assert asked.ask() == GateAnswer()
    asked.gates = SoakGates(asked.open)
    answer = asked.ask()
    assert (answer.gate, answer.unknown, answer.passes) == ("", True, False) and asked.about == []
    assert answer.reason.startswith("they can't be queried: ") and "has changed since it was approved" in answer.reason


def test_token_is_read_from_its_folder_alone(asked: Asked, tmp_path: Path) -> None:
    """A link that takes the place of the token's file sends no other file of this machine to the server."""
    asked.ask()
    secret = tmp_path / "secret"
    secret.write_text("of someone else")
    (asked.folder / "token").unlink()
    (asked.folder / "token").symlink_to(secret)
    answer = asked.ask()
    assert answer.unknown and "they can't be queried" in answer.reason and "token" in answer.reason
    assert asked.tokens == ["prom-token-1\n"]
