"""The measures, each on the same API server, one after the other."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import ExitStack
from itertools import pairwise
from statistics import median
from typing import Any

from bench.guard.asking import Said, at_once, at_rate, deletion, downscale, p99
from bench.guard.page import Reached
from bench.guard.site import PODS, PROTECTORS, SETS, Site, becomes
from testkit.guard_process import GuardProcess

__all__ = ["deletions", "quota", "ready_to_deletion", "webhook"]

_CELL = ("-protector.cells=one",)
_PATH = "/protector/one"
_AGGREGATOR = ("-roles=aggregator", "-protector.cell=one")


def webhook(site: Site, rate: float, seconds: float) -> list[Reached]:
    """What needs no reservation."""
    load = os.getloadavg()[0]
    reviews = [downscale(number) for number in range(round(rate * seconds))]
    with site.guard("webhook") as guard:
        url = guard.url("/admission/no-downscale")
        asyncio.run(at_rate(url, reviews[: round(rate)], rate))  # connections are made, and code is warm
        said = asyncio.run(at_rate(url, reviews, rate))
    wrong = len(said) - sum(each.status == 200 for each in said)
    right = sum(each.allowed for each in said) == (len(said) + 1) // 2
    how = f"{rate:g}/s for {seconds:g} s; p50 {_p50(said):.1f} ms; {wrong} failed{'' if right else '; WRONG ANSWERS'}"
    return [Reached("webhook", p99(said), how, load)]


def deletions(site: Site, rate: float, seconds: float, protectors: int) -> list[Reached]:
    """Those that are reserved; the second value: writes for each."""
    asked = round(rate * seconds)
    each_has = -(-asked // protectors) + 2  # one more than go must stay, and one more isn't counted yet
    names = [f"web-{number}" for number in range(protectors)]
    pods = [site.pods(name, each_has) for name in names]
    for name in names:
        site.protector(name, name, 1)
    with site.guard("aggregator", *_AGGREGATOR), site.guard("deletions", *_CELL) as guard:
        site.wait_counted(names, each_has)
        load = os.getloadavg()[0]
        reviews = [deletion(pods[number % protectors][number // protectors]) for number in range(asked)]
        before = _tries(guard)
        said = asyncio.run(at_rate(guard.url(_PATH), reviews, rate))
        writes = (_tries(guard) - before) / asked
    for name in names:
        site.kube.delete(PROTECTORS, name, "shop")
    allowed, failed = sum(each.allowed for each in said), sum(each.status != 200 for each in said)
    how = f"{rate:g}/s for {seconds:g} s on {protectors}; p50 {_p50(said):.1f} ms; "
    how += f"{allowed} of {asked} allowed, {failed} failed"
    return [Reached("deletion", p99(said), how, load), Reached("writes", writes, "of the same", load)]


def quota(site: Site, pods: int, most: int, rounds: int, seed: int) -> list[Reached]:
    """Two replicas, one of which is killed in each round; the worst round counts."""
    chance, load = random.Random(seed), os.getloadavg()[0]  # noqa: S311 - when to kill, and no secret
    made = site.pods("many", pods)
    one, reviews = made[0], [deletion(each) for each in made]
    over, allowed, unanswered = [], [], 0
    with ExitStack() as stack:
        stack.enter_context(site.guard("counts", *_AGGREGATOR))
        stays = stack.enter_context(site.guard("stays", *_CELL))
        for number in range(rounds):
            name = f"many-{number}"
            site.protector(name, "many", pods - most)
            site.wait_counted([name], pods)
            with site.guard(f"killed-{number}", *_CELL) as killed:
                for guard in (stays, killed):
                    _wait_known(guard, deletion(one, dry_run=True))
                after = chance.randrange(2 * most)
                urls = [guard.url(_PATH) for guard in (stays, killed)]
                said = asyncio.run(at_once(urls, reviews, _kill_after(killed, after)))
            found: Any = site.kube.get(PROTECTORS, name, "shop")
            site.kube.delete(PROTECTORS, name, "shop")
            allowed.append(sum(each.allowed for each in said))
            unanswered += sum(each.status == 0 for each in said)
            over.append(max(allowed[-1], _written(found)) - most)
    how = f"{rounds} rounds, {pods} pods, quota {most}: {min(allowed)} to {max(allowed)} allowed; "
    how += f"{unanswered} without an answer, of those that were killed; seed {seed}"
    return [Reached("quota", max(over), how, load)]


def ready_to_deletion(site: Site, rolls: int) -> list[Reached]:
    """A group of six sets is rolled so many times."""
    load, seconds = os.getloadavg()[0], []
    names = [f"zone-{letter}" for letter in "abcdef"]
    for name in names:
        _make_set(site, name)
    with site.guard("rolls", "-roles=rollout", "-kubernetes.namespace=shop"):
        for number in range(rolls):
            for name in names:
                _revision(site, name, f"v{number + 2}")
            _wait_gone(site, names[0])
            for name, following in pairwise(names):
                _pod_of(site, name)
                seconds.append(_wait_gone(site, following))
            _pod_of(site, names[-1])
            _wait_current(site, names, f"v{number + 2}")
    how = f"{len(seconds)} times; median {median(seconds):.2f} s"
    return [Reached("ready", max(seconds), how, load)]


def _p50(said: list[Said]) -> float:
    return 1000 * median(each.seconds for each in said)


def _metric(guard: GuardProcess, name: str) -> float:
    lines = guard.get("/metrics")[1].splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def _tries(guard: GuardProcess) -> float:
    return _metric(guard, "retrybatch_execute_batch_size_count")


def _kill_after(guard: GuardProcess, answers: int) -> Any:
    def heard(before: int) -> None:
        if before == answers:
            guard.kill()

    return heard


def _wait_known(guard: GuardProcess, review: bytes) -> None:
    """Each replica learns of a new protector by its watch, and lets everything go until then."""
    name = 'webhook_request_count{cause="DeletePod",cell="one",status="NewDisruption"}'

    def asks() -> bool:
        before = _metric(guard, name)
        asyncio.run(at_rate(guard.url(_PATH), [review], 1))
        return _metric(guard, name) > before

    becomes("a replica to know the protector", asks)


def _written(protector: Any) -> int:
    cells = (protector.get("status") or {}).get("cells") or ()
    buckets = [each for cell in cells for each in (cell.get("admissionHistory") or {}).get("buckets") or ()]
    return sum(int(each.get("counter") or 1) for each in buckets)


def _make_set(site: Site, name: str) -> None:
    labels = {"app": name, "rollout-group": "zones"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    spec = {
        "replicas": 1,
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "updateStrategy": {"type": "OnDelete"},
        "template": template,
    }
    meta = {"name": name, "labels": labels}
    site.kube.create(SETS, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}, "shop")
    _status(site, name, updateRevision="v1", currentRevision="v1")
    _pod_of(site, name)


def _pod_of(site: Site, name: str) -> None:
    found: Any = site.kube.get(SETS, name, "shop")
    labels = {**found["metadata"]["labels"], "controller-revision-hash": found["status"]["updateRevision"]}
    site.pod(f"{name}-0", labels, owner=found)


def _revision(site: Site, name: str, revision: str) -> None:
    site.kube.patch(SETS, name, {"metadata": {"annotations": {"template": revision}}}, "shop")
    _status(site, name, updateRevision=revision)


def _status(site: Site, name: str, **changes: Any) -> None:
    found: Any = site.kube.get(SETS, name, "shop")
    status = {"observedGeneration": found["metadata"]["generation"], "replicas": 1, "readyReplicas": 1, **changes}
    site.kube.patch(SETS, name, {"status": status}, "shop", subresource="status")


def _wait_gone(site: Site, name: str) -> float:
    return becomes(f"the pod of {name} to be deleted", lambda: site.kube.get(PODS, f"{name}-0", "shop") is None)


def _wait_current(site: Site, names: list[str], revision: str) -> None:
    def current() -> bool:
        found: Any = site.kube.list(SETS, "shop")
        return {each["status"]["currentRevision"] for each in found if each["metadata"]["name"] in names} == {revision}

    becomes(f"{revision} to be current", current)
