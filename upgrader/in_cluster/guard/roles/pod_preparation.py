"""Tells many pods at once that they will be deleted (POST), or that they stay (DELETE)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from upgrader.in_cluster.guard.core.delayed_downscale import Endpoint, Reply
from upgrader.in_cluster.guard.core.workloads import Pod, StatefulSet
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.pod_calls import PodCalls

__all__ = ["addresses", "failures", "tell", "uids"]


def addresses(which: StatefulSet, pods: Iterable[Pod]) -> dict[str, str]:
    """The IPs of a set's running pods, by their names."""
    return {each.name: each.ip for each in pods if each.owner_uid == which.uid and each.phase == "Running"}


def uids(which: StatefulSet, pods: Iterable[Pod]) -> dict[str, str]:
    """The UIDs of a set's running pods, by their names."""
    return {each.name: each.uid for each in pods if each.owner_uid == which.uid and each.phase == "Running"}


async def tell(
    calls: PodCalls, method: str, endpoints: Iterable[Endpoint], ips: Mapping[str, str], seconds: float
) -> dict[str, Reply]:
    """Each pod's answer, by its name; pods that don't answer within `seconds` have failed."""
    asked: dict[str, float] = {}
    tasks = {each.pod: asyncio.ensure_future(_sent(calls, method, each, ips, asked)) for each in endpoints}
    if not tasks:
        return {}
    try:
        await asyncio.wait(tasks.values(), timeout=seconds)
        now = asyncio.get_running_loop().time()

        def late(pod: str) -> Reply:
            if pod in asked:
                return Reply(0, error=f"no answer within {now - asked[pod]:.1f} s")
            return Reply(0, error=f"no request was sent within {seconds:.1f} s: requests to other pods came first")

        return {pod: task.result() if task.done() else late(pod) for pod, task in tasks.items()}
    finally:
        for task in tasks.values():
            task.cancel()


def failures(replies: Mapping[str, Reply]) -> dict[str, str]:
    """Why each pod that didn't answer 2xx is not prepared."""
    return {
        pod: reply.error or f"HTTP {reply.status}"
        for pod, reply in replies.items()
        if reply.error or not 200 <= reply.status < 300
    }


async def _sent(calls: PodCalls, method: str, to: Endpoint, ips: Mapping[str, str], asked: dict[str, float]) -> Reply:
    async with calls.turn(to.namespace):
        asked[to.pod] = asyncio.get_running_loop().time()
        status, body, error = await calls.send(
            method, ips.get(to.pod, ""), scheme=to.scheme, port=to.port, path=to.path, host=to.host
        )
    LOG.debug("told", extra={"method": method, "url": str(to), "status": status, "reason": error})
    return Reply(status, body, error)
