"""`upgrader check` of a real cluster with a copy of its folder: as it is, and with what a target doesn't know in it."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.backups import make_keys
from testkit.command import upgrader
from tests.contract.checking import TARGET, rewrite_record
from upgrader.adapters.helm import HelmAdapter
from upgrader.adapters.kube import KubeAdapter
from upgrader.model.release import ReleaseSpec
from upgrader.ports import Kind

GONE = "apiVersion: policy/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: old}\nspec: {}\n"
DEPRECATED = "apiVersion: resource.k8s.io/v1beta1\nkind: DeviceClass\nmetadata: {name: old}\nspec: {}\n"
SHELL = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: proxy}
spec:
  replicas: 0
  selector: {matchLabels: {app: proxy}}
  template:
    metadata: {labels: {app: proxy}}
    spec:
      containers:
        - name: kube-proxy
          image: nothing.example/nothing
          command: [sh, -c, kube-proxy --bogus]
"""
UNKNOWN_TO_THE_TARGET = {
    "controllerManager": {
        "extraArgs": {
            "concurrent-service-syncs": "2",
            "feature-gates": "Bogus=true,InOrderInformers=false,InformerResourceVersion=true",
        }
    },
    "scheduler": {"image": {"tag": "v1.38.0"}, "extraArgs": {"feature-gates": "Bogus=true"}},
    "kubeProxy": {
        "image": {"tag": "v1.37.9"},
        "extraArgs": {"healthz-port": "10256"},
        "config": {"featureGates": {"Bogus": True}},
    },
}


@dataclass(frozen=True)
class Folder:
    """A copy of the cluster's folder, with a release of its own."""

    path: Path
    release: str

    @property
    def template(self) -> Path:
        """All that the release has."""
        return self.path / "chart" / "templates" / "all.yaml"

    def settings(self, **changes: Any) -> None:
        """Set keys of upgrader.yaml."""
        _change(self.path / "upgrader.yaml", changes)

    def values(self, changes: Mapping[str, Any]) -> None:
        """Change values of the release `kubernetes`."""
        _change(self.path / "values" / "kubernetes.yaml", changes)

    def ids(self) -> set[str]:
        """What `upgrader check` finds."""
        ended = upgrader("-C", self.path, "check", "--to", str(TARGET), "-o", "json", timeout_seconds=120.0)
        assert ended.stdout, ended
        return {finding["id"] for finding in json.loads(ended.stdout)["findings"]}


def _change(file: Path, changes: Mapping[str, Any]) -> None:
    file.write_text(yaml.safe_dump(_merged(yaml.safe_load(file.read_text()), changes)))


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, Mapping):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


@pytest.fixture
def folder(lab_folder: Path, tmp_path: Path) -> Folder:
    """Of an upgrade that brings nothing that the target doesn't know, with a backup."""
    path = tmp_path / "folder"
    shutil.copytree(lab_folder, path, ignore=shutil.ignore_patterns("runs", "chart"))
    copied = Folder(path, f"upgrader-check-{uuid.uuid4().hex[:6]}")
    copied.template.parent.mkdir(parents=True)
    copied.template.write_text(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {copied.release}}}\n")
    (path / "chart" / "Chart.yaml").write_text("apiVersion: v2\nname: small\nversion: 0.1.0\n")
    own = {"release": copied.release, "chart": "chart", "namespace": "default"}
    copied.settings(pipeline=[{"release": "kubernetes"}, own], backup={"recipients": [make_keys(tmp_path).recipient]})
    return copied


@pytest.fixture
def installed(kube: KubeAdapter, lab_folder: Path, folder: Folder) -> Iterator[None]:
    """Its own release is there already, by a record that is older than the cluster: with an API that has gone."""
    helm = HelmAdapter(lab_folder / "kubeconfig")
    try:
        helm.upgrade(
            ReleaseSpec(folder.release, "default", folder.path / "chart"), timeout_seconds=60, watch=lambda: None
        )
        yield
    finally:
        helm.close()
        kube.delete(Kind("v1", "secrets"), f"sh.helm.release.v1.{folder.release}.v1", "default")
        kube.delete(Kind("v1", "configmaps"), folder.release, "default")


@pytest.mark.usefixtures("installed")
def test_folder_with_what_the_target_does_not_know(kube: KubeAdapter, folder: Folder) -> None:
    """Flags, feature gates and APIs that are gone, deprecated, locked, or of a version that nobody knows; no backup.

    As it is in the lab, the same folder has none of these findings.
    """
    expected = {
        "backup.none",
        "feature-gates.deprecated",
        "feature-gates.locked",
        "feature-gates.no-data",
        "feature-gates.removed",
        "feature-gates.unsure",
        "flags.deprecated",
        "flags.no-data",
        "flags.removed",
        "flags.unread",
        "releases.removed-apis",
        "removed-apis.deprecated",
        "removed-apis.planned",
    }
    assert folder.ids() & expected == set()
    folder.settings(backup={"recipients": []})
    folder.values(UNKNOWN_TO_THE_TARGET)
    folder.template.write_text(f"{GONE}---\n{DEPRECATED}---\n{SHELL}")
    rewrite_record(kube, folder.release, GONE)
    assert expected - folder.ids() == set()
