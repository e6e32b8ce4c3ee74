"""Pods that are told many at once: those that never answer keep nobody else's from being asked."""

from __future__ import annotations

import asyncio

from upgrader.in_cluster.guard.core.delayed_downscale import Endpoint
from upgrader.in_cluster.guard.roles.pod_preparation import failures, tell
from upgrader.in_cluster.guard.runtime.pod_calls import PodCalls

_LONG_SECONDS = 600.0


class SilentCalls(PodCalls):
    """Pods with an IP of `silent` never answer."""

    async def send(
        self, method: str, ip: str, *, scheme: str, port: int, path: str, host: str
    ) -> tuple[int, bytes, str]:
        if ip == "silent":
            await asyncio.Event().wait()
        return 200, b"", ""


def pods(namespace: str, count: int) -> list[Endpoint]:
    """So many of a set."""
    return [Endpoint(number, namespace, f"db-{number}", f"db-{number}.db", "http", 80, "/") for number in range(count)]


def test_pods_that_never_answer_keep_no_other_namespaces_waiting() -> None:
    """A set of 40 takes all turns of its own namespace; a pod of another one is asked at once, and answers."""

    async def both() -> None:
        calls, noisy = SilentCalls(), pods("noisy", 40)
        ips = {each.pod: "silent" for each in noisy}
        waiting = asyncio.ensure_future(tell(calls, "POST", noisy, ips, _LONG_SECONDS))
        while not calls.turn("noisy").locked():
            await asyncio.sleep(0)
        (reply,) = (await tell(calls, "POST", pods("shop", 1), {"db-0": "10.0.0.1"}, 0)).values()
        assert (reply.status, reply.error) == (200, "")
        waiting.cancel()

    asyncio.run(both())


def test_a_pod_that_was_not_asked_is_not_said_to_be_silent() -> None:
    """Of 40, the ones that had no turn; the others were asked, and gave no answer."""

    async def told() -> dict[str, str]:
        noisy = pods("noisy", 40)
        return failures(await tell(SilentCalls(), "POST", noisy, {each.pod: "silent" for each in noisy}, 0))

    found = asyncio.run(told())
    assert found["db-0"].startswith("no answer within")
    assert found["db-39"] == "no request was sent within 0.0 s: requests to other pods came first"
    assert sum(why.startswith("no request was sent") for why in found.values()) == 8
