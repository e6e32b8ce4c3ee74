"""Reservations: nothing is allowed twice, whoever answers and in whatever order it is written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.in_cluster.guard.core.builders import member
from upgrader.in_cluster.guard.core.admission import allow, deny
from upgrader.in_cluster.guard.core.ledger import Judgement, Ledger, Request, Reservation, admit, refusal, settled

QUOTA = 2


def _judge(request: Request, ledger: Ledger) -> Judgement:
    """A budget that lets two pods go."""
    if len(ledger.reservations) < QUOTA:
        return Judgement(allow(), "allowed", reserves=True)
    return Judgement(deny(429, "no more"), "denied")


def _ask(name: str, pod: str, **changes: bool) -> Request:
    return Request(name, member(pod), **changes)


def _allowed(judgements: tuple[Judgement, ...]) -> list[bool]:
    return [j.answer.allowed for j in judgements]


def test_requests_of_one_write_see_each_other() -> None:
    """Three at once for two places: two, in their order, and what is to be written."""
    judgements, ledger = admit(Ledger(), [_ask("1", "web-0"), _ask("2", "web-1"), _ask("3", "web-2")], 5.0, _judge)
    assert _allowed(judgements) == [True, True, False]
    assert list(ledger.reservations) == ["web-0", "web-1"]
    assert ledger.reservations["web-0"] == Reservation("web-0", "web-0", 5.0, frozenset({"1"}))
    assert refusal(judgements) is judgements[2]
    assert refusal(judgements[:2]) is None


def test_a_dry_run_is_answered_alike_and_reserves_nothing() -> None:
    """It sees the places that are taken, and takes none."""
    before = Ledger()
    judgements, after = admit(before, [_ask(str(n), f"web-{n}", dry_run=True) for n in range(3)], 5.0, _judge)
    assert _allowed(judgements) == [True] * 3 and after is before
    _, full = admit(before, [_ask("1", "web-0"), _ask("2", "web-1")], 5.0, _judge)
    assert _allowed(admit(full, [_ask("3", "web-2", dry_run=True)], 6.0, _judge)[0]) == [False]


def test_what_needs_no_place_takes_none() -> None:
    """A pod that isn't ready goes without being reserved, so that there is nothing to write."""
    before = Ledger()
    _, after = admit(before, [_ask("1", "web-0")], 5.0, lambda request, ledger: Judgement(allow(), "unready"))
    assert after is before


def test_a_pod_that_is_asked_about_again_takes_one_place() -> None:
    """A drain that tries again isn't refused by its own reservation, nor counted twice."""
    _, once = admit(Ledger(), [_ask("1", "web-0"), _ask("2", "web-1")], 5.0, _judge)
    judgements, twice = admit(once, [_ask("3", "web-0")], 9.0, _judge)
    assert _allowed(judgements) == [True] and len(twice.reservations) == 2
    assert twice.reservations["web-0"] == Reservation("web-0", "web-0", 5.0, frozenset({"1", "3"}))
    assert admit(twice, [_ask("3", "web-0")], 9.0, _judge)[1] is twice


def test_what_another_budget_refuses_is_given_back() -> None:
    """Of several budgets all must agree; the place is free again for another pod."""
    _, ledger = admit(Ledger(), [_ask("1", "web-0"), _ask("2", "web-1")], 5.0, _judge)
    freed = ledger.give_back({"1"})
    assert list(freed.reservations) == ["web-1"]
    assert _allowed(admit(freed, [_ask("3", "web-2")], 6.0, _judge)[0]) == [True]


def test_a_place_that_another_request_holds_too_is_not_given_back() -> None:
    """Two requests for one pod: one is refused elsewhere, the other may delete it still."""
    _, ledger = admit(Ledger(), [_ask("1", "web-0"), _ask("2", "web-0")], 5.0, _judge)
    assert list(ledger.give_back({"1"}).reservations) == ["web-0"]
    assert not ledger.give_back({"1", "2"}).reservations


