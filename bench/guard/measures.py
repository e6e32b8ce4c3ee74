"""The measures, each on the same API server, one after the other."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from bench.guard.asking import Said, at_once, at_rate, deletion, downscale, p99
from bench.guard.page import Reached
from bench.guard.programs import ADMISSION, PROTECTOR, ROLLER, Replica
from bench.guard.sets import Sets
from bench.guard.site import PROTECTORS, Site, becomes
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.connection import by_kubeconfig
from upgrader.in_cluster.guard.runtime.resource import Resource

__all__ = ["deletions", "quota", "ready_to_deletion", "slowest_hundredth", "webhook"]

_PATH = "/protector/one"
_WATCH_SECONDS = 5.0
"""Until what was written is known everywhere, where nothing says so."""


def webhook(site: Site, rate: float, seconds: float) -> list[Reached]:
    """What needs no reservation."""
    load = os.getloadavg()[0]
    reviews = [downscale(number) for number in range(round(rate * seconds))]
    with site.started("webhook", ADMISSION) as guard:
        url = guard.url("/admission/no-downscale")
        asyncio.run(at_rate(url, reviews[: round(rate)], rate))  # connections are made, and code is warm
        before = _cpu_seconds(guard)
        said = asyncio.run(at_rate(url, reviews, rate))
        cpu = _cpu_seconds(guard) - before
    wrong = len(said) - sum(each.status == 200 for each in said)
    answered = [(number, each) for number, each in enumerate(said) if each.status == 200]
    right = all(each.allowed == (number % 2 == 0) for number, each in answered)
    how = f"{rate:g}/s for {seconds:g} s; p50 {_p50(said):.1f} ms; {wrong} failed{'' if right else '; WRONG ANSWERS'}"
    how += f"; {1000 * cpu / max(1, len(answered)):.2f} ms of CPU each"
    return [Reached("webhook", p99(said), how, _busier(load))]


def deletions(site: Site, rate: float, seconds: float, protectors: int, of: str = "") -> list[Reached]:
    """Those that are reserved: the time until the answer, the writes for each, and the time inside guard. `of`: the end
    of the measures' names.
    """
    asked = round(rate * seconds)
    each_has = -(-asked // protectors) + 2  # one more than go must stay, and one more isn't counted yet
    names = [f"web{of}-{number}" for number in range(protectors)]
    pods = [site.pods(name, each_has) for name in names]
    for name in names:
        site.protector(name, name, 1)
    with site.counting() as aggregator, site.started("deletions", PROTECTOR) as guard:
        site.wait_counted(names, each_has)
        load, counting = os.getloadavg()[0], aggregator or guard
        going = [pods[number % protectors][number // protectors] for number in range(asked)]
        before, cpu_before, counted = (
            _tries(guard),
            _cpu_seconds(guard),
            (_cpu_seconds(counting), _written_by_all(site)),
        )
        said = asyncio.run(_deleted(site, guard.url(_PATH), going, rate))
        answered = max(1, sum(each.status == 200 for each in said))
        tries, cpu = _tries(guard) - before, _cpu_seconds(guard) - cpu_before
        counting_cpu, others = _cpu_seconds(counting) - counted[0], _written_by_all(site) - counted[1] - tries
        inside = slowest_hundredth(guard.get("/metrics")[1], "guard_admission_request_duration_seconds", _PATH)
    for name in names:
        site.kube.delete(PROTECTORS, name, "shop")
    allowed, failed = sum(each.allowed for each in said), sum(each.status != 200 for each in said)
    how = f"{rate:g}/s for {seconds:g} s on {protectors}; p50 {_p50(said):.1f} ms; "
    how += f"{allowed} of {asked} allowed, {failed} failed; {1000 * cpu / answered:.2f} ms of CPU each"
    load, own = _busier(load), "of the same"
    if aggregator is not None:
        own += (
            f"; the aggregator: {others / answered:.2f} writes, {1000 * counting_cpu / answered:.2f} ms of CPU for each"
        )
    found = [Reached(f"deletion{of}", p99(said), how, load), Reached(f"writes{of}", tries / answered, own, load)]
    return found if inside is None else [*found, Reached(f"inside{of}", 1000 * inside, "at most, of the same", load)]


def quota(site: Site, pods: int, most: int, rounds: int, seed: int) -> list[Reached]:
    """Two replicas, one of which is killed in each round; the worst round counts."""
    chance, load = random.Random(seed), os.getloadavg()[0]  # noqa: S311 - when to kill, and no secret
    made = site.pods("many", pods)
    one, reviews = made[0], [deletion(each) for each in made]
    over, allowed, unanswered = [], [], 0
    with ExitStack() as stack:
        stack.enter_context(site.counting())
        stays = stack.enter_context(site.started("stays", PROTECTOR))
        for number in range(rounds):
            name = f"many-{number}"
            site.protector(name, "many", pods - most)
            site.wait_counted([name], pods)
            with site.started(f"killed-{number}", PROTECTOR) as killed:
                for guard in (stays, killed):
                    _wait_known(site, guard, deletion(one, dry_run=True))
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
    return [Reached("quota", max(over), how, _busier(load))]


def ready_to_deletion(site: Site, rolls: int) -> list[Reached]:
    """A group of six sets is rolled so many times."""
    load, seconds = os.getloadavg()[0], list[float]()
    sets = Sets(site, "zones", "abcdef")
    sets.create()
    with site.started("rolls", ROLLER):
        for number in range(rolls):
            seconds += sets.roll(f"v{number + 2}")
    sets.remove()
    how = f"{len(seconds)} times; median {median(seconds):.2f} s"
    return [Reached("ready", max(seconds), how, _busier(load))]


async def _deleted(site: Site, url: str, pods: Sequence[Any], rate: float) -> list[Said]:
    """A webhook's answers about these pods; what it allows is deleted, as the API server that asks would do."""
    async with Api(by_kubeconfig(site.kubeconfig)) as api:

        async def delete(number: int, said: Said) -> None:
            meta = pods[number]["metadata"]
            if said.allowed:
                await api.delete(Resource("v1", "pods"), meta["name"], meta["namespace"], uid=meta["uid"])

        return await at_rate(url, [deletion(each) for each in pods], rate, delete)


