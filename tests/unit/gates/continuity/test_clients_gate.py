"""What kube-apiserver's metrics say of its clients, and when they are worse off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import inf

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.continuity.living_cluster import CONTROLLERS, SERVERS, LivingKube, metrics, refusal
from upgrader.engine.execution.gatekeeper import hold_all
from upgrader.errors import GateFailed
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.bake_gate import baked_together
from upgrader.gates.continuity.clients_gate import ClientsGate
from upgrader.gates.continuity.continuity import Continuity
from upgrader.gates.continuity.server_metrics import Counters, parse, percentile99, since, summarize
from upgrader.gates.continuity.worse_clients import fewer_seats
from upgrader.model.baseline import Baseline, Latency99, ServerBaseline
from upgrader.model.event import Event
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.json_values import from_json
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.own_steps import BAKE
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.steps.verify import VerifyStep

BEFORE = metrics(requests=10_000, c403=10)


class Nobody:
    """Is told nothing."""

    def emit(self, event: Event) -> None:
        pass


def watch(*scrapes: str, before: str = BEFORE) -> list[Verdict]:
    """The gate's verdicts, with a scrape in each check."""
    kube, clock = FakeKube(), FakeClock()
    baseline = Baseline("v1.36.3", clients=summarize({"": parse(before)}, {}))
    gate = ClientsGate(kube, clock, lambda: baseline, CONTROLLERS)
    seen = []
    for scrape in scrapes:
        kube.raw_answers["/metrics"] = scrape
        seen.append(gate.check())
        clock.sleep(4)
    return seen


def test_as_good_as_before_holds() -> None:
    """Two readings with as few refusals as before are enough."""
    first, second = watch(metrics(requests=50, c403=0), metrics(requests=300, c403=2))
    assert first.kind is VerdictKind.PENDING and second.kind is VerdictKind.HOLDS


@pytest.mark.parametrize(
    ("scrape", "words"),
    [
        (lambda n: metrics(requests=300 * n, c403=20 * n), "403 secrets"),
        (lambda n: metrics(requests=300 * n, unauthenticated=20 * n), "HTTP 401: 20"),
        (lambda n: metrics(requests=300 * n, rejected=20 * n), "rejected"),
    ],
)
def test_more_refusals_fail(scrape: Callable[[int], str], words: str) -> None:
    """Refusals that rise in three windows in a row are broken, with the resource and the code in the message."""
    scrapes = [scrape(n) for n in range(1, 5)]
    verdicts = watch(*scrapes)
    kinds = [verdict.kind for verdict in verdicts]
    assert kinds == [VerdictKind.PENDING] * 3 + [VerdictKind.BROKEN]
    assert words in verdicts[-1].reason and "0" in verdicts[-1].reason


def test_noise_after_a_start_is_waited_out() -> None:
    """A burst of refusals ages with its window."""
    kinds = [verdict.kind for verdict in watch(metrics(requests=10, c403=0), metrics(requests=300, c403=40))]
    later = watch(*(metrics(requests=300 * n, c403=40) for n in (1, 2)))
    assert kinds[-1] is VerdictKind.PENDING
    assert later[-1].kind is VerdictKind.HOLDS


def test_few_or_usual_refusals_are_no_news() -> None:
    """Four refusals prove nothing, and a cluster that always had many is not worse off with as many."""
    assert watch(metrics(requests=10, c403=0), metrics(requests=30, c403=4))[-1].kind is VerdictKind.HOLDS
    often = metrics(requests=1000, c403=300)
    assert (
        watch(metrics(requests=10, c403=0), metrics(requests=300, c403=90), before=often)[-1].kind is VerdictKind.HOLDS
    )


def test_what_guard_denies_is_no_refusal_of_the_api() -> None:
    """An autoscaler that is refused while a run holds its group was never refused before; any other webhook's denials,
    and what else is forbidden beside guard's, count as ever.
    """
    held = [metrics(requests=300 * n, denied=20 * n) for n in range(1, 5)]
    assert [verdict.kind for verdict in watch(*held)] == [VerdictKind.PENDING] + [VerdictKind.HOLDS] * 3
    others = [metrics(requests=300 * n, denied=20 * n, by="policy.example.com") for n in range(1, 5)]
    assert "403 statefulsets: 20" in watch(*others)[-1].reason
    both = [metrics(requests=300 * n, denied=20 * n, c403=60 * n) for n in range(1, 5)]
    assert watch(*both)[-1].kind is VerdictKind.BROKEN and "403 secrets: 40" in watch(*both)[-1].reason


