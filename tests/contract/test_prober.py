"""The prober against a real API server."""

from __future__ import annotations

import base64
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
def kube(lab_folder: Path) -> Iterator[KubeAdapter]:
    """The lab's API."""
    kube = KubeAdapter(lab_folder / "kubeconfig")
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


def test_a_healthy_api(lab_folder: Path, kube: KubeAdapter) -> None:
    """Every kind of client and request succeeds, watches report every write, and no object is left behind."""
    well(probed(lab_folder / "kubeconfig"))
    assert kube.get(CONFIG_MAPS, OBJECT, NAMESPACE) is None


def test_the_documented_role_is_enough(lab_folder: Path, kube: KubeAdapter, tmp_path: Path) -> None:
    """A service account with only the documented permissions can probe."""
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
        annotations = {"kubernetes.io/service-account.name": NAME}
        secret = {"metadata": {**ours, "annotations": annotations}, "type": "kubernetes.io/service-account-token"}
        kube.create(SECRETS, secret, NAMESPACE)
        until("the service account's token", lambda: "token" in _data(kube), timeout_seconds=120)
        config = yaml.safe_load((lab_folder / "kubeconfig").read_text())
        config["users"] = [{"name": NAME, "user": {"token": base64.b64decode(_data(kube)["token"]).decode()}}]
        config["contexts"][0]["context"]["user"] = NAME
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config))
        kubeconfig.chmod(0o600)
        well(probed(kubeconfig))
    finally:
        for kind in (SECRETS, BINDINGS, ROLES, ACCOUNTS):
            kube.delete(kind, NAME, NAMESPACE)


def _data(kube: KubeAdapter) -> dict[str, str]:
    found = kube.get(SECRETS, NAME, NAMESPACE)
    data: dict[str, str] = dict((found or {}).get("data") or {})
    return data
