"""`upgrader guard off` and `on`, with a real API server between them and guard."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.guard_process import guard_process
from testkit.lab_cluster import until
from tests.contract.guard.conftest import Pair
from tests.contract.guard.webhooks import (
    PROTECTED,
    STATEFUL_SETS,
    VALIDATING,
    applied,
    bundles,
    no_downscale,
    scaled,
    stateful_set,
    wait_refused,
)
from upgrader.adapters.clock import SystemClock
from upgrader.errors import Blocked
from upgrader.model.event import Event, WebhookSwitched
from upgrader.recover.webhook_bypass.bypassing_tools import BypassingKube
from upgrader.recover.webhook_bypass.configurations import NOTHING
from upgrader.recover.webhook_bypass.switch import switch_off, switch_on
from upgrader.recover.webhook_bypass.unreachable import UnreachableWebhooks


def selector(pair: Pair, name: str) -> Any:
    """Of the only webhook of a configuration."""
    found: Any = pair.kube.get(VALIDATING, name)
    return found["webhooks"][0].get("objectSelector")


def test_a_dead_guard_is_switched_off_and_on_only_once_it_answers(
    pair: Pair, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Dead, with failurePolicy Fail, it refuses a downscale; off, the downscale is done; `on` refuses as long as it is
    dead, and restores what it selected once another one answers there.
    """
    clock, told = SystemClock(), list[str]()
    selects = {"matchLabels": PROTECTED}
    with guard_process(tmp_path_factory.mktemp("dies"), pair.kubeconfig) as guard:
        guard.wait_ready()
        url = guard.url("/admission/no-downscale")
        with (
            applied(pair.kube, no_downscale(url, objectSelector=selects)) as name,
            stateful_set(pair.kube, PROTECTED) as kept,
        ):
            until("it to be injected", lambda: all(bundles(pair.kube, name)), timeout_seconds=120, interval_seconds=0.1)
            wait_refused(pair.kube, kept, 2, "not allowed")
            guard.kill()
            assert "failed calling webhook" in scaled(pair.kube, kept, 2)
            switch_off(pair.kube, clock, [name], lambda each: told.append(each.name))
            until("it to be off", lambda: scaled(pair.kube, kept, 2) == "", timeout_seconds=120, interval_seconds=0.1)
            with pytest.raises(Blocked, match=r"stays off: .*failed calling webhook"):
                switch_on(pair.kube, clock, [name], lambda each: told.append(each.name))
            assert scaled(pair.kube, kept, 1) == ""
            port = url.split(":")[2].partition("/")[0]
            again = guard_process(tmp_path_factory.mktemp("again"), pair.kubeconfig, f"-server-tls.port={port}")
            with again as other:
                other.wait_ready()
                switch_on(pair.kube, clock, [name], lambda each: told.append(each.name))
                assert selector(pair, name) == selects
                wait_refused(pair.kube, kept, 0, "not allowed")
        assert told == [f"{name}.grafana.com"] * 2
        left = [each["metadata"]["name"] for each in pair.kube.list(VALIDATING)]
        assert not [each for each in left if each.startswith("guard-probe")]


def test_a_run_goes_past_a_dead_guard_and_puts_it_back(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What a run writes is refused by a guard that is dead: its webhook is off until the run's end, where it is on once
    another one answers there.
    """
    clock, events, selects = SystemClock(), list[Event](), {"matchLabels": PROTECTED}
    with guard_process(tmp_path_factory.mktemp("dies"), pair.kubeconfig) as guard:
        guard.wait_ready()
        url = guard.url("/admission/no-downscale")
        with (
            applied(pair.kube, no_downscale(url, objectSelector=selects)) as name,
            stateful_set(pair.kube, PROTECTED) as kept,
        ):
            until("it to be injected", lambda: all(bundles(pair.kube, name)), timeout_seconds=120, interval_seconds=0.1)
            wait_refused(pair.kube, kept, 2, "not allowed")
            guard.kill()
            webhooks = UnreachableWebhooks(pair.kube, clock)
            with webhooks.during(events.append, ()):
                kube = BypassingKube(pair.kube, webhooks)
                found: Any = kube.patch(STATEFUL_SETS, kept, {"spec": {"replicas": 2}}, "shop")
                assert found["spec"]["replicas"] == 2 and selector(pair, name) == NOTHING
                port = url.split(":")[2].partition("/")[0]
                again = guard_process(tmp_path_factory.mktemp("again"), pair.kubeconfig, f"-server-tls.port={port}")
                with again as other:
                    other.wait_ready()
                    webhooks.switch_on()
                    assert selector(pair, name) == selects
                    wait_refused(pair.kube, kept, 0, "not allowed")
        ended = [event for event in events if isinstance(event, WebhookSwitched)]
        assert [(event.which.webhook, event.off, event.succeeded) for event in ended] == [
            (f"{name}.grafana.com", True, True),
            (f"{name}.grafana.com", False, True),
        ]
