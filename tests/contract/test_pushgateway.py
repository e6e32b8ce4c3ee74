"""What a run pushes, against a real Pushgateway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from testkit.debian_programs import debian_program
from testkit.example_runs import GOOD, ROLLED_BACK, Story, state_of
from testkit.local_service import local_service
from upgrader.adapters.http_service import HttpClient
from upgrader.errors import ServiceError
from upgrader.model.observability import HttpEndpoint
from upgrader.reporting.observability.exposition import rendered
from upgrader.reporting.observability.run_metrics import run_metrics
from upgrader.reporting.observability.sinks import Pushgateway

pytestmark = pytest.mark.contract
CLUSTER = "north, «one»"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpClient]:
    """A Pushgateway of Debian's package, on an address of this machine only."""
    program = debian_program("prometheus-pushgateway", "prometheus-pushgateway")
    with local_service(
        lambda port: [str(program), f"--web.listen-address=127.0.0.1:{port}"],
        "/-/ready",
        tmp_path_factory.mktemp("push"),
    ) as url:
        yield HttpClient(HttpEndpoint(url), 10)


def push(gateway: HttpClient, story: Story) -> dict[str, dict[str, float]]:
    """Push this run; the values of our metrics there, by name and by what tells the series apart."""
    content = rendered(run_metrics(state_of(story), CLUSTER, None, over=True))
    Pushgateway(gateway, CLUSTER).write("upgrade", content)
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(gateway.send("GET", "/metrics").body.decode()):
        for sample in family.samples:
            if sample.name.startswith("upgrader_"):
                group = {name: sample.labels[name] for name in ("job", "instance", "kind", "cluster")}
                assert group == {"job": "upgrader", "instance": CLUSTER, "kind": "upgrade", "cluster": CLUSTER}
                own = [value for name, value in sample.labels.items() if name not in group]
                found.setdefault(sample.name, {})["/".join(own)] = sample.value
    return found


def test_push(gateway: HttpClient) -> None:
    """All of a run arrives in the group of its cluster, and the next run replaces it as a whole."""
    good = push(gateway, GOOD)
    assert good["upgrader_run_outcome"]["succeeded"] == 1
    assert "upgrader_last_success_timestamp_seconds" in good and len(good) == 5
    bad = push(gateway, ROLLED_BACK)
    assert (bad["upgrader_run_outcome"]["succeeded"], bad["upgrader_run_outcome"]["rolled-back"]) == (0, 1)
    steps = {step.name for step in state_of(ROLLED_BACK).steps if step.seconds}
    assert set(bad["upgrader_step_duration_seconds"]) == steps
    assert "upgrader_last_success_timestamp_seconds" not in bad


def test_refused(gateway: HttpClient) -> None:
    """What a Pushgateway refuses is told with its own words."""
    with pytest.raises(ServiceError, match=r"it answered 400: .*text format"):
        Pushgateway(gateway, CLUSTER).write("upgrade", b"no metrics\n")
