"""The prober's process: `python -m upgrader.availability.prober KUBECONFIG CONTEXT REQUESTS_PER_SECOND`.

Sends requests at a fixed rate whether or not earlier ones were answered (an open loop: a slow server can't slow the
questions down), and writes what it counted to stdout, a JSON line at a time. It ends when its stdin does, so it never
outlives its parent, and takes its object out of the cluster again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import cycle, product
from pathlib import Path
from typing import TextIO

from upgrader.availability.clients import Client, FreshClient, KeptClient, Request
from upgrader.availability.endpoint import Endpoint, read_endpoint
from upgrader.availability.policy import ask
from upgrader.availability.tally import Tally
from upgrader.errors import UpgraderError

__all__ = ["OBJECT", "REQUESTS", "Prober", "main"]

DEADLINE_SECONDS = 10.0
"""After this long a request has failed."""
REPORT_SECONDS = 0.5
LEAVE_SECONDS = 3.0
"""How long the end waits for answers that are still out."""
OBJECT = "upgrader-availability"
_COLLECTION = "/api/v1/namespaces/kube-system/configmaps"


def _config_map() -> bytes:
    meta = {"name": OBJECT, "namespace": "kube-system", "labels": {"app.kubernetes.io/managed-by": "upgrader"}}
    data = {"written": datetime.now(UTC).isoformat()}
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}).encode()


# A ConfigMap, as it may be replaced without naming the version that one has seen (a Lease may not): the PUT is
# idempotent. 409 to the POST says that another client created it a moment ago.
_CREATE = Request("POST", _COLLECTION, _config_map, accept=(409,))
REQUESTS = (
    Request("GET", "/api/v1/namespaces/default"),
    Request("PUT", f"{_COLLECTION}/{OBJECT}", _config_map, when_missing=_CREATE),
    Request("GET", "/version"),
)

KINDS = (FreshClient, KeptClient)
"""The kinds of clients that take turns."""


class Prober:
    """Sends each kind of request through each kind of client, in turn."""

    def __init__(self, endpoint: Endpoint, requests_per_second: float) -> None:
        self._endpoint = endpoint
        self._clients: tuple[Client, ...] = tuple(kind(endpoint) for kind in KINDS)
        self._interval = 1 / requests_per_second
        self._stop = threading.Event()
        self._bug: BaseException | None = None
        self._tally = Tally(time.monotonic())
        self._pools = {client.name: ThreadPoolExecutor(client.parallel, client.name) for client in self._clients}

    def stop(self) -> None:
        """Ask `run` to end."""
        self._stop.set()

    def run(self, out: TextIO) -> None:
        """Probe until `stop`, reporting to `out`; then clean up and report once more, with `"final": true`."""
        self._report(out, time.monotonic())
        plan = cycle((client, request) for request, client in product(REQUESTS, self._clients))
        due = reported = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            client, request = next(plan)
            self._pools[client.name].submit(self._ask, client, request, due).add_done_callback(self._done)
            due = self._next(due)
            if due - reported >= REPORT_SECONDS:
                self._report(out, time.monotonic())
                reported = due
        stopped = time.monotonic()
        self._finish()
        if self._bug is not None:
            raise self._bug
        # The gap that is open now is open since we stopped asking, which is no fault of the server's.
        self._report(out, stopped, final=True)

    def _next(self, due: float) -> float:
        """When the next request is due. Time in which this process didn't run (a suspended laptop) is left out."""
        now = time.monotonic()
        return due + self._interval if now - due < DEADLINE_SECONDS else now

    def _ask(self, client: Client, request: Request, due: float) -> None:
        late = time.monotonic() - due
        stamp = datetime.fromtimestamp(time.time() - late, UTC).isoformat(timespec="milliseconds")
        deadline = due + DEADLINE_SECONDS
        outcome = ask(client, request, deadline=deadline, monotonic=time.monotonic, sleep=time.sleep)
        self._tally.record(
            outcome,
            client=client.name,
            request=str(request),
            due=stamp.replace("+00:00", "Z"),
            now=time.monotonic(),
        )

    def _done(self, future: Future[None]) -> None:
        """What a request of ours met is in the counts; an exception is a bug, and ends the prober."""
        if not future.cancelled() and (bug := future.exception()) is not None:
            self._bug = bug
            self._stop.set()

    def _finish(self) -> None:
        end = time.monotonic() + LEAVE_SECONDS
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        for thread in threading.enumerate():
            if thread.name.startswith(tuple(self._pools)):
                thread.join(max(0.0, end - time.monotonic()))
        for client in self._clients:
            client.close()
        # If this fails the API is away, and what is left behind is one small ConfigMap that the next run takes over.
        FreshClient(self._endpoint).send(Request("DELETE", f"{_COLLECTION}/{OBJECT}"), LEAVE_SECONDS)

    def _report(self, out: TextIO, now: float, *, final: bool = False) -> None:
        try:
            out.write(json.dumps({**asdict(self._tally.snapshot(now)), "final": final}) + "\n")
            out.flush()
        except BrokenPipeError:
            self._stop.set()  # nobody listens any more; what is in the cluster is still to be taken out


def main(arguments: Sequence[str]) -> int:
    """Run until stdin ends or SIGTERM, and exit; returns 2, with a message on stderr, for an unusable kubeconfig."""
    kubeconfig, context, rate = arguments
    try:
        prober = Prober(read_endpoint(Path(kubeconfig), context), float(rate))
    except UpgraderError as error:
        sys.stderr.write(error.message)
        return error.exit_code
    signal.signal(signal.SIGTERM, lambda *_: prober.stop())
    threading.Thread(target=_until_parent_ends, args=(prober,), daemon=True).start()
    prober.run(sys.stdout)
    os._exit(0)  # at once: the interpreter's own end would wait for threads that still wait for an answer


def _until_parent_ends(prober: Prober) -> None:
    sys.stdin.buffer.read()
    prober.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