def test_slow_server_is_waited_for() -> None:
    """A server that takes several times as long is pending, never broken: it may still be starting."""
    scrapes = [metrics(requests=100 * n, slow=10 * n) for n in range(1, 8)]
    assert {verdict.kind for verdict in watch(*scrapes)} == {VerdictKind.PENDING}
    assert "99 % of LIST requests take up to 8 s, 0.1 s before" in watch(*scrapes)[-1].reason


def test_requests_that_wait_for_a_seat() -> None:
    """As a start's many lists do at first, so that it is pending; where clients go on waiting, the deadline ends it."""
    verdicts = watch(*(metrics(requests=300 * n, queued=24) for n in range(1, 11)))
    assert {verdict.kind for verdict in verdicts} == {VerdictKind.PENDING}
    assert "24 requests wait for a seat (API Priority and Fairness), 0 before" in verdicts[-1].reason
    assert "max-requests-inflight" in verdicts[-1].remedy


@pytest.mark.parametrize(
    ("now", "before"),
    [([24, 0, 24, 0, 24, 0, 24, 0, 24, 0], 0), ([9] * 10, 0), ([24] * 10, 10)],
    ids=["now and then", "a few", "as before"],
)
def test_requests_that_usually_wait(now: list[int], before: int) -> None:
    """A queue that is empty at every other reading, is short, or was there before the run is no news."""
    scrapes = [metrics(requests=300 * n, queued=queued) for n, queued in enumerate(now, 1)]
    verdicts = watch(*scrapes, before=metrics(requests=10_000, queued=before))
    assert {verdict.kind for verdict in verdicts[1:]} == {VerdictKind.HOLDS}


def test_requests_that_wait_in_a_level_of_the_operators() -> None:
    """It has few seats so that they wait, such as those of a night's jobs."""
    waiting = 'apiserver_flowcontrol_current_inqueue_requests{priority_level="jobs"} 80'
    verdicts = watch(*(f"{metrics(requests=300 * n)}\n{waiting}\n" for n in range(1, 4)))
    assert verdicts[-1].kind is VerdictKind.HOLDS


def test_requests_that_a_level_of_the_operators_rejects() -> None:
    """What doesn't fit into its queue, however long it goes on: it is there to reject them."""
    rejected = 'apiserver_flowcontrol_rejected_requests_total{priority_level="jobs",reason="queue-full"}'
    verdicts = watch(*(f"{metrics(requests=300 * n)}\n{rejected} {80 * n}\n" for n in range(1, 10)))
    assert {verdict.kind for verdict in verdicts[1:]} == {VerdictKind.HOLDS}


@pytest.mark.parametrize(
    ("scrape", "words"),
    [
        (lambda n: metrics(requests=300 * n, seats=9, queued=20), "20 requests wait for a seat"),
        (lambda n: metrics(requests=9000 * n, seats=9, rejected=30 * n), "rejected as too many: 30 of 9000"),
        (lambda n: metrics(requests=300 * n, seats=9, queued=10 + 30 * n), "100 requests wait for a seat"),
    ],
    ids=["a queue", "a few rejected", "a longer and longer queue"],
)
def test_clients_that_find_too_few_seats(scrape: Callable[[int], str], words: str) -> None:
    """Where there are far fewer than before, what waits or is rejected for half a minute is certain, long before the
    deadline; the message has the numbers and the flags.
    """
    verdicts = watch(*(scrape(n) for n in range(1, 11)), before=metrics(requests=10_000, seats=608))
    assert [verdict.kind for verdict in verdicts] == [VerdictKind.PENDING] * 8 + [VerdictKind.BROKEN] * 2
    reason = verdicts[-1].reason
    assert "9 seats for requests, 608 before this run" in reason and "max-requests-inflight" in reason
    assert any(words in verdict.reason for verdict in verdicts)


