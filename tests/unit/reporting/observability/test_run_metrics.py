"""The metrics of a run: what Prometheus reads of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from prometheus_client.parser import text_string_to_metric_families

from testkit import example_runs as runs
from testkit.example_runs import Story, state_of
from upgrader.reporting.observability.exposition import Family, Sample, rendered
from upgrader.reporting.observability.run_metrics import run_metrics

EARLIER = datetime(2026, 1, 1, tzinfo=UTC)


def read(content: bytes) -> dict[str, dict[tuple[str, ...], float]]:
    """The values by metric and labels, as the official client reads the text; without the cluster and the kind."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(content.decode()):
        for sample in family.samples:
            labels = tuple(value for name, value in sample.labels.items() if name not in ("cluster", "kind"))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def metrics(story: Story, *, over: bool = True) -> dict[str, dict[tuple[str, ...], float]]:
    return read(rendered(run_metrics(state_of(story), "one", EARLIER, over=over)))


def outcome(story: Story, *, over: bool = True) -> list[str]:
    """The outcomes that are 1."""
    values = metrics(story, over=over)["upgrader_run_outcome"]
    assert len(values) == 5
    return [labels[0] for labels, value in values.items() if value == 1]


def test_good_run() -> None:
    """A run that succeeded says so, how long each step and gate took, what clients saw, and when it ended."""
    found, state = metrics(runs.GOOD), state_of(runs.GOOD)
    assert outcome(runs.GOOD) == ["succeeded"]
    assert found["upgrader_step_duration_seconds"] == {(step.name,): step.seconds for step in state.steps}
    assert all(value > 0 for value in found["upgrader_gate_wait_seconds"].values())
    assert ("kube-apiserver", "continuity") in found["upgrader_gate_wait_seconds"]
    assert found["upgrader_api_requests_failed_total"] == {(): 0.0}
    assert state.updated is not None
    assert found["upgrader_last_success_timestamp_seconds"] == {(): state.updated.timestamp()}


def test_failed_run_keeps_the_last_success() -> None:
    """An alert on the age of the last success isn't silenced by a run that failed."""
    found = metrics(runs.ROLLED_BACK)
    assert outcome(runs.ROLLED_BACK) == ["rolled-back"]
    assert found["upgrader_last_success_timestamp_seconds"] == {(): EARLIER.timestamp()}
    assert found["upgrader_gate_wait_seconds"][("kube-apiserver", "deployment/kube-apiserver")] > 0


@pytest.mark.parametrize(("over", "expected"), [(False, "running"), (True, "interrupted")])
def test_run_without_an_end(over: bool, expected: str) -> None:
    """It is running for as long as its process is there, and was interrupted when that ends."""
    assert outcome(runs.GOOD[:8], over=over) == [expected]
    assert "upgrader_api_requests_failed_total" not in metrics(runs.GOOD[:8])


def test_gate_that_is_waited_for() -> None:
    """The time that a gate takes is seen while it is waited for, not only once it has passed."""
    events = [event for _, event in runs.GOOD]
    first = next(index for index, event in enumerate(events) if type(event).__name__ == "GateChecked")
    waiting = [*runs.GOOD[: first + 1], (runs.GOOD[first][0] + 7.0, runs.GOOD[first][1])]
    assert list(metrics(waiting, over=False)["upgrader_gate_wait_seconds"].values()) == [7.0]


def test_any_text_is_a_label() -> None:
    """Quotes, backslashes and lines' ends in a name break neither the line nor the next one."""
    name = 'a "b"\\\nc{d="e"} 1\n# é'
    family = Family("m", "gauge", "Help.", (Sample({"step": name}, 1.5), Sample({"step": "x"}, 1e300)))
    parsed = read(rendered([family]))
    assert parsed == {"m": {(name,): 1.5, ("x",): 1e300}}


def test_hostile_journal() -> None:
    """A journal of odd times and texts has metrics like any other."""
    assert sum(metrics(runs.HOSTILE)["upgrader_run_outcome"].values()) == 1
