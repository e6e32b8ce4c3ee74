"""docs/benchmarks/guard.md: each measure with its limit, what was reached, and whether that is enough.

What was reached last is in bench/results/guard.json: a command that takes some of the measures keeps the others. How
often promises are kept is in bench/results/guard-repeated.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["LIMITS", "Limit", "Reached", "Taken", "known", "page", "written"]


@dataclass(frozen=True)
class Limit:
    """What a measure must not exceed."""

    what: str
    most: float
    unit: str


@dataclass(frozen=True)
class Reached:
    """What was seen. `limit`: a key of LIMITS; `how`: under which load, and what else was seen."""

    limit: str
    value: float
    how: str
    load_average: float
    """Of the machine's last minute, before it began or after it, whichever is more."""

    @property
    def enough(self) -> bool:
        """Whether it is within its limit."""
        return self.value <= LIMITS[self.limit].most


@dataclass(frozen=True)
class Taken:
    """Of what was reached: the day (`2026-11-26`), and how many cores the machine had."""

    reached: Reached
    date: str
    cores: int


LIMITS = {
    "webhook": Limit("webhook without a reservation, 500 requests a second, p99", 20, "ms"),
    "deletion-100": Limit("deletion with a reservation, 100 a second on 50 protectors, p99", 250, "ms"),
    "inside-100": Limit("the same inside guard, from the request's last byte to the answer, p99", 250, "ms"),
    "writes-100": Limit("writes for each of these 100 deletions a second", 1.05, ""),
    "deletion": Limit("deletion with a reservation, 200 a second on 50 protectors, p99", 500, "ms"),
    "inside": Limit("the same inside guard, from the request's last byte to the answer, p99", 250, "ms"),
    "writes": Limit("writes for each of these 200 deletions a second", 1.05, ""),
    "quota": Limit(
        "200 deletions at once, two replicas, one of them killed: allowed or written beyond the quota", 0, ""
    ),
    "ready": Limit("from a pod's Ready to the next zone's deletion, the longest", 2, "s"),
    "memory": Limit(
        "2,000 StatefulSets, 20,000 pods: peak memory of the process that rolls out and answers webhooks", 200, "MiB"
    ),
    "listed": Limit("the same: from its start until all objects are listed, and it is ready", 30, "s"),
    "event": Limit("the same: from a pod's Ready to the next zone's deletion, the longest", 1, "s"),
    "look": Limit(
        "500 PodProtectors, 20,000 pods: CPU time of what one deletion makes guard do, each part, the longest", 5, "ms"
    ),
    "counting": Limit("20,000 pods: peak memory of the process that counts protected pods", 200, "MiB"),
}


def known(file: Path) -> dict[str, Taken]:
    """What was reached last, by the keys of LIMITS; nothing where nobody has measured."""
    if not file.exists():
        return {}
    found = json.loads(file.read_text())
    taken = {key: Taken(Reached(**each["reached"]), each["date"], each["cores"]) for key, each in found.items()}
    return {key: each for key, each in taken.items() if key in LIMITS}


def written(file: Path, taken: Mapping[str, Taken]) -> None:
    """For `known`."""
    file.write_text(json.dumps({key: asdict(each) for key, each in taken.items()}, indent=1) + "\n")


def page(taken: Mapping[str, Taken], command: str, promises: str) -> str:
    """The page, as Markdown; a measure that wasn't taken is in it as such. `promises`: the table of those."""
    rows = [_row(limit, taken.get(key)) for key, limit in LIMITS.items()]
    head = "| what | limit | measured | met | how | machine | taken |"
    table = "\n".join([head, "|---|---:|---:|---|---|---|---|", *rows])
    beside = (
        " If a load average exceeds the number of cores, the machine was busy."
        if any(each.reached.load_average > each.cores for each in taken.values())
        else ""
    )
    taken_by = f"`{command}` takes these measures.{beside}"
    return _PAGE.format(table=table, taken=taken_by, promises=promises)