@pytest.mark.parametrize(
    ("queues", "before"),
    [
        ([500, 400, 310, 240, 190, 150, 120, 90, 70, 50, 30, 20, 10, 0, 0], 0),
        ([24] * 4 + [0] + [24] * 4 + [0] * 6, 0),
        ([40] * 15, 20),
    ],
    ids=["clients that connect again", "now and then", "as before"],
)
def test_fewer_seats_that_are_enough(queues: list[int], before: int) -> None:
    """A limit that is lowered on purpose fails no run because all clients list again behind the restart, or because its
    clients have always waited.
    """
    scrapes = [metrics(requests=300 * n, seats=300, queued=queued) for n, queued in enumerate(queues, 1)]
    verdicts = watch(*scrapes, before=metrics(requests=10_000, queued=before))
    assert VerdictKind.BROKEN not in {verdict.kind for verdict in verdicts}
    assert verdicts[-1].kind is VerdictKind.HOLDS


def test_fewer_seats_are_watched_for_longer() -> None:
    """Behind a restart nobody waits yet: clients are still connecting, and what waits is rejected only after 15 s."""
    verdicts = watch(*(metrics(requests=300 * n, seats=9) for n in range(1, 7)))
    assert [verdict.kind for verdict in verdicts] == [VerdictKind.PENDING] * 4 + [VerdictKind.HOLDS] * 2
    assert "9 seats for requests, 608 before this run" in verdicts[3].reason
    late = watch(*(metrics(requests=300 * n, seats=9, queued=20 * (n > 2)) for n in range(1, 12)))
    assert late[-1].kind is VerdictKind.BROKEN and VerdictKind.HOLDS not in {verdict.kind for verdict in late}


@pytest.mark.parametrize(
    ("queue", "seconds"),
    [(lambda n: 20, 30.0), (lambda n: max(15, 300 - 60 * n), 120.0)],
    ids=["stays", "becomes shorter"],
)
def test_too_few_seats_fail_the_gate_after_half_a_minute(queue: Callable[[int], int], seconds: float) -> None:
    """Neither rounds that are rare, as gates ask much, nor further checks add to it. A queue that becomes shorter is
    waited for until the deadline, as rarely as anything else.
    """
    kube, clock, times = FakeKube(), FakeClock(), list[float]()
    baseline = Baseline("v1.36.3", clients=summarize({"": parse(metrics(requests=10_000, seats=608))}, {}))
    gate = ClientsGate(kube, clock, lambda: baseline, CONTROLLERS)

    class Scraped:
        name = gate.name

        def check(self) -> Verdict:
            times.append(clock.monotonic())
            kube.raw_answers["/metrics"] = metrics(requests=300 * len(times), seats=9, queued=queue(len(times)))
            return gate.check()

    absence, run = ApiAbsence(kube, clock, inf), GateRun(Scraped(), GatePolicy(consecutive=1))
    with pytest.raises(GateFailed, match="requests wait for a seat"):
        hold_all("a", (run,), clock=clock, reporter=Nobody(), absence=absence, asked=lambda: 33 * len(times))
    assert times[-1] - times[0] == pytest.approx(seconds, abs=2.0)
    assert len(times) <= 3 + seconds / 7, "about eleven seconds apart"


def held_at_limit(cpu_limit: str, *, used: float, slow: int, unknown_clients: int = 0) -> tuple[float, str]:
    """How long an instance is waited for that uses so many CPUs, and of whose 300 requests so many are slow in each
    window, and `unknown_clients` have invalid credentials; and the message in which that ends, "" if it holds.
    """
    kube, clock, times = LivingKube(), FakeClock(), list[float]()
    server = SERVERS[0]
    kube.instance("10.0.0.11", cpu_limit=cpu_limit)
    baseline = Baseline("v1.36.3", clients=summarize({server: parse(metrics(requests=10_000))}, {}))
    gate = ClientsGate(kube, clock, lambda: baseline, CONTROLLERS)

    class Scraped:
        name = gate.name

        def check(self) -> Verdict:
            times.append(clock.monotonic())
            kube.raw_answers[f"{server}/metrics"] = metrics(
                start="1.8e9",
                requests=300 * len(times),
                slow=slow * len(times),
                cpu=used * times[-1],
                unauthenticated=unknown_clients * len(times),
            )
            return gate.check()

    absence, run = ApiAbsence(kube, clock, inf), GateRun(Scraped(), GatePolicy(consecutive=1))
    try:
        hold_all("a", (run,), clock=clock, reporter=Nobody(), absence=absence)
    except GateFailed as error:
        return times[-1], f"{error.message}\n{error.remedy}"
    return times[-1], ""