def test_a_ledger_comes_back_from_the_status() -> None:
    """What is written is what the next process reads."""
    _, ledger = admit(Ledger(), [_ask("1", "web-0"), _ask("2", "web-0"), _ask("3", "web-1")], 5.25, _judge)
    assert ledger.status()[0] == {
        "podUID": "web-0",
        "podName": "web-0",
        "startTime": "1970-01-01T00:00:05.250000Z",
        "requests": ["1", "2"],
    }
    assert Ledger.of(ledger.status()) == ledger


@pytest.mark.parametrize("status", [None, {}, "x", [], [3], [{}], [{"podUID": 3}], [{"podUID": ""}]])
def test_a_status_that_names_no_pod_reserves_none(status: object) -> None:
    """Whatever somebody has written into it."""
    assert Ledger.of(status) == Ledger()


def test_a_reservation_whose_rest_is_lost_still_counts() -> None:
    """A pod's UID is enough; nobody's give-back frees it."""
    ledger = Ledger.of([{"podUID": "u", "requests": "x", "startTime": "now"}])
    assert ledger.reservations["u"].requests == {""}
    assert "u" in ledger.give_back({"x"})


def test_reservations_stay_for_a_minute_of_this_process_own_clock() -> None:
    """Whatever their own time says; and from anew where another request has reserved the pod, too."""
    old, asked_again = (Reservation(name, name, 0.0, frozenset({"1"})) for name in ("a", "b"))
    ledger = Ledger({r.uid: r for r in (old, replace(asked_again, requests=frozenset({"1", "2"})))})
    noticed = {old: 100.0, asked_again: 100.0}
    assert settled(ledger, {}, 1e9) == settled(ledger, noticed, 159.0) == ()
    assert settled(ledger, noticed, 160.0) == (old,)
    assert list(ledger.without_these([old, asked_again]).reservations) == ["b"]


def test_who_asks_for_hours_fills_no_status() -> None:
    """Of many requests some have no name any more, so that nobody's give-back frees the pod."""
    ledger = Ledger()
    for number in range(1000):
        _, ledger = admit(ledger, [_ask(str(number), "web-0")], 5.0, _judge)
        assert len(ledger.reservations["web-0"].requests) <= 17
    assert "web-0" in ledger.give_back({str(number) for number in range(1000)})


@dataclass
class _Process:
    """One that answers: it reads the budget, and writes it if nobody else has meanwhile."""

    wants: list[Request] = field(default_factory=list)
    read: tuple[int, Ledger] | None = None


@settings(max_examples=150)
@given(st.data())
def test_no_interleaving_of_processes_admits_more_than_the_quota(data: st.DataObject) -> None:
    """Two processes, requests in any order, writes that conflict, crashes: never a third pod.

    Each step is one process' read, or its write with the version that it read; a crash forgets all but the budget.
    """
    stored, version, gone = Ledger(), 0, set()
    processes = [_Process(), _Process()]
    for number in range(data.draw(st.integers(1, 25))):
        mine = data.draw(st.sampled_from(processes))
        match data.draw(st.sampled_from(["ask", "ask", "read", "read", "write", "write", "crash"])):
            case "ask":
                mine.wants.append(_ask(str(number), f"web-{data.draw(st.integers(0, 5))}"))
            case "read":
                mine.read = (version, stored)
            case "write" if mine.read is not None and mine.wants:
                asked, (seen, ledger) = mine.wants, mine.read
                judgements, after = admit(ledger, asked, float(number), _judge)
                mine.read = None
                if after is ledger or seen == version:
                    stored, version = (stored, version) if after is ledger else (after, version + 1)
                    gone |= {r.pod.uid for r, j in zip(asked, judgements, strict=True) if j.answer.allowed}
                    mine.wants = []
            case "crash":
                mine.wants, mine.read = [], None
        assert len(gone) <= QUOTA
        assert gone <= set(stored.reservations)