def _row(limit: Limit, taken: Taken | None) -> str:
    if taken is None:
        return f"| {limit.what} | {_number(limit.most, limit.unit)} | not measured yet | | | | |"
    reached = taken.reached
    value, most = _number(reached.value, limit.unit), _number(limit.most, limit.unit)
    enough = "yes" if reached.enough else "**no**"
    machine = f"{taken.cores} cores, load average {reached.load_average:.1f}"
    return f"| {limit.what} | {most} | {value} | {enough} | {reached.how} | {machine} | {taken.date} |"


def _number(value: float, unit: str) -> str:
    digits = 0 if unit == "MiB" or (unit == "ms" and value >= 100) else 1 if unit == "ms" else 2
    return f"{value:.{digits}f}".removesuffix(".00").removesuffix(".0") + (f" {unit}" if unit else "")


_PAGE = """# How long guard makes others wait

{taken}

{table}

Limits are for two cores, which run etcd, one API server, guard and the client, without controllers and kubelets.

- **Webhook:** changes of StatefulSets, half of them downscales of one with the label, sent to `/admission/no-downscale`
  over TLS. Each is sent when it is due, and its time counts from then: delays of the client are included.
- **Deletions:** Ready pods, of one protector after the other. guard reads the pod, writes what it allows into the
  protector's status, and then answers. The test deletes the pod (not included in the time); an aggregator counts, and
  writes the same objects. Writes include conflicts; a deletion that comes during a write shares the next one.
- **At once:** all requests for a protector's pods are sent at the same time, alternately to two replicas; one is killed
  (SIGKILL) after a random number of answers. The value is the number of allowed deletions minus the quota: at most 0.
- **Ready to deletion:** a group of six sets, of one pod each, is rolled out; pods are polled every 20 ms.
- **500 PodProtectors, 20,000 pods:** in one namespace, on an API in memory (`python -m bench.guard.looks`): without
  HTTP. *Answer* is the webhook's. The aggregator learns that the pod is gone (*event*), and counts (*look*). Its *first
  look* after its start sorts all pods by each label that selectors use, here three.
- **2,000 StatefulSets, 20,000 pods:** groups of four sets, each with a zone-aware budget, in one namespace; pods have
  some 4 KB. Memory is the peak of the process' resident set since its start. The time to list ends when `/ready`
  answers 200, and includes the start of Python. The last deletion is in a group that is rolled out among the others.

CPU time and writes: of the process that answers, for each answer within 10 s. Load balancers were not measured.

## Promises under faults

Three faults once broke guard's promises. `python -m bench.guard.repeated --rollout-operator CHECKOUT --podseidon
CHECKOUT` causes each of them again and again on guard, and on the project whose manifests it accepts
([how both are run](../guard-comparison.md)), each on its own etcd and API server:

{promises}

- **The watch:** webhook and aggregator reach the API server through a proxy. It drops all events of the watches of
  pods, which stay open in one window and end normally every 2 s in the next; then it drops the events of all watches.
  For every other protector, older deletions are recorded together (`compactThreshold: 3`). Then the proxy passes events
  again. The promise is kept if at most ten pods were deleted, and if, two minutes later, nothing is reserved, ten new
  pods are counted, and one of them may be deleted.
- **Clocks:** a clock that is 5 minutes ahead or behind writes the pods' Ready conditions, as a kubelet would
  (`minReadySeconds: 3`). While deletions are requested, the clocks of guard's webhook and aggregator jump to 5 minutes
  behind, 5 minutes ahead or the right time. Podseidon's clock can't be moved: Go asks the kernel. Same promise.
- **The pod:** a downscale from 3 to 2 is allowed, and the pod is notified. Before a controller removes it, replicas are
  3 again. The promise is kept if the pod is notified within a minute that it stays, and the other zone may then shrink.

Podseidon has no aggregator here: the test counts in its place, except while watches send no events. Four rounds of the
watch, and ten of the pod, run at the same time. Seconds are those of all of guard's rounds together.
"""