def test_slow_instance_that_uses_all_of_its_cpu_limit_fails_the_gate_after_half_a_minute() -> None:
    """Behind a start that would be over; the message names the limit, and what to do about it."""
    seconds, said = held_at_limit("50m", used=0.049, slow=30)
    assert seconds == pytest.approx(30.0, abs=5.0)
    assert "99 % of LIST requests take up to 8 s, 0.1 s before this run; it uses all of its CPU limit, 50m" in said
    assert "Remove kube-apiserver's CPU limit" in said


@pytest.mark.parametrize("slow", [0, 30])
def test_cpu_limit_is_not_blamed_for_refused_logins(slow: int) -> None:
    """They fail the gate as soon as they do elsewhere, and what to do about them isn't more CPU."""
    seconds, said = held_at_limit("50m", used=0.049, slow=slow, unknown_clients=100)
    assert seconds == held_at_limit("", used=0.049, slow=slow, unknown_clients=100)[0]
    assert "For 401, check" in said and "Remove kube-apiserver's CPU limit" not in said


@pytest.mark.parametrize(("cpu_limit", "used"), [("50m", 0.03), ("", 2.0), ("0", 2.0)])
def test_slow_instance_that_could_use_more_cpu_is_waited_for(cpu_limit: str, used: float) -> None:
    """Something else makes it slow, such as a disk: until the deadline, as ever."""
    seconds, said = held_at_limit(cpu_limit, used=used, slow=30)
    assert seconds >= 119.0
    assert "8 s" in said and "CPU limit" not in said


def test_instance_that_uses_all_of_its_cpu_limit_and_is_not_slow() -> None:
    """Its clients don't notice."""
    seconds, said = held_at_limit("100m", used=0.1, slow=0)
    assert (said, seconds < 10) == ("", True)


def test_few_seats_of_which_little_was_seen() -> None:
    """Two readings with half a minute between them are no half a minute of rejections: those of a start, which are over
    by then, fail nothing, however rare the rounds are.
    """
    kube, clock, times = FakeKube(), FakeClock(), list[float]()
    baseline = Baseline("v1.36.3", clients=summarize({"": parse(metrics(requests=10_000, seats=608))}, {}))
    gate = ClientsGate(kube, clock, lambda: baseline, CONTROLLERS)

    class Scraped:
        name = gate.name

        def check(self) -> Verdict:
            times.append(clock.monotonic() - started)
            rejected, sent = int(3 * min(times[-1], 6.0)), int(300 * (1 + times[-1]))
            kube.raw_answers["/metrics"] = metrics(requests=sent, seats=400, rejected=rejected)
            return gate.check()

    started = clock.monotonic()
    absence, run = ApiAbsence(kube, clock, inf), GateRun(Scraped(), GatePolicy(consecutive=1))
    hold_all("a", (run,), clock=clock, reporter=Nobody(), absence=absence, asked=lambda: 400 * len(times))
    assert times[1] > 30, "its first window had half a minute"


def test_first_reading_is_made_before_other_gates_are_checked(
    continuity: Continuity, kube: LivingKube, clock: FakeClock
) -> None:
    """Where few seats are left, their requests take long: half a minute of too few seats counts from its beginning."""
    (item,) = continuity.around(Pipeline((PipelineStep(VerifyStep("kube-apiserver"), (), ()),))).steps
    for server in SERVERS:
        kube.raw_answers[f"{server}/metrics"] = metrics(seats=9, queued=20)
    (again,) = (run.again for run in item.gates if run.gate.name == "continuity/clients")
    assert again is not None
    gate = again()
    clock.sleep(18)
    kube.raw_answers[f"{SERVERS[0]}/metrics"] = metrics(requests=1300, seats=9, queued=20)
    gate.check()
    assert "20 requests wait for a seat" in gate.check().reason


