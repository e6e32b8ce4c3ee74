"""Cases of limited deletions: podseidon's own, and what it gets wrong."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.guard.measures import quota
from bench.guard.originals.case import Case
from bench.guard.originals.side import Side
from bench.guard.programs import GENERATOR, PROTECTOR
from bench.guard.site import PODS, PROTECTORS, becomes
from upgrader.ports import Kind

__all__ = ["PROTECTOR_CASES"]

_DEPLOYMENTS = Kind("apps/v1", "deployments")
_KNOWN_SECONDS = 3.0
_QUOTA_ROUNDS = 5


@contextmanager
def _app(side: Side, pods: int, least: int, **config: int) -> Iterator[str]:
    """A protector that has its pods counted, which are Ready; its name. Webhooks are asked."""
    name = f"web-{uuid.uuid4().hex[:4]}"
    side.site.pods(name, pods)
    side.site.protector(name, name, least, **config)
    side.site.wait_counted([name], pods)
    with side.site.started("answers", PROTECTOR) as replica, side.asked(replica, "/protector"):
        time.sleep(_KNOWN_SECONDS)
        yield name
    side.site.kube.delete(PROTECTORS, name, "shop")
    for pod in side.site.kube.list(PODS, "shop", labels=f"app={name}"):
        side.site.kube.delete(PODS, pod["metadata"]["name"], "shop")


def _left(side: Side, name: str) -> int:
    return len(side.site.kube.list(PODS, "shop", labels=f"app={name}"))


def _words(name: str, answers: list[str]) -> str:
    """How often each was given."""
    counted = Counter(answer.replace(f"shop/{name}", "…") or "allowed" for answer in answers)
    return "; ".join(f"{count} × {answer}" for answer, count in counted.items())


def _deletions(side: Side) -> str:
    with _app(side, 7, 5) as name:
        answers = [side.api.deleted(f"{name}-{number}") for number in range(3)]
        left = _left(side, name)
        side.site.wait_counted([name], left)
        time.sleep(_KNOWN_SECONDS)
        later = side.api.deleted(f"{name}-3")
        return f"{_words(name, answers)}; once it is counted: {_words(name, [later])}; {_left(side, name)} left"


def _collection(side: Side) -> str:
    with _app(side, 7, 5) as name:
        answer = side.api.ask("DELETE", "/api/v1/namespaces/shop/pods", labels=f"app={name}")
        return f"{_left(side, name)} left; {_words(name, [answer])}"


def _evictions(side: Side) -> str:
    with _app(side, 7, 5) as name:
        answers = [side.api.evicted(f"{name}-{number}") for number in range(7)]
        return f"{_left(side, name)} left; {_words(name, answers)}"


def _dry_runs(side: Side) -> str:
    with _app(side, 7, 5) as name:
        dry = [side.api.deleted(f"{name}-{number}", dry_run=True) for number in range(3)]
        answers = [side.api.deleted(f"{name}-{number}") for number in range(3, 6)]
        return f"dry: {_words(name, dry)}; then: {_words(name, answers)}"


def _lag(side: Side) -> str:
    with _app(side, 5, 1, maxConcurrentLag=1) as name:
        return _words(name, [side.api.deleted(f"{name}-{number}") for number in range(2)])


def _compaction(side: Side) -> str:
    with _app(side, 20, 10, compactThreshold=2) as name:
        answers = [side.api.deleted(f"{name}-{number}") for number in range(20)]
        return f"{_words(name, answers)}; {_left(side, name)} left"


def _at_once(side: Side) -> str:
    (found,) = quota(side.site, 200, 10, _QUOTA_ROUNDS, 1)
    for pod in side.site.kube.list(PODS, "shop", labels="app=many"):
        side.site.kube.delete(PODS, pod["metadata"]["name"], "shop")
    return f"worst round: {found.value:+.0f} beyond the quota; {found.how}"


def _recreate(side: Side) -> str:
    name = f"web-{uuid.uuid4().hex[:4]}"
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    meta = {"name": name, "labels": {"podseidon.kubewharf.io/protect": "true"}}
    selector = {"matchLabels": labels}
    spec = {"replicas": 4, "selector": selector, "template": template, "strategy": {"type": "Recreate"}}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
    with side.site.started("generates", GENERATOR):
        side.site.kube.create(_DEPLOYMENTS, manifest, "shop")
        made: list[Any] = []

        def there() -> bool:
            made[:] = [side.site.kube.get(PROTECTORS, f"deployment-{name}", "shop")]
            return made[0] is not None

        becomes("its protector", there)
        least = made[0]["spec"]["minAvailable"]
        side.site.kube.delete(_DEPLOYMENTS, name, "shop")
        becomes("it to go", lambda: side.site.kube.get(_DEPLOYMENTS, name, "shop") is None)
    return f"`minAvailable: {least}`"


def _column(side: Side) -> str:
    with _app(side, 5, 1) as name:
        side.api.deleted(f"{name}-0")
        group = "/apis/podseidon.kubewharf.io/v1alpha1/namespaces/shop/podprotectors"
        row = side.api.table(f"{group}/{name}")
        return "; ".join(f"{column} {row[column]}" for column in ("Aggregated", "Estimated") if column in row)


def _nobody(side: Side) -> str:
    with side.site.started("nobody", PROTECTOR) as replica, side.asked(replica, "/protector"):
        pods = {"shop": "alone", "kube-system": "alone"}
        for namespace, name in pods.items():
            spec = {"containers": [{"name": "x", "image": "x"}], "terminationGracePeriodSeconds": 0}
            manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            side.site.kube.create(PODS, manifest, namespace)
        time.sleep(_KNOWN_SECONDS)
        replica.kill()
        said = {space: side.api.deleted(name, namespace=space) and "refused" for space, name in pods.items()}
    for namespace, name in pods.items():
        side.site.kube.delete(PODS, name, namespace)
    return "; ".join(f"in {namespace}: {answer or 'allowed'}" for namespace, answer in said.items())


PROTECTOR_CASES = (
    Case("deletions", '7 pods, minimum 5: three deletions ("allows normal … and rejects extra")', _deletions),
    Case("collection", '7 pods, minimum 5: DeleteCollection ("rejects bulk deletions")', _collection),
    Case("evictions", "7 pods, minimum 5: all are evicted, as by a drain", _evictions),
    Case("dry-runs", "7 pods, minimum 5: dry runs of three deletions, then deletions of three others", _dry_runs),
    Case("lag", '`maxConcurrentLag: 1`: two deletions ("… MaxConcurrentLag")', _lag),
    Case("compaction", "20 pods, minimum 10, `compactThreshold: 2`: 20 deletions", _compaction),
    Case("at-once", "200 deletions at once, quota 10, of two replicas, one of which is killed", _at_once),
    Case("recreate", "a Deployment of 4 with the strategy `Recreate`", _recreate),
    Case("column", "`kubectl get podprotectors`: 5 pods, one deletion that is reserved", _column),
    Case(
        "protector-down",
        "no webhook answers, with the project's own configuration: a pod that no protector selects",
        _nobody,
    ),
)
