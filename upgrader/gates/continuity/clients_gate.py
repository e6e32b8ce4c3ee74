"""The gate of the API's other clients, by what kube-apiserver itself counts."""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping
from dataclasses import dataclass, replace
from math import inf

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES
from upgrader.gates.continuity.running_instances import FollowedInstances
from upgrader.gates.continuity.server_metrics import TOO_MANY, Counters, parse, since, together
from upgrader.gates.continuity.worse_clients import at_cpu_limit, fewer_seats, more_queued, more_refusals, slower
from upgrader.model.baseline import Baseline
from upgrader.model.outcome import Verdict, broken, holds, pending, unknown
from upgrader.ports import Clock, Kube

__all__ = ["WINDOW_SECONDS", "ClientsGate"]

WINDOW_SECONDS = 4.0
"""Between two readings of an instance: they may be large, and a moment says nothing."""
WORSE_WINDOWS = 3
"""Windows in a row in which the same kind of refusal has risen, after which this is no start-up noise."""
CROWDED_SECONDS = 30.0
"""For which clients that all connect again, and list all that they know, may find too few seats."""
THROTTLED_SECONDS = 30.0
"""For which an instance may use all of its CPU limit and be slow: it has just started, and its clients list all that
they know.
"""
_FEW_SEATS_WINDOWS = 4
"""Windows for which an instance with far fewer seats is watched: its clients may just be connecting, and a request is
rejected only after a quarter of its time in a queue, 15 s by default.
"""
_LOGIN = "401"
"""What is refused before the API looks at what is asked: who asks isn't known, or is no longer."""
_ONE_CLIENT = 3.0
"""Requests a second of one client that is refused, and tries again: clients wait longer and longer between tries."""

_REMEDY = (
    "Find the clients in the audit log, or with `kubectl get --raw /metrics | grep apiserver_request_total`. For 401, "
    "check kube-apiserver's flags service-account-issuer, service-account-key-file and client-ca-file; for 403, "
    "authorization-mode; for 429 and for slow requests, max-requests-inflight and "
    f"max-mutating-requests-inflight; otherwise, its log. {KEEP_THE_RELEASES}"
)

_THROTTLED_REMEDY = (
    "Remove kube-apiserver's CPU limit from the values of its release (resources.limits.cpu), or raise it. "
    f"{KEEP_THE_RELEASES}"
)

_UNREAD_REMEDY = "Check that the metrics can be read: kubectl get --raw /metrics"


@dataclass(frozen=True)
class _Crowd:
    """Clients that have waited, or were rejected, since `since` (monotonic), as there are fewer seats than before."""

    since: float
    longest: float = 0.0
    """The longest queue so far."""
    windows: int = 0
    """In how many windows, one behind the other."""

    def seen_again(self, queued: float) -> _Crowd:
        """The same after another such window."""
        return _Crowd(self.since, max(self.longest, queued), self.windows + 1)

    def decided_at(self, now: float) -> float | None:
        """When it will have lasted for long, in enough windows; None once it has. A long window may be of rejections
        that ended early in it.
        """
        at = max(self.since + CROWDED_SECONDS, now + WINDOW_SECONDS * (WORSE_WINDOWS - self.windows))
        return at if now < at else None

    def stays(self, now: float, queued: float) -> bool:
        """Whether it has lasted for long, and isn't becoming shorter, as behind a start."""
        return self.decided_at(now) is None and 2 * queued >= self.longest


@dataclass
class _Instance:
    """The readings of one instance so far."""

    read_at: float
    last: Counters
    seconds: float = 0.0
    """The length of the last window."""
    windows: int = 0
    """How many were read of this process."""
    fewer: str = ""
    """That it has far fewer seats than before the run, in words."""
    worse: int = 0
    crowded: _Crowd | None = None
    """Since when too few seats are left, if its clients notice."""
    throttled: float | None = None
    """Since when (monotonic) it has used all of its CPU limit."""
    window: Counters | None = None
    """What it counted in the last window; None before it has been read twice."""
    problem: Verdict | None = None
    """What was worse in the last window."""
    excused: str = ""
    """What was worse in the last window, and isn't the step's work."""