def test_bake_is_planned_before_there_is_a_baseline(kube: LivingKube, clock: FakeClock) -> None:
    """Nothing can be read then: its gates read first when it begins."""
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    planned = continuity.around(Pipeline((PipelineStep(VerifyStep(BAKE), (), ()),)))
    (item,) = baked_together(planned, 600.0, clock).steps
    continuity.compare_with(continuity.take(lambda text: None, begun=False), clock.now())
    (again,) = (run.again for run in item.gates)
    assert again is not None and again().check().kind is VerdictKind.PENDING


def test_as_many_seats_as_before_and_a_queue() -> None:
    """A priority level that somebody adds takes seats from the others, and none from all of them: no flag has changed,
    and only the deadline ends the wait.
    """
    verdicts = watch(*(metrics(requests=300 * n, seats=612, queued=24) for n in range(1, 20)))
    assert {verdict.kind for verdict in verdicts} == {VerdictKind.PENDING}


def test_seats_of_a_level_that_was_deleted() -> None:
    """Until it ends, a kube-apiserver reports them, besides those of the levels that have got them back: the next one
    has as many as before.
    """
    before = f'{BEFORE}apiserver_flowcontrol_nominal_limit_seats{{priority_level="gone"}} 270\n'
    verdicts = watch(*(metrics(requests=300 * n, queued=24) for n in range(1, 20)), before=before)
    assert {verdict.kind for verdict in verdicts} == {VerdictKind.PENDING}
    assert not any("seats for requests" in verdict.reason for verdict in verdicts)
    tiny = watch(*(metrics(requests=300 * n, seats=9, queued=20) for n in range(1, 11)), before=before)
    assert tiny[-1].kind is VerdictKind.BROKEN and "9 seats for requests, 608 before this run" in tiny[-1].reason


def test_seats_in_a_run_that_an_earlier_build_began() -> None:
    """Its journal has one number for all levels, also for deleted ones: it is read, and not compared."""
    found = from_json(ServerBaseline, {"server": "", "start": "1.7e9", "queued": 0.0, "seats": 608.0}, "")
    assert fewer_seats([found], parse(metrics(seats=9))) == ""


def test_requests_that_are_rejected_without_priority_and_fairness() -> None:
    """With --enable-priority-and-fairness=false there are no seats, and what is beyond the limits is rejected at once.

    With it, a level of the operator's may do that, and is there for it.
    """
    rejected = watch(*(metrics(requests=300 * n, seats=0, terminated=20 * n) for n in range(1, 5)))
    assert rejected[-1].kind is VerdictKind.BROKEN and "rejected as too many: 20 of" in rejected[-1].reason
    jobs = watch(*(metrics(requests=300 * n, terminated=20 * n) for n in range(1, 5)))
    assert jobs[-1].kind is VerdictKind.HOLDS


def test_another_instance_begins_anew() -> None:
    """Counters of another process are not compared with the last one's."""
    verdicts = watch(metrics(requests=300, c403=0), metrics(start="1.8e9", requests=300, c403=90))
    assert verdicts[-1].kind is VerdictKind.PENDING and "second reading" in verdicts[-1].reason


def test_unreadable_metrics_are_unknown() -> None:
    """Metrics that aren't answered prove nothing."""
    kube = FakeKube()
    kube.raw_answers["/metrics"] = refusal(403)
    baseline = Baseline("v1.36.3", clients=summarize({"": parse(BEFORE)}, {}))
    assert ClientsGate(kube, FakeClock(), lambda: baseline, CONTROLLERS).check().kind is VerdictKind.UNKNOWN


@pytest.mark.parametrize(
    "cut", ["apiserver_request_total{code", "process_start_time_seconds 1.2e+", "<html>log in</html>"]
)
def test_metrics_that_are_cut_off_are_unknown(cut: str) -> None:
    """An instance that stops, or a proxy, may end in the middle of a line: that is no error of the run."""
    whole = metrics(requests=50, c403=0)
    verdicts = watch(whole, f"{whole}\n{cut}" if "html" not in cut else cut, metrics(requests=300, c403=2))
    assert [verdict.kind for verdict in verdicts][1] in (VerdictKind.UNKNOWN, VerdictKind.PENDING)


