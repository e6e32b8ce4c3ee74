"""A zone-aware budget and a PodProtector that select the same pods, in one process, on a real API server."""

from __future__ import annotations

from pathlib import Path

from testkit.guard_process import guard_process
from testkit.lab_cluster import until
from tests.contract.guard.conftest import Pair
from tests.contract.guard.protected import PROTECTORS, install_definition
from tests.contract.guard.zone_budgets import WEBHOOK, asked, budget, configuration, installed, webhooks
from tests.contract.guard.zones import zones
from upgrader.adapters.clock import SystemClock
from upgrader.recover.webhook_bypass.switch import switch_off


def test_a_protector_denies_what_the_zone_aware_budget_denies_while_that_is_on(pair: Pair, tmp_path: Path) -> None:
    """It takes no place then. After `upgrader guard off` for the budget's webhook, only the protector's minimum counts:
    0, so it allows the eviction.
    """
    install_definition(pair.kube)
    with (
        installed(pair.kube),
        guard_process(tmp_path, pair.kubeconfig, *WEBHOOK, "-protector.cells=one") as guard,
        zones(pair.kube, count=2) as group,
        budget(pair.kube, group.group),
    ):
        a, b = group.names
        spec = {"minAvailable": 0, "selector": {"matchLabels": {"rollout-group": group.group}}}
        meta = {"name": group.group, "namespace": "shop"}
        manifest = {"apiVersion": PROTECTORS.api_version, "kind": "PodProtector", "metadata": meta, "spec": spec}
        pair.kube.create(PROTECTORS, manifest, "shop")

        def least() -> tuple[int, str]:
            return asked(guard, f"{b}-0", path="/protector/one")

        guard.wait_ready()
        assert "guard_unreadable_podprotectors 0.0" in guard.get("/metrics")[1]
        try:
            with webhooks(pair.kube, guard):
                assert asked(guard, f"{a}-0") == (0, "")
                denied = (429, f"1 pod not ready in {a}")
                until("the protector to be known", lambda: least() == denied, timeout_seconds=30, interval_seconds=0.1)
                found = pair.kube.get(PROTECTORS, group.group, "shop")
                assert found is not None and "status" not in found
                name = configuration(guard)["metadata"]["name"]
                switch_off(pair.kube, SystemClock(), [name], lambda _: None)
                until("it to be off", lambda: least() == (0, ""), timeout_seconds=30, interval_seconds=0.1)
                assert asked(guard, f"{b}-0")[0] == 429
        finally:
            pair.kube.delete(PROTECTORS, group.group, "shop")