class ClientsGate:
    """Refusals (401, 403, 5xx, too many requests), requests that wait for a seat, and the 99th percentile by verb,
    compared with the baseline.

    Each instance is read every few seconds, one in each check. It holds once a whole window of each was as good as
    before; slower answers and a queue alone are waited for until the deadline, as an instance that has just started is
    slow. Where it has far fewer seats than before, a queue, or rejected requests however few, are certain after half a
    minute; so are slower answers of an instance that has used all of its CPU limit for so long.

    A client's own token may expire in any hour of a run. After a step that only changes nodes, and that left every
    process of kube-apiserver as it was, as few 401 as one client causes are told, and fail nothing.
    """

    name = "continuity/clients"

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        baseline: Callable[[], Baseline],
        controllers: Collection[str],
        *,
        changes_logins: bool = True,
        starts: MutableMapping[str, str] | None = None,
    ) -> None:
        """`starts`: when the instances started that earlier gates of the run have read; this one adds to it."""
        self._kube, self._clock, self._baseline = kube, clock, baseline
        self._seen: dict[str, _Instance] = {}
        self._followed = FollowedInstances(kube, controllers)
        self._changes_logins = changes_logins
        self._starts: MutableMapping[str, str] = {} if starts is None else starts
        self._before = dict(self._starts)
        """When the instances started that there were before the step."""

    def begun(self) -> ClientsGate:
        """The same, with a first reading: it is compared with the next one, and other gates' checks take their time."""
        self.check()
        return self

    def check(self) -> Verdict:
        """Read the instance whose turn it is, if one's is, and judge them all."""
        if not self._baseline().clients:
            return holds("no metrics of kube-apiserver could be read before this run")
        now, asked = self._clock.monotonic(), ""
        try:
            servers = self._followed.now([each.server for each in self._baseline().clients])
            self._seen = {server: seen for server, seen in self._seen.items() if server in servers}
            due = sorted((server for server in servers if self._due(server, now)), key=self._read_at)
            if due:  # the one that has waited longest: of five, the last one's turn would never come
                asked = due[0]
                self._read(asked, parse(self._kube.raw("/metrics", server=asked)), now)
        except ApiError as error:
            self._followed.forget()
            return unanswered(f"the metrics of kube-apiserver{_at(asked)}", error)
        except ValueError as error:  # an instance that stops, or a proxy, may end in the middle of a line
            return unknown(f"the metrics of kube-apiserver{_at(asked)} can't be read: {error}", remedy=_UNREAD_REMEDY)
        problem = next((seen.problem for seen in self._seen.values() if seen.problem), None)
        if problem is not None:
            return problem
        if not all(server in self._seen and self._seen[server].window for server in servers):
            what = "kube-apiserver's clients: waiting for the second reading of its metrics"
            return pending(what, remedy=_UNREAD_REMEDY)
        few = next((seen.fewer for seen in self._seen.values() if seen.windows < _FEW_SEATS_WINDOWS and seen.fewer), "")
        if few:
            return pending(f"kube-apiserver has {few}: waiting to see whether they are enough", remedy=_REMEDY)
        excused = next((seen.excused for seen in self._seen.values() if seen.excused), "")
        if excused:
            return holds(
                "kube-apiserver doesn't reject more requests than before this run, and is not slower. Not counted: "
                f"requests of one client with invalid credentials ({excused}), because this step changed no "
                "authentication and restarted no kube-apiserver"
            )
        return holds("kube-apiserver doesn't reject more requests than before this run, and is not slower")

    def _read_at(self, server: str) -> float:
        return self._seen[server].read_at if server in self._seen else -inf

    def _due(self, server: str, now: float) -> bool:
        return server not in self._seen or now - self._seen[server].read_at >= WINDOW_SECONDS

    def _read(self, server: str, found: Counters, now: float) -> None:
        """Judge the window since the last reading, and begin the next one."""
        self._starts[server] = found.start
        seen = self._seen.get(server)
        window = since(seen.last, found) if seen else None
        if seen is None or window is None:  # the first reading, or another instance answers
            self._seen[server] = _Instance(now, found)
            return
        reading = self._seen[server] = _Instance(now, found, now - seen.read_at, seen.windows + 1, window=window)
        everywhere = together(each.window for each in self._seen.values() if each.window)
        known = self._baseline().clients
        refusals = more_refusals(known, window, everywhere) or more_refusals(known, everywhere, everywhere)
        if self._own_fault(everywhere):
            reading.excused = refusals.pop(_LOGIN, "")
        queued, fewer = more_queued(known, window), fewer_seats(known, window)
        reading.fewer = fewer
        # With far fewer seats than before, however few are rejected among all that are answered.
        rejected = more_refusals(known, window, everywhere, floor=0.0).get(TOO_MANY, "") if fewer else ""
        if fewer and (queued or rejected):
            reading.crowded = (seen.crowded or _Crowd(seen.read_at)).seen_again(window.queued)
            queued = f"{queued or rejected}; {fewer}"
        slow = (*filter(None, [queued]), *slower(known, window))
        throttled = at_cpu_limit(window, self._followed.cpu_limit(server), reading.seconds)
        if throttled:
            reading.throttled = seen.read_at if seen.throttled is None else seen.throttled
            slow = tuple(f"{each}; {throttled}" for each in slow[:1]) + slow[1:]
        starved = bool(slow) and reading.throttled is not None and now - reading.throttled >= THROTTLED_SECONDS
        reading.worse = seen.worse + 1 if refusals else 0
        lasting = reading.crowded is not None and reading.crowded.stays(now, window.queued)
        certain = lasting or starved or reading.worse >= WORSE_WINDOWS
        reading.problem = _problem(server, tuple(refusals.values()), slow, certain=certain)
        if reading.problem and reading.crowded:
            reading.problem = replace(reading.problem, certain=lasting, again_at=reading.crowded.decided_at(now))
        elif reading.problem and reading.throttled is not None and refusals.keys() <= {TOO_MANY}:
            at = None if starved else reading.throttled + THROTTLED_SECONDS
            reading.problem = replace(reading.problem, certain=starved, again_at=at, remedy=_THROTTLED_REMEDY)

    def _own_fault(self, everywhere: Counters) -> bool:
        """Whether the refused logins are as few as one client's, and can't come from the step.

        A process that is as it was knows whom it knew; of one that isn't, they may be the step's work.
        """
        if self._changes_logins:
            return False
        known = {item.server: item.start for item in self._baseline().clients if item.start} | self._before
        same = all(known.get(server) == seen.last.start for server, seen in self._seen.items())
        seconds = min((seen.seconds for seen in self._seen.values() if seen.window), default=0.0)
        return same and everywhere.unwanted.get(_LOGIN, 0.0) <= _ONE_CLIENT * seconds


def _problem(server: str, refusals: tuple[str, ...], slow: tuple[str, ...], *, certain: bool) -> Verdict | None:
    if not refusals and not slow:
        return None
    kind = "rejects more of its clients' requests" if refusals else "is slower for its clients"
    what = f"kube-apiserver{_at(server)} {kind} than before this run: {(refusals or slow)[0]}"
    return (broken if certain else pending)(what, *(refusals + slow)[1:], remedy=_REMEDY)


def _at(server: str) -> str:
    return f" at {server}" if server else ""
