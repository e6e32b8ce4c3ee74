"""The prober against a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from testkit.lab_cluster import until
from upgrader.adapters.kube import KubeAdapter
from upgrader.gates.availability.prober import OBJECT
from upgrader.gates.availability.prober_control import AvailabilityProbe
from upgrader.model.availability import Availability
from upgrader.ports import Kind

CONFIG_MAPS, SECRETS, ACCOUNTS = Kind("v1", "configmaps"), Kind("v1", "secrets"), Kind("v1", "serviceaccounts")
ROLES = Kind("rbac.authorization.k8s.io/v1", "roles")
BINDINGS = Kind("rbac.authorization.k8s.io/v1", "rolebindings")
NAMESPACE, NAME = "kube-system", "upgrader-probe"
PAGE = Path(__file__).parents[2] / "docs" / "availability.md"


@pytest.fixture
def kube(bare_kubeconfig: Path) -> Iterator[KubeAdapter]:
    """The API, as its administrator."""
    kube = KubeAdapter(bare_kubeconfig)
    yield kube
    kube.close()


def probed(kubeconfig: Path) -> Availability:
    """The availability that clients see in three hundred requests and a hundred writes that watches have reported."""
    with AvailabilityProbe(kubeconfig, requests_per_second=20) as probe:

        def enough() -> bool:
            seen = probe.snapshot()
            return seen.requests >= 300 and seen.watches.events >= 100

        until("300 requests and 100 reported writes", enough, timeout_seconds=120)
        return probe.stop()


def well(seen: Availability) -> None:
    """Assert that no request failed, watches are complete, and every kind of client sent requests.

    A first try may be what a kube-apiserver with `--goaway-chance` has not processed: HTTP/2 sends it once more.
    """
    assert seen.failures == ()
    assert [each for each in seen.raw_failures if not each.error.startswith("not processed")] == []
    assert (seen.watches.missed, seen.watches.repeated) == (0, 0)
    kinds = {"get", "write", "list"}
    for client in ("fresh HTTP/1.1", "fresh HTTP/2", "kept HTTP/1.1", "kept HTTP/2"):
        assert {lane.request for lane in seen.lanes if lane.client == client} >= kinds
    assert {lane.client for lane in seen.lanes if lane.request == "watch"} == {"kept HTTP/1.1", "kept HTTP/2"}


def test_the_documented_role_is_enough(bare_kubeconfig: Path, kube: KubeAdapter, tmp_path: Path) -> None:
    """With only the documented permissions, every kind of client and request of a service account succeeds, watches
    report every write, and no object is left behind. tests/e2e/test_zero_outage.py probes as an administrator.
    """
    role = next(
        yaml.safe_load(block.partition("```")[0])
        for block in PAGE.read_text().split("```yaml\n")[1:]
        if "kind: Role" in block
    )
    ours = {"name": NAME, "namespace": NAMESPACE}
    try:
        kube.create(ACCOUNTS, {"metadata": ours}, NAMESPACE)
        kube.create(ROLES, role, NAMESPACE)
        subject = {"kind": "ServiceAccount", **ours}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}
        kube.create(BINDINGS, {"metadata": ours, "subjects": [subject], "roleRef": reference}, NAMESPACE)
        secret = kube.create(SECRETS, {"metadata": ours}, NAMESPACE)
        token = kube.request_token(NAME, NAMESPACE, seconds=3600, bound_to=secret)
        config = yaml.safe_load(bare_kubeconfig.read_text())
        config["users"] = [{"name": NAME, "user": {"token": token}}]
        config["contexts"][0]["context"]["user"] = NAME
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config))
        kubeconfig.chmod(0o600)
        well(probed(kubeconfig))
        assert kube.get(CONFIG_MAPS, OBJECT, NAMESPACE) is None
    finally:
        for kind in (SECRETS, BINDINGS, ROLES, ACCOUNTS):
            kube.delete(kind, NAME, NAMESPACE)
