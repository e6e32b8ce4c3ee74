"""The webhook `/admission/no-downscale` on a real API server: upstream's TestNoDownscale_* and TestWebHookInformer."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.guard_process import GuardProcess, guard_process
from testkit.lab_cluster import until
from tests.contract.guard.conftest import Pair
from tests.contract.guard.webhooks import (
    PROTECTED,
    VALIDATING,
    applied,
    bundles,
    no_downscale,
    scaled,
    stateful_set,
    wait_refused,
)
from upgrader.ports import Kind

SECRETS = Kind("v1", "secrets")
SECRET = "rollout-operator-self-signed-certificate"
PATH = "/admission/no-downscale"

each_way = pytest.mark.parametrize("subresource", ["", "scale"])


@pytest.fixture(scope="module")
def guard(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardProcess]:
    """A replica that is ready; not for other modules, whose replicas have other certificates: each gives its own
    authority to all webhooks.
    """
    with guard_process(tmp_path_factory.mktemp("replica"), pair.kubeconfig) as process:
        process.wait_ready()
        yield process


def wait_injected(pair: Pair, name: str) -> None:
    """Until the authority of the Secret is in a configuration, and the API server calls by it."""

    def injected() -> bool:
        secret: Any = pair.kube.get(SECRETS, SECRET, "ops")
        return secret is not None and bundles(pair.kube, name) == [secret["data"]["ca.crt"]]

    until(f"the authority to be in {name}", injected, timeout_seconds=120, interval_seconds=0.1)
    with stateful_set(pair.kube, PROTECTED) as probe:
        wait_refused(pair.kube, probe, 2, "is not allowed")


@each_way
def test_only_what_has_the_label_is_kept(pair: Pair, guard: GuardProcess, subresource: str) -> None:
    """Unlabelled: shrinks. Labelled: refused, on a dry run too; grows, and stays. By the object and by `/scale`."""
    with applied(pair.kube, no_downscale(guard.url(PATH))) as name:
        wait_injected(pair, name)
        with stateful_set(pair.kube, {}) as free, stateful_set(pair.kube, PROTECTED) as kept:
            assert scaled(pair.kube, free, 1, subresource=subresource) == ""
            for dry_run in (True, False):
                said = scaled(pair.kube, kept, 1, subresource=subresource, dry_run=dry_run)
                assert said.startswith("403: ")
                assert f"downscale of statefulsets/{kept} in shop from 3 to 1 replicas is not allowed" in said
                assert "because it has the label 'grafana.com/no-downscale=true'" in said
            assert "to 0 replicas" in scaled(pair.kube, kept, 0, subresource=subresource)
            assert scaled(pair.kube, kept, 5, subresource=subresource) == ""


def test_the_authority_is_put_into_every_configuration(pair: Pair, tmp_path: Path) -> None:
    """Made before guard starts, made after it, and one whose caBundle somebody sets to null."""
    before, after = (no_downscale("https://127.0.0.1:1/admission/no-downscale", failurePolicy="Ignore") for _ in "ab")
    with applied(pair.kube, before) as one, guard_process(tmp_path, pair.kubeconfig) as guard:
        guard.wait_ready()
        with applied(pair.kube, after) as other:
            wanted = "both to have it"
            until(wanted, lambda: all(all(bundles(pair.kube, name)) for name in (one, other)), timeout_seconds=120)
            found: Any = pair.kube.get(VALIDATING, other)
            found["webhooks"][0]["clientConfig"]["caBundle"] = None
            pair.kube.replace(VALIDATING, found)
            until(f"{other} to have it again", lambda: all(bundles(pair.kube, other)), timeout_seconds=120)
            metrics = guard.get("/metrics")[1]
            assert f'policy="Ignore",type="ValidatingWebhook",webhook="{other}.grafana.com"}} 1.0' in metrics


def test_certificates_are_replaced_without_a_restart(pair: Pair, guard: GuardProcess) -> None:
    """Even all of them at once, as when somebody deletes the Secret: no restart, and the next call is answered."""
    with applied(pair.kube, no_downscale(guard.url(PATH))) as name:
        wait_injected(pair, name)
        before = bundles(pair.kube, name)
        pair.kube.delete(SECRETS, SECRET, "ops")
        found: Any = pair.kube.get(VALIDATING, name)  # a change there has it look at once
        found["webhooks"][0]["clientConfig"]["caBundle"] = None
        pair.kube.replace(VALIDATING, found)
        until("another authority", lambda: bundles(pair.kube, name) not in (before, [""]), timeout_seconds=120)
        wait_injected(pair, name)
        assert base64.b64decode(bundles(pair.kube, name)[0]).count(b"BEGIN CERTIFICATE") == 1


def test_a_second_replica_answers_when_the_first_one_is_killed(
    pair: Pair, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Both show certificates of the same authority, and neither needs the other."""
    folders = [tmp_path_factory.mktemp("replica") for _ in range(2)]
    with guard_process(folders[0], pair.kubeconfig) as one, guard_process(folders[1], pair.kubeconfig) as other:
        one.wait_ready(), other.wait_ready()
        with applied(pair.kube, no_downscale(other.url(PATH))) as name:
            wait_injected(pair, name)
            one.kill()
            with stateful_set(pair.kube, PROTECTED) as kept:
                assert scaled(pair.kube, kept, 1).startswith("403: ")


def test_it_ends_as_the_kubelet_wants(pair: Pair, tmp_path: Path) -> None:
    """On SIGTERM it isn't ready any more, answers a while, and ends by itself with 0."""
    with guard_process(tmp_path, pair.kubeconfig) as guard:
        guard.wait_ready()
        assert guard.end() == 0
        assert [line["message"] for line in guard.lines()][-1] == "ending"