def test_large_metrics_are_read_seldom() -> None:
    """Checks a second apart read an instance once in a window."""
    kube, clock = FakeKube(), FakeClock()
    answers = iter([metrics(), metrics(requests=1100)])
    kube.raw_answers["/metrics"] = answers
    gate = ClientsGate(
        kube, clock, lambda: Baseline("v1.36.3", clients=summarize({"": parse(BEFORE)}, {})), CONTROLLERS
    )
    for _ in range(5):
        gate.check()
        clock.sleep(1)
    assert next(answers, None) is None


def test_percentiles() -> None:
    """Too few requests have none; what exceeds every limit counts as twice the last."""
    inf = float("inf")
    assert percentile99({0.1: 10, inf: 49}) is None
    assert percentile99({0.1: 99, 1.0: 100, inf: 100}) == 0.1
    assert percentile99({0.1: 10, 60.0: 10, inf: 100}) == 120.0
    assert summarize({"": Counters("1", 1.0, {}, {"GET": {inf: 1}})}, {})[0].latencies == ()
    assert since(Counters(), Counters()) is None


def test_what_began_lately_is_in_the_baseline(clock: FakeClock) -> None:
    """A client that is refused since yesterday is lost in an instance's two months, but not between two readings."""
    kube = LivingKube()
    for server in SERVERS:
        kube.raw_answers[f"{server}/metrics"] = Growing(clock, requests=130_000_000, c403=170_000)
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    baseline = continuity.take(lambda text: None, begun=False)
    for server in SERVERS:
        kube.raw_answers[f"{server}/metrics"] = Growing(clock, start="1.8e9")
    gate = ClientsGate(kube, clock, lambda: baseline, CONTROLLERS)
    assert held_within(gate, clock, 30).kind is VerdictKind.HOLDS


def test_refused_client_may_move() -> None:
    """A client that was refused at one instance is refused at another after a restart: nobody is worse off."""
    servers = tuple(f"https://10.0.0.{number}:6443" for number in range(5))
    quiet = parse(metrics(requests=10_000))
    before = dict.fromkeys(servers[1:], quiet) | {servers[0]: parse(metrics(requests=10_000, c403=870))}
    kube, clock = FakeKube(), FakeClock()
    baseline = Baseline("v1.36.3", clients=summarize(before, {}))
    gate = ClientsGate(kube, clock, lambda: baseline, CONTROLLERS)
    for server in servers:
        kube.raw_answers[f"{server}/metrics"] = Growing(clock, refused_per_second=2 * (server == servers[1]))
    assert held_within(gate, clock, 40).kind is VerdictKind.HOLDS


def test_slower_between_the_readings_counts() -> None:
    """Of the two percentiles that an instance had before, the slower one is the baseline."""
    first, second = parse(metrics(requests=100_000)), parse(metrics(requests=100_200, slow=100))
    (found,) = summarize({"": first}, {"": second})
    assert found.latencies == (Latency99("LIST", 8.0),)


def test_all_instances_together_may_be_worse() -> None:
    """Refusals that each instance might have taken over from another are too many at all of them."""
    servers = ("https://10.0.0.1:6443", "https://10.0.0.2:6443", "https://10.0.0.3:6443")
    kube, clock = FakeKube(), FakeClock()
    baseline = Baseline("v1.36.3", clients=summarize(dict.fromkeys(servers, parse(metrics(c403=20))), {}))
    gate = ClientsGate(kube, clock, lambda: baseline, CONTROLLERS)
    for server in servers:
        kube.raw_answers[f"{server}/metrics"] = Growing(clock, refused_per_second=3)
    found = held_within(gate, clock, 60)
    assert found.kind is VerdictKind.BROKEN and "403 secrets" in found.reason


