"""A lab with guard on it: images as from a site's own registry, the chart, and the workloads that guard protects."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from testkit.command import REPOSITORY
from testkit.etcd_images import import_images
from testkit.lab_cluster import LabCluster, until
from upgrader import __version__
from upgrader.lab.build_cache import content_hash
from upgrader.lab.daemon_images import guard_image
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.lab.lifecycle import Lab
from upgrader.lab.oci_archive import Image, layer_of_files
from upgrader.lab.progress_port import Silent
from upgrader.ports import Kind

__all__ = [
    "NGINX",
    "REGISTRY",
    "TOOLS",
    "import_site_images",
    "install_guard",
    "make_namespaces",
    "web_manifest",
    "zones_chart",
]

REGISTRY = "registry.example.com"
NGINX = f"{REGISTRY}/nginx"
"""The stand-in for nginx and the other images that the pages name: versions 1, 2 and `broken`, which exits at once."""
_NAMES = (NGINX, f"{REGISTRY}/ingester", f"{REGISTRY}/web")
TOOLS = f"upgrader.lab/tools:{IMAGE_VERSIONS['tools']}"
_NAMESPACES = Kind("v1", "namespaces", namespaced=False)
_DEPLOYMENTS = Kind("apps/v1", "deployments")
_WEB = Path(__file__).parent / "web_server.py"

_ZONES = """{{- range $zone, $node := .Values.zones }}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db-zone-{{ $zone }}
  labels: {rollout-group: db}
spec:
  replicas: {{ $.Values.replicas }}
  serviceName: db
  selector: {matchLabels: {zone: {{ $zone }}}}
  updateStrategy: {type: OnDelete}
  template:
    metadata: {labels: {rollout-group: db, zone: {{ $zone }}}}
    spec:
      terminationGracePeriodSeconds: 1
      nodeSelector: {kubernetes.io/hostname: {{ $node }}}
      containers:
        - name: db
          image: {{ $.Values.image }}
          imagePullPolicy: IfNotPresent
          command: [sleep, infinity]
          env: [{name: WORD, value: {{ $.Values.word | quote }}}]
          readinessProbe: {exec: {command: ["true"]}, initialDelaySeconds: 3, periodSeconds: 1}
{{- end }}
{{- if .Values.budget }}
---
apiVersion: rollout-operator.grafana.com/v1
kind: ZoneAwarePodDisruptionBudget
metadata: {name: db}
spec:
  maxUnavailable: {{ .Values.budget }}
  selector: {matchLabels: {rollout-group: db}}
{{- end }}
"""


def import_site_images(cluster: LabCluster) -> None:
    """Import guard's image and those of a web server into the workers' containerd, by the names of docs/guard*.md."""
    guard = guard_image(Silent())
    layer = layer_of_files(f"web-server-{content_hash([_WEB])}", {"/web_server.py": _WEB})
    web = replace(guard, layers=(*guard.layers, layer), entrypoint=("python3", "/web_server.py"))
    made = {each: replace(web, environment=(*web.environment, f"VERSION={each}")) for each in ("1", "2")}
    made["broken"] = replace(web, entrypoint=("false",))
    others = [replace(image, name=f"{name}:{each}") for name in _NAMES for each, image in made.items()]
    own = replace(guard, name=f"{REGISTRY}/upgrader/guard:{__version__}")
    nodes = [node.name for node in Lab.find(cluster.name).placement.nodes if node.role == "worker"]
    _import(cluster.name, nodes, [own, *others])


def _import(lab: str, nodes: Sequence[str], images: Sequence[Image]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        import_images(lab, nodes, images, Path(folder))


def make_namespaces(cluster: LabCluster, *names: str) -> None:
    """The missing ones."""
    for name in names:
        if cluster.kube.get(_NAMESPACES, name) is None:
            cluster.kube.create(_NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def install_guard(cluster: LabCluster, values: Mapping[str, Any]) -> None:
    """Install its chart into `guard`, or upgrade it with these values; returns once its pods are Ready."""
    image = {"repository": f"{REGISTRY}/upgrader/guard", "tag": __version__}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"image": image, **values}, file)
        file.flush()
        chart = str(REPOSITORY / "charts" / "guard")
        command = ["upgrade", "--install", "guard", chart, "--namespace=guard", "--create-namespace", "--wait"]
        cluster.helm(*command, "--timeout=4m", f"--values={file.name}", timeout_seconds=260)
    until("guard to be there", lambda: _ready(cluster) > 0, timeout_seconds=60)


def _ready(cluster: LabCluster) -> int:
    found: Any = cluster.kube.get(_DEPLOYMENTS, "guard", "guard")
    return int(found["status"].get("readyReplicas") or 0)


def zones_chart(folder: Path) -> Path:
    """A chart of three StatefulSets `db-zone-a` to `-c` of the group `db`, each on a worker of its own, with two pods.

    Values: `image`, `word` (changes the template), `replicas`, `budget` (of a ZoneAwarePodDisruptionBudget; 0: none).
    """
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: zones\nversion: 0.1.0\n")
    zones = {zone: f"worker-{number}" for number, zone in enumerate("abc", start=1)}
    values = {"image": TOOLS, "word": "one", "replicas": 2, "budget": 2, "zones": zones}
    (folder / "values.yaml").write_text(yaml.safe_dump(values))
    (folder / "templates" / "zones.yaml").write_text(_ZONES)
    return folder


def web_manifest(name: str, replicas: int, **labels: str) -> dict[str, Any]:
    """A Deployment whose rollout is one pod short at a time."""
    app = {"app": name}
    probe = {"exec": {"command": ["true"]}, "initialDelaySeconds": 1, "periodSeconds": 1}
    container = {"name": "x", "image": TOOLS, "command": ["sleep", "infinity"], "readinessProbe": probe}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": app},
            "template": {
                "metadata": {"labels": app},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            },
        },
    }
