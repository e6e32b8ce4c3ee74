"""Which Helm processes of this machine work on a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.fakes.kube import FakeKube
from upgrader.adapters.cluster_uid import ClusterUid
from upgrader.adapters.helm_processes import helm_at_work
from upgrader.ports import Kind

UPGRADE = "/usr/bin/helm upgrade app chart --install --namespace kube-system --kubeconfig /c/kubeconfig"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (UPGRADE, 42),
        ("helm rollback app 3 --namespace=kube-system", 42),
        ("helm history app --namespace kube-system", 0),
        ("helm upgrade app chart --namespace other", 0),
        ("helm upgrade other chart --namespace kube-system", 0),
        ("vi helm upgrade app --namespace kube-system", 0),
        ("", 0),
    ],
)
def test_helm_is_found_by_its_command_line(tmp_path: Path, command: str, found: int) -> None:
    """Only a Helm that changes this release counts."""
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cmdline").write_text("\0".join([*command.split(), ""]))
    (tmp_path / "43").mkdir()  # it has just ended
    assert helm_at_work("app", "kube-system", processes=tmp_path) == found


@pytest.mark.parametrize(
    ("environment", "ours", "found"),
    [
        ("HOME=/\0UPGRADER_CLUSTER=u-other\0", "u-ours", 0),
        ("HOME=/\0UPGRADER_CLUSTER=u-ours\0", "u-ours", 42),
        ("HOME=/\0UPGRADER_CLUSTER=\0", "u-ours", 42),
        ("HOME=/\0", "u-ours", 42),  # somebody else's
        (None, "u-ours", 42),  # another user's
        ("UPGRADER_CLUSTER=u-other\0", "", 42),  # the API didn't tell which cluster is ours
    ],
)
def test_helm_of_another_cluster_is_none_of_ours(
    tmp_path: Path, environment: str | None, ours: str, found: int
) -> None:
    """Jobs for several clusters share a machine, with releases of the same names; what isn't certain counts as ours."""
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cmdline").write_text("\0".join([*UPGRADE.split(), ""]))
    if environment is not None:
        (tmp_path / "42" / "environ").write_text(environment)
    assert helm_at_work("app", "kube-system", ours, tmp_path) == found


def test_cluster_is_asked_for_once_it_answers() -> None:
    """The UID of kube-system says which cluster it is; only an API that did not answer is asked again."""
    kube = FakeKube()
    uid = ClusterUid(kube)
    kube.unavailable = True
    assert uid() == ""
    kube.unavailable = False
    kube.put(Kind("v1", "namespaces", namespaced=False), {"metadata": {"name": "kube-system", "uid": "u-1"}})
    assert uid() == "u-1"
    kube.unavailable = True
    assert uid() == "u-1"
