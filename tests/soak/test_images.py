"""Images are on the nodes before anything changes: imported from a bundle, or the run ends."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.lab_cluster import OLD, LabCluster
from upgrader.adapters.hosts import SshHosts
from upgrader.config.inventory import load_hosts
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.ports import Kind

_PODS = Kind("v1", "pods")
_CTR = ("ctr", "-n", "k8s.io", "images")
_IMAGE = f"upgrader.test/bundled:{secrets.token_hex(3)}"
"""Of its own for each run of the tests: a node's list of images is up to 10 s old."""
_EXPORTED = "/root/bundled.tar"
_DEPLOYMENT = f"""apiVersion: apps/v1
kind: Deployment
metadata: {{name: bundled}}
spec:
  selector: {{matchLabels: {{app: bundled}}}}
  template:
    metadata: {{labels: {{app: bundled}}}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{{operator: Exists}}]
      containers: [{{name: main, image: "{_IMAGE}"}}]
"""


@pytest.fixture
def archive(cluster: LabCluster, tmp_path: Path) -> Iterator[Path]:
    """An image that no node has, as an archive; a release that needs it is the pipeline."""
    cluster.on_controller(*_CTR, "tag", "--force", f"registry.k8s.io/pause:{IMAGE_VERSIONS['pause']}", _IMAGE)
    cluster.on_controller(*_CTR, "export", _EXPORTED, _IMAGE)
    cluster.on_controller(*_CTR, "rm", _IMAGE)
    with SshHosts() as hosts:
        content = hosts.read(load_hosts(cluster.folder / "hosts.yml")["controllers"][0], _EXPORTED)
    assert content is not None
    (tmp_path / "archives").mkdir()
    (tmp_path / "archives/bundled.tar").write_bytes(content)
    chart = tmp_path / "bundled"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("{apiVersion: v2, name: bundled, version: 1.0.0}\n")
    (chart / "templates/deployment.yaml").write_text(_DEPLOYMENT)
    release = {"release": "bundled", "chart": str(chart), "namespace": "kube-system"}
    cluster.change_settings({"pipeline": [release], "images": {"deadline": "20s"}})
    try:
        yield tmp_path / "archives"
    finally:
        if "bundled" in cluster.releases():
            cluster.helm("uninstall", "bundled", "--wait")
        cluster.on_controller(*_CTR, "rm", _IMAGE)
        cluster.on_controller("rm", "-f", _EXPORTED)


def test_bundle_brings_what_the_nodes_lack(cluster: LabCluster, archive: Path, tmp_path: Path) -> None:
    """Without it the run ends before its first change, says which node can't pull which image, and leaves no pod;
    damaged, it is refused with its line; intact, the release is installed."""
    bundle = tmp_path / "bundle.tar"
    made = cluster.upgrader("bundle", "create", "-o", str(bundle), "--archives", str(archive), "--to", OLD)
    assert made.exit_code == 0, made
    refused = cluster.run(OLD)
    assert refused.exit_code == 4, refused
    assert f"can't pull {_IMAGE}" in refused.stderr or f"has not pulled {_IMAGE}" in refused.stderr, refused
    assert "controller-1" in refused.stderr and "run --to" in refused.stderr, refused
    assert [step["name"] for step in cluster.report()["steps"] if step["outcome"] != "waiting"] == ["images"]
    assert not cluster.kube.list(_PODS, labels="app.kubernetes.io/name=upgrader-image-puller")

    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 1  # in the image archive: the end of a tar file is padding
    damaged = tmp_path / "damaged.tar"
    damaged.write_bytes(content)
    refused = cluster.upgrader("run", "--to", OLD, "--yes", "--bundle", str(damaged))
    assert refused.exit_code == 2, refused
    assert "damaged.tar: SHA256SUMS:" in refused.stderr, refused

    ended = cluster.upgrader("run", "--to", OLD, "--yes", "--bundle", str(bundle))
    assert ended.exit_code == 0, ended
    names = [(step["name"], step["outcome"]) for step in cluster.report()["steps"]]
    assert names == [("bundle", "passed"), ("images", "passed"), ("bundled", "passed")]
    assert json.loads(cluster.helm("status", "bundled", "-o", "json"))["info"]["status"] == "deployed"
