"""docs/benchmarks/guard.md: each measure with its limit, what was reached, and whether that is enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LIMITS", "Limit", "Reached", "page"]


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


LIMITS = {
    "webhook": Limit("webhook that reserves nothing, 500 requests a second, p99", 20, "ms"),
    "deletion": Limit("deletion that is reserved, 200 a second on 50 protectors, p99", 250, "ms"),
    "writes": Limit("writes for each of these deletions", 0.5, ""),
    "quota": Limit(
        "200 deletions at once, two replicas, one of them killed: allowed or written beyond the quota", 0, ""
    ),
    "ready": Limit("from a pod's Ready to the next zone's deletion, the longest", 2, "s"),
}


def page(found: Sequence[Reached], cores: int, date: str, command: str) -> str:
    """The page, as Markdown; a measure that wasn't taken is in it as such. `date`: "" where none was."""
    by_limit = {each.limit: each for each in found}
    rows = [_row(limit, by_limit.get(key)) for key, limit in LIMITS.items()]
    head = "| what | limit | reached | enough | how | load average |"
    table = "\n".join([head, "|---|---:|---:|---|---|---:|", *rows])
    taken = f"`{command}`, {date}, {cores} cores." if date else f"`{command}` takes these measures."
    beside = (
        " The machine was busy with something else (a load average above its cores): take them again on a quiet one."
        if any(each.load_average > cores for each in found)
        else ""
    )
    return _PAGE.format(table=table, taken=taken + beside)


def _row(limit: Limit, reached: Reached | None) -> str:
    if reached is None:
        return f"| {limit.what} | {_number(limit.most, limit.unit)} | not measured yet | | | |"
    value, most = _number(reached.value, limit.unit), _number(limit.most, limit.unit)
    enough = "yes" if reached.enough else "**no**"
    return f"| {limit.what} | {most} | {value} | {enough} | {reached.how} | {reached.load_average:.1f} |"


def _number(value: float, unit: str) -> str:
    digits = 1 if unit == "ms" and value < 100 else 0 if unit == "ms" else 2
    return f"{value:.{digits}f}".removesuffix(".00").removesuffix(".0") + (f" {unit}" if unit else "")


_PAGE = """# How long guard makes others wait

{taken}

{table}

Limits are for two cores. guard runs as it does in its image, as processes on the same machine as an etcd, one API
server and whoever asks; no controllers and no kubelets: pods are made, and marked Ready by their status.

- **Webhook:** a StatefulSet's change by its object, half of them downscales of one that is labelled, to
  `/admission/no-downscale`, over TLS on kept connections. Each is sent when it is due, whether or not others were
  answered; its time begins there, so that it includes what the sender itself is late.
- **Deletions:** a Ready pod each, to the webhook of a PodProtector's cell: the pod is read, the protector is read, what
  is allowed is written into its status, and then it is answered. An aggregator counts meanwhile, and writes the same
  objects. What the API server does before and after isn't in it. Writes are tries, those that met a conflict too.
- **At once:** two replicas are asked in turn, all at the same time, about the pods of a protector; one of them is
  killed (SIGKILL) after some answers, by chance. What counts is the larger of how many were told "allowed", and how
  many are written in the status, less the quota; 0 or less is right.
- **Ready to deletion:** a group of six sets, one pod each, is rolled; the time is from the write that makes a pod Ready
  until the pod of the next set is gone, seen every 20 ms.

CPU and writes are those of the guard process that answers, for each request that got an answer within 10 s; where other
work delays everything, CPU says more than times do.

Not measured here: memory and times with 2,000 StatefulSets and 20,000 pods, and a load balancer's requests through a
rollout and a drain.
"""
