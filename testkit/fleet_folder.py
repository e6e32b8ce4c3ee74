"""A small fleet folder: a canary, two clusters of production, and one that is excluded."""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["FLEET", "INVENTORY", "server_of", "write_fleet", "write_kubeconfig"]

FLEET = """\
apiVersion: upgrader.io/v1alpha1
kind: FleetRun
spec:
  target: v1.37.1
  stages:
  - name: canary
    selector: {matchLabels: {ring: canary}}
    soak: {for: 24h}
  - name: production
    selector: {matchLabels: {ring: production}}
    before: [{type: Approval}]
    maxConcurrency: 50%
    maxFailures: {rolledBack: 2%, broken: 0, sameCause: 1}
    onUnreachable: {wait: 48h, then: skip}
  domains: {label: region}
  exclude: [d]
  windows: [{selector: {}, cron: "0 22 * * 1-4", duration: 4h, timeZone: Europe/Berlin}]
  exclusions: [{from: 2026-12-15, to: 2027-01-06, timeZone: Europe/Berlin}]
"""
INVENTORY = """\
clusters:
- {name: a, uid: u1, labels: {ring: canary, region: north}}
- {name: b, uid: u2, labels: {ring: production, region: north}}
- {name: c, uid: u3, labels: {ring: production, region: south}}
- {name: d, uid: u4}
"""


def write_fleet(folder: Path, fleet: str = FLEET, inventory: str = INVENTORY) -> Path:
    """Write both files, and a folder with a kubeconfig for each of the four clusters; returns the fleet's folder."""
    (folder / "fleet.yaml").write_text(fleet)
    (folder / "fleet-inventory.yaml").write_text(inventory)
    for name in "abcd":
        cluster = folder / "clusters" / name
        cluster.mkdir(parents=True, exist_ok=True)
        (cluster / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
        write_kubeconfig(cluster)
    return folder


def write_kubeconfig(folder: Path, *, server: str = "", token: str = "t", **user: object) -> None:
    """Write a cluster folder's kubeconfig; `server`: by default, the folder's name. `user` has more of its keys."""
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"https://{server or folder.name}:6443"}}],
        "users": [{"name": "u", "user": {"token": token, **user} if token else user}],
    }
    (folder / "kubeconfig").write_text(json.dumps(content))


def server_of(kubeconfig: Path) -> str:
    """The host of the server in a kubeconfig as `write_kubeconfig` writes it, also in a copy of its content."""
    server = json.loads(kubeconfig.read_bytes())["clusters"][0]["cluster"]["server"]
    return str(server).removeprefix("https://").removesuffix(":6443")
