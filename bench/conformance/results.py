"""What ginkgo reports of each spec, and what became of the failed ones without us."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

__all__ = ["Result", "explained", "missing_images", "overlapping", "read_report"]

_PULL = re.compile(r"""Failed to pull image \\*["']([^"'\\\s]+)""")
_MESSAGE_CHARACTERS = 600


@dataclass(frozen=True)
class Result:
    """One spec that was run: `state` is ginkgo's (`passed`, `failed`, `skipped`, `timedout`, …)."""

    name: str
    state: str
    seconds: float
    begun: datetime
    ended: datetime
    message: str = ""
    image: str = ""
    """What no node could pull while it ran; only of one that failed."""

    @property
    def failed(self) -> bool:
        """Whether it was run and didn't pass: unknown states count as failed."""
        return self.state not in ("passed", "skipped", "pending")

    @property
    def unfinished(self) -> bool:
        """Whether it was interrupted, or never began: ginkgo calls that skipped, and gives it no end."""
        return self.state in ("interrupted", "aborted") or (self.state == "skipped" and self.ended.year == 1)


def read_report(text: str, names: Iterable[str], *, stopped: bool = False) -> tuple[Result, ...]:
    """The results of the named specs; RuntimeError if the suite failed around them, or one of them has no result.

    Where the suite was `stopped`, without those that hadn't begun or were at work: nothing is known of them.
    """
    wanted = dict.fromkeys(names)
    found: dict[str, Result] = {}
    for suite in json.loads(text):
        for spec in suite.get("SpecReports") or ():
            name = " ".join([*(spec.get("ContainerHierarchyTexts") or ()), spec.get("LeafNodeText", "")])
            result = _result(name, spec)
            if spec.get("LeafNodeType") != "It":
                if result.failed:
                    raise RuntimeError(f"{spec.get('LeafNodeType')} failed, so no spec is judged: {result.message}")
            elif name in wanted:
                found[name] = result
    lacking = [name for name in wanted if name not in found]
    if lacking:
        raise RuntimeError(f"{len(lacking)} specs have no result, such as {lacking[0]!r}")
    return tuple(found[name] for name in wanted if not (stopped and found[name].unfinished))


def missing_images(results: Iterable[Result]) -> Mapping[str, str]:
    """Name → image, of the specs that failed while an image of theirs couldn't be pulled."""
    return {result.name: result.image for result in results if result.failed and result.image}


def overlapping(results: Iterable[Result], spans: Sequence[tuple[datetime, datetime]]) -> tuple[Result, ...]:
    """Those that were at work for any part of one of the spans."""
    return tuple(
        result for result in results if any(result.begun < end and result.ended > begin for begin, end in spans)
    )


def explained(
    failed: Sequence[Result], again: Sequence[Result], without_us: Sequence[Result]
) -> Mapping[str, tuple[bool, str]]:
    """Name → whether it is ours, and what is known: from a second time, and from a cluster that we never touched."""
    second, plain = {result.name: result for result in again}, {result.name: result for result in without_us}
    found: dict[str, tuple[bool, str]] = {}
    for result in failed:
        here, there = second.get(result.name), plain.get(result.name)
        if there is not None and there.failed:
            found[result.name] = (False, "fails as well on kubeadm's own cluster, which upgrader never touched")
        elif there is None:
            found[result.name] = (True, "not explained")
        elif here is None:
            found[result.name] = (True, "passes on a cluster that upgrader never touched")
        elif here.failed:
            found[result.name] = (True, "fails here again, and passes on a cluster that upgrader never touched")
        else:
            found[result.name] = (True, "passes the second time, and on a cluster that upgrader never touched")
    return found


def _result(name: str, spec: Mapping[str, Any]) -> Result:
    failure = str((spec.get("Failure") or {}).get("Message", ""))
    state = str(spec.get("State", "unknown"))
    pulled = _PULL.search(json.dumps(spec)) if state not in ("passed", "skipped", "pending") else None
    return Result(
        name,
        state,
        float(spec.get("RunTime", 0)) / 1e9,
        _time(spec.get("StartTime", "")),
        _time(spec.get("EndTime", "")),
        failure.strip()[:_MESSAGE_CHARACTERS],
        pulled[1] if pulled else "",
    )


def _time(text: str) -> datetime:
    """Go's times have nanoseconds; a spec that never began has year 1."""
    return datetime.fromisoformat(
        re.sub(r"(\.\d{6})\d*", r"\1", text.replace("Z", "+00:00")) or "0001-01-01T00:00:00+00:00"
    )
