"""A cluster folder with twenty runs, whose API answers nobody."""

from __future__ import annotations

import json
from pathlib import Path

from testkit.example_runs import GOOD, journal_of

__all__ = ["filled"]

_RUNS = 20
_CONFIGURATION = """\
kubernetesVersion: v1.36.3
cluster: {dynamicInventory: true}
pipeline:
  - {release: web, chart: web, namespace: shop}
"""
_OBJECT = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {size: {{ .Values.size | quote }}}
"""


def filled(folder: Path) -> Path:
    """The same folder, with what `plan --offline`, completion and the first words of a command need."""
    kubeconfig = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "it", "user": {"token": "it"}}],
    }
    for name, text in {
        "upgrader.yaml": _CONFIGURATION,
        "hosts.yml": "controllers: {hosts: {a: {ansible_host: 127.0.0.1}}}\n",
        "kubeconfig": json.dumps(kubeconfig),
        "web/Chart.yaml": "{apiVersion: v2, name: web, version: 1.0.0}\n",
        "web/templates/all.yaml": _OBJECT,
        "values/web.yaml": "{size: small}\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for number in range(1, _RUNS + 1):
        journal_of(GOOD, folder, f"202601{number:02}T000000-v1.37.1")
    return folder
