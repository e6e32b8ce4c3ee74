"""Adoption where clients use a virtual IP of the controller, as keepalived or kube-vip make it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from testkit.api_load import ApiLoad
from testkit.command import running, upgrader
from testkit.controllers import CONTROLLERS, on_node
from testkit.kills import Moment
from testkit.lab_cluster import OLD, TARGET, LabCluster, until
from testkit.labs import lent_or_new
from testkit.versions import COMPONENTS
from testkit.waiting import stretched
from upgrader.engine.journal.journal_file import JOURNAL

_MANIFESTS = "/etc/kubernetes/manifests"
# While kubeadm's manifest is away, the virtual IP refuses connections, as if nobody listened there any more.
_LOSE_IT_WITH_THE_STATIC_POD = f"""
cat > /root/lose.sh <<'END'
nft add table inet lose
nft add chain inet lose in '{{ type filter hook input priority -200; }}'
was=there
while sleep 0.2; do
  now=gone
  if [ -e {_MANIFESTS}/kube-apiserver.yaml ]; then now=there; fi
  if [ $now = $was ]; then continue; fi
  nft flush chain inet lose in
  if [ $now = gone ]; then nft add rule inet lose in ip daddr ADDRESS tcp dport 6443 reject with tcp reset; fi
  was=$now
done
END
systemd-run --quiet --unit=lose sh /root/lose.sh
"""


@pytest.fixture
def kubeadms(tmp_path: Path) -> Iterator[LabCluster]:
    """A cluster as kubeadm made it, whose kubeconfig leads to a virtual IP."""
    cluster = LabCluster(f"e2e-vip-{os.getpid()}", tmp_path, tmp_path / "kept")
    try:
        cluster.lab("up", "--kubernetes", OLD, "--vip")
        yield cluster
    finally:
        upgrader("-C", cluster.home, "lab", "down", "--force", "--name", cluster.name)


def test_the_virtual_ip_is_refused_restored_and_kept(kubeadms: LabCluster) -> None:
    """Values that would lose it block the adoption; a loss all the same brings the manifest back over SSH; and without
    either, no client fails, but for the one kept write that kubeadm's static pod may cut off as it ends.
    """
    values = kubeadms.folder / "values" / "kube-apiserver.yaml"
    given = values.read_text()
    kubeadms.change_values("kube-apiserver", {"extraAddresses": []})
    refused = kubeadms.upgrader("adopt", "--yes")
    assert refused.exit_code == 3, refused
    address = _server(kubeadms)
    assert f"clients use the API at {address}" in refused.stderr, refused
    values.write_text(given)

    kubeadms.on_controller(_LOSE_IT_WITH_THE_STATIC_POD.replace("ADDRESS", address))
    lost = kubeadms.upgrader("adopt", "--yes")
    assert lost.exit_code == 4, lost
    assert "kube-apiserver.yaml" in kubeadms.on_controller("ls", _MANIFESTS)
    kubeadms.on_controller("systemctl stop lose; nft delete table inet lose")

    with ApiLoad(kubeadms.folder / "kubeconfig") as load:
        adopted = kubeadms.upgrader("adopt", "--yes")
        seen = load.stop()
    assert adopted.exit_code == 0, adopted
    assert seen.failed == seen.lost_writes <= 1, seen
    assert "kube-apiserver.yaml" not in kubeadms.on_controller("ls", _MANIFESTS)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[LabCluster]:
    """An adopted cluster of three controllers, one of which has the virtual IP by keepalived."""
    with lent_or_new("e2e-vips", tmp_path, "--controllers", "3", "--vip") as cluster:
        yield cluster


def test_it_moves_twice_in_a_run(three: LabCluster) -> None:
    """It leaves its controller while kube-apiserver is replaced, and returns before the run ends: the run succeeds, and
    clients lose no more than what was on its way at either move.
    """
    first, before = CONTROLLERS[0], set(three.runs())
    assert _holders(three) == [first]
    run = ("run", "--to", TARGET, "--yes")
    with ApiLoad(three.folder / "kubeconfig") as load, running("-C", three.folder, *run) as process:
        until("the run", lambda: set(three.runs()) > before, timeout_seconds=60)
        (name,) = set(three.runs()) - before
        until("kube-apiserver's step", lambda: _has(three, name, "StepStarted"), timeout_seconds=600)
        on_node(three, first, "systemctl stop keepalived")
        until(
            "another controller to have the address", lambda: _holders(three) not in ([], [first]), timeout_seconds=30
        )
        until("kube-apiserver's step to have ended", lambda: _has(three, name, "StepEnded"), timeout_seconds=900)
        on_node(three, first, "systemctl start keepalived")
        until("the first controller to have the address again", lambda: _holders(three) == [first], timeout_seconds=60)
        output, _ = process.communicate(timeout=stretched(900))
        seen = load.stop()
    assert process.returncode == 0, output
    assert three.versions() == dict.fromkeys(COMPONENTS, TARGET)
    assert seen.failed <= 6, f"{seen}\n{output}"


def _has(cluster: LabCluster, run: str, record: str) -> bool:
    """Whether that run's journal has that record of kube-apiserver's step."""
    journal = cluster.folder / "runs" / run / JOURNAL
    lines = journal.read_text().splitlines() if journal.exists() else []
    return Moment(record, "kube-apiserver").reached([json.loads(line) for line in lines if line.endswith("}")])


def _holders(cluster: LabCluster) -> list[str]:
    """The controllers that have the virtual IP."""
    asked = f"ip -4 -oneline address show to {_server(cluster)}"
    return [name for name in CONTROLLERS if _server(cluster) in on_node(cluster, name, asked)]


def _server(cluster: LabCluster) -> str:
    document = yaml.safe_load((cluster.folder / "kubeconfig").read_text())
    return str(urlsplit(document["clusters"][0]["cluster"]["server"]).hostname)
