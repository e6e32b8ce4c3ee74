"""etcd's image on three controllers, under load: a runner that is killed; a minor that stays."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from testkit.api_load import ApiLoad
from testkit.etcd_images import OTHER_ETCD, import_images, other_etcd
from testkit.kills import kill_at
from testkit.lab_cluster import OLD, LabCluster
from testkit.labs import lent_or_new
from upgrader.lab.lifecycle import Lab

NAMES = ("controller-1", "controller-2", "controller-3")
NEXT_ETCD = "v3.7.2"
MOST_LATE = 0.002
"""A kube-apiserver asks the member on its own controller only: some requests may wait longer than a client (10 s)."""
_IMAGE = "sed -n 's/^    image: //p' /etc/kubernetes/manifests/etcd.yaml"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster of three controllers, which have further images of etcd."""
    home = tmp_path_factory.mktemp("lab")
    with lent_or_new("e2e-etcd-3", home, "--controllers", "3") as cluster:
        import_images(cluster.name, NAMES, (other_etcd(), other_etcd(NEXT_ETCD)), home)
        yield cluster


def test_a_patch_with_a_runner_that_is_killed(cluster: LabCluster) -> None:
    """Killed after the first member, resumed, rolled back: every member follows, and clients hardly notice."""
    first, other = images(cluster)["controller-1"], other_etcd().name
    cluster.change_settings({"etcd": {"image": other}})
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        kill_at(cluster, f"etcd {OTHER_ETCD.removeprefix('v')} is healthy", "run", "--to", OLD, "--yes")
        assert sorted(images(cluster).values()).count(other) in (1, 2)
        resumed = cluster.upgrader("resume", "--yes")
        assert resumed.exit_code == 0, resumed
        assert images(cluster) == dict.fromkeys(NAMES, other)
        back = cluster.upgrader("rollback", "--yes")
        seen = load.stop()
    assert back.exit_code == 0, back
    assert images(cluster) == dict.fromkeys(NAMES, first)
    assert seen.failed <= seen.requests * MOST_LATE, seen
    cluster.wait_healthy(OLD)


def test_a_minor_that_all_members_have_stays(cluster: LabCluster) -> None:
    """The plan says that there is no way back; a rollback leaves etcd as it is, and says so."""
    cluster.change_settings({"etcd": {"image": other_etcd().name}})  # upstream asks for 3.6.11 before 3.7
    patched = cluster.run(OLD)
    assert patched.exit_code == 0, patched
    wanted = other_etcd(NEXT_ETCD).name
    cluster.change_settings({"etcd": {"image": wanted}})
    plan = json.loads(cluster.upgrader("plan", "--to", OLD, "-o", "json").stdout)
    assert plan["point_of_no_return"] == "etcd"
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = cluster.run(OLD)
        seen = load.stop()
    assert ended.exit_code == 0, ended
    assert images(cluster) == dict.fromkeys(NAMES, wanted)
    assert seen.failed <= seen.requests * MOST_LATE, seen
    back = cluster.upgrader("rollback", "--yes")
    assert back.exit_code == 0 and "etcd stays at 3.7" in back.stderr, back
    assert images(cluster) == dict.fromkeys(NAMES, wanted)
    cluster.wait_healthy(OLD)


def images(cluster: LabCluster) -> dict[str, str]:
    """Controller → the image in its manifest."""
    lab = Lab.find(cluster.name)
    return {name: lab.run(name, _IMAGE).strip() for name in NAMES}
