"""What guard may roll in a release's step."""

from __future__ import annotations

from upgrader.model.rollout_groups import groups_in

_MANIFEST = """
kind: StatefulSet
metadata: {name: db-a, labels: {rollout-group: db}}
---
kind: StatefulSet
metadata: {name: db-b, namespace: storage, labels: {rollout-group: db}}
---
kind: StatefulSet
metadata: {name: alone}
---
kind: Deployment
metadata: {name: web, labels: {rollout-group: web}}
---
kind: IngressDaemonSet
metadata: {name: nginx, namespace: edge, labels: {rollout-group: none}}
"""


def test_groups_and_ingress_daemon_sets_are_named_by_their_namespaces() -> None:
    """As guard reads it on the run's Lease: what isn't rolled by guard isn't there."""
    assert groups_in("shop", _MANIFEST, "") == {"shop/db", "storage/db", "edge/IngressDaemonSet/nginx"}