def _p50(said: list[Said]) -> float:
    return 1000 * median(each.seconds for each in said)


def _metric(guard: Replica, name: str) -> float:
    lines = guard.get("/metrics")[1].splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def slowest_hundredth(metrics: str, histogram: str, path: str) -> float | None:
    """The bound below which 99 of 100 of a histogram's values for this path are, in its unit; None: there are none."""
    lines = [
        line for line in metrics.splitlines() if line.startswith(f"{histogram}_bucket") and f'path="{path}"' in line
    ]
    upto = [(float(line.partition('le="')[2].partition('"')[0]), float(line.rpartition(" ")[2])) for line in lines]
    return next((bound for bound, count in upto if upto[-1][1] and count >= 0.99 * upto[-1][1]), None)


def _written_by_all(site: Site) -> float:
    """Writes of PodProtectors' status that the API server has answered, conflicts included."""
    wanted = ('resource="podprotectors"', 'subresource="status"', 'verb="PUT"')
    lines = (line for line in site.kube.raw("/metrics").splitlines() if line.startswith("apiserver_request_total{"))
    return sum(float(line.rpartition(" ")[2]) for line in lines if all(each in line for each in wanted))


def _busier(load: float) -> float:
    """The load average before a measure, or the one after it, if that is more."""
    return max(load, os.getloadavg()[0])


def _cpu_seconds(guard: Replica) -> float:
    """What the process has had of a processor, so far: it suffers less from a busy machine than times do."""
    ticks = Path(f"/proc/{guard.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _tries(guard: Replica) -> float:
    return _metric(guard, "retrybatch_execute_batch_size_count")


def _kill_after(guard: Replica, answers: int) -> Any:
    def heard(before: int) -> None:
        if before == answers:
            guard.kill()

    return heard


def _wait_known(site: Site, guard: Replica, review: bytes) -> None:
    """Each replica learns of a new protector by its watch, and lets everything go until then."""
    if not site.programs.dry_runs_are_free:
        time.sleep(_WATCH_SECONDS)
        return
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
