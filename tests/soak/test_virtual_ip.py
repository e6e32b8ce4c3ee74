"""Adoption where clients use a virtual IP of the controller, as keepalived or kube-vip make it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from testkit.api_load import ApiLoad
from testkit.command import upgrader
from testkit.lab_cluster import OLD, LabCluster

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


def _server(cluster: LabCluster) -> str:
    document = yaml.safe_load((cluster.folder / "kubeconfig").read_text())
    return str(urlsplit(document["clusters"][0]["cluster"]["server"]).hostname)