def after_nodes(*, per_second: float, restarted: bool = False, changes_logins: bool = False) -> Verdict:
    """What is said of 401 that began during a step that changes only nodes."""
    kube, clock = FakeKube(), FakeClock()
    baseline = Baseline("v1.36.3", clients=summarize({"": parse(BEFORE)}, {}))
    gate = ClientsGate(kube, clock, lambda: baseline, CONTROLLERS, changes_logins=changes_logins)
    start = "1.8e9" if restarted else "1.7e9"
    for second in range(30):
        kube.raw_answers["/metrics"] = metrics(
            start=start, requests=10_000 + 30 * second, c403=10, unauthenticated=int(per_second * second)
        )
        verdict = gate.check()
        if verdict.kind in (VerdictKind.HOLDS, VerdictKind.BROKEN):
            return verdict
        clock.sleep(1)
    return verdict


def test_one_clients_expired_token_rolls_no_nodes_back() -> None:
    """Where no process of kube-apiserver is another, a client that isn't known any more is told, and fails nothing."""
    found = after_nodes(per_second=1.25)
    assert found.kind is VerdictKind.HOLDS
    assert "HTTP 401: 5 of 120 requests, 0.0% before this run" in found.reason


def test_refused_logins_that_a_step_may_have_caused_fail_it() -> None:
    """Of a step that changes logins, of another process, of more clients than one, and of other kinds, as ever."""
    assert after_nodes(per_second=1.25, changes_logins=True).kind is VerdictKind.BROKEN
    assert after_nodes(per_second=1.25, restarted=True).kind is VerdictKind.BROKEN
    assert after_nodes(per_second=6).kind is VerdictKind.BROKEN


def test_other_refusals_beside_an_expired_token_fail_a_step_of_nodes() -> None:
    """What else kubelets or the API may have done is judged as ever."""
    kube, clock = FakeKube(), FakeClock()
    baseline = Baseline("v1.36.3", clients=summarize({"": parse(BEFORE)}, {}))
    gate = ClientsGate(kube, clock, lambda: baseline, CONTROLLERS, changes_logins=False)
    kube.raw_answers["/metrics"] = Growing(clock, refused_per_second=5, unauthenticated_per_second=1)
    found = held_within(gate, clock, 40)
    assert found.kind is VerdictKind.BROKEN and "HTTP 403 secrets" in found.reason


def test_a_process_that_the_last_step_brought_is_known_to_the_next(clock: FakeClock) -> None:
    """Steps of nodes come last: the instances are those that kube-apiserver's own step has left."""
    kube = LivingKube()
    continuity = Continuity(kube, clock, CONTROLLERS, (), policy=GatePolicy())
    continuity.compare_with(continuity.take(lambda text: None, begun=False), clock.now())
    releases = PipelineStep(VerifyStep("kube-apiserver"), (), ())
    steps = continuity.around(Pipeline((releases, replace(releases, changes_logins=False)))).steps
    ends = []
    for step, refused in zip(steps, (0, 1), strict=True):
        for server in SERVERS:
            kube.raw_answers[f"{server}/metrics"] = Growing(
                clock, start="1.8e9", refused_per_second=0, unauthenticated_per_second=refused
            )
        again = step.gates[-1].again
        assert again is not None
        gate = again()
        assert isinstance(gate, ClientsGate)
        ends.append(held_within(gate, clock, 40))
    assert [end.kind for end in ends] == [VerdictKind.HOLDS] * 2
    assert "HTTP 401" in ends[1].reason


class Growing(Iterator[str]):
    """Metrics of an instance that answers 23 requests a second."""

    def __init__(
        self,
        clock: FakeClock,
        *,
        start: str = "1.7e9",
        requests: int = 1000,
        c403: int = 0,
        refused_per_second: float = 2,
        unauthenticated_per_second: float = 0,
    ) -> None:
        self._clock, self._start, self._requests, self._c403 = clock, start, requests, c403
        self._refused, self._unauthenticated = refused_per_second, unauthenticated_per_second

    def __next__(self) -> str:
        now = int(self._clock.monotonic())
        return metrics(
            start=self._start,
            requests=self._requests + 23 * now,
            c403=self._c403 + int(self._refused * now),
            unauthenticated=int(self._unauthenticated * now),
        )


def held_within(gate: ClientsGate, clock: FakeClock, seconds: int) -> Verdict:
    """The verdict once it is definite, with a check each second."""
    for _ in range(seconds):
        verdict = gate.check()
        if verdict.kind in (VerdictKind.HOLDS, VerdictKind.BROKEN):
            return verdict
        clock.sleep(1)
    return verdict
