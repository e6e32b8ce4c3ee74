"""The agent of a load balancer: nothing is claimed that isn't so, and nothing undone that isn't its own."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import pytest

from upgrader.contract.detach import ATTACHED, DETACHED, DETACHMENT, Detachment, attach, detach
from upgrader.contract.times import timestamp
from upgrader.in_cluster.guard.core.load_balancer import DETACHING, Agents, Server, Turn, concerned, turn

IN = Server("ingress/worker-1", drained=False, disabled=False, sessions=3, good=True)
OUT, EMPTY = replace(IN, drained=True), replace(IN, drained=True, sessions=0)
DISABLED = replace(IN, disabled=True, sessions=0)
ASKED, BEGUN = {DETACHMENT: "true"}, {DETACHMENT: "true", DETACHING: "true"}
ANSWERED = {**BEGUN, DETACHED: timestamp(5)}
LEFT = {DETACHING: "true", DETACHED: timestamp(5)}


def test_a_node_that_nobody_asks_for_is_left_alone() -> None:
    """However its servers are: an administrator may have drained one."""
    assert turn({}, [OUT, IN], 0, 30, 9) == Turn() and not concerned({ATTACHED: timestamp(1)})


def test_that_it_has_begun_is_written_first() -> None:
    """So that whoever comes after a kill knows whose the drained servers are; an old answer goes."""
    assert turn(ASKED, [IN], None, 30, 9).patch == {DETACHING: "true"}
    assert turn({**ASKED, ATTACHED: timestamp(1)}, [IN], None, 30, 9).patch == {DETACHING: "true", ATTACHED: None}
    assert not turn(ASKED, [IN], None, 30, 9).drain


def test_all_its_servers_are_drained() -> None:
    """Those that aren't out already, also where the answer was given and HAProxy has forgotten it."""
    for noted in (BEGUN, ANSWERED):
        step = turn(noted, [IN, OUT, DISABLED, IN], None, 30, 9)
        assert step.drain == (0, 3) and not step.patch


def test_the_last_one_that_serves_is_not_drained() -> None:
    """Nor any other of its servers meanwhile: the node is in, or it is out."""
    step = turn(BEGUN, [IN, replace(IN, last=True), OUT], None, 0, 9)
    assert not step.drain and not step.patch
    assert step.waits_for == "another server to be up besides ingress/worker-1"


@pytest.mark.parametrize(
    ("servers", "out_for", "done"),
    [
        ([OUT], None, False),
        ([OUT], 0.0, False),
        ([OUT, EMPTY], 29.9, False),
        ([OUT], 30.0, True),
        ([EMPTY], 0.0, True),
        ([EMPTY, DISABLED], None, True),
    ],
)
def test_it_is_out_when_sessions_are_over_or_the_grace_period_is(
    servers: list[Server], out_for: float | None, done: bool
) -> None:
    """Not before."""
    step = turn(BEGUN, servers, out_for, 30, 9)
    assert step.patch == ({DETACHED: timestamp(9)} if done else {})
    assert step.waits_for == ("" if done else "its sessions to end")


def test_an_answer_is_given_once() -> None:
    """Its time is that of the answer, and doesn't move."""
    assert turn(ANSWERED, [EMPTY], 100, 30, 9) == Turn()


def test_the_way_back() -> None:
    """Ready first, then a successful check of each, then the answer, with which all others go."""
    assert turn(LEFT, [OUT, IN], None, 30, 9).ready == (0,)
    bad = replace(IN, good=False, check="DOWN L4CON")
    step = turn(LEFT, [bad, IN], None, 30, 9)
    assert not step.patch and step.waits_for == "a successful check of ingress/worker-1: DOWN L4CON"
    assert "not checked yet" in turn(LEFT, [replace(bad, check="")], None, 30, 9).waits_for
    back = {ATTACHED: timestamp(9), DETACHED: None, DETACHING: None}
    assert turn(LEFT, [IN], None, 30, 9).patch == back
    assert turn({DETACHING: "true"}, [IN], None, 30, 9).patch == back, "asked for, and never answered"


def test_what_somebody_else_has_disabled_stays_so() -> None:
    """The others are back without it; where there is no other, the node isn't."""
    assert turn(LEFT, [DISABLED, IN], None, 30, 9).patch
    assert turn(LEFT, [replace(DISABLED, drained=True)], None, 30, 9) == Turn(
        waits_for="the maintenance of its servers to end"
    )


def test_a_node_without_a_server_here_is_never_answered_for() -> None:
    """It may be another load balancer's."""
    for noted in ({}, ASKED, BEGUN, ANSWERED, LEFT):
        assert turn(noted, [], None, 30, 9) == Turn(waits_for="a server with the node's name")


@pytest.mark.parametrize("sessions", [0, 4])
def test_both_sides_come_to_an_end(sessions: int) -> None:
    """Who asks, and who answers, as the contract has it: out, and back, from whatever was there before."""
    old = (None, timestamp(1), "yes")
    for before in product(old, repeat=2):
        annotations = {key: text for key, text in zip((DETACHED, ATTACHED), before, strict=True) if text}
        servers = [replace(IN, sessions=sessions), replace(IN, sessions=sessions)]

        def change(patch: dict[str, str | None], annotations: dict[str, str] = annotations) -> None:
            for key, text in patch.items():
                annotations.pop(key, None)
                if text is not None:
                    annotations[key] = text

        for way in (detach, attach):
            for now in range(100):
                out = way is detach
                asks = detach(annotations, Detachment(), 0, 0, 1e9) if out else attach(annotations, Detachment())
                change(dict(asks.patch))
                if asks.done:
                    break
                step = turn(annotations, servers, float(now), 30, float(now))
                for number in (*step.drain, *step.ready):
                    servers[number] = replace(servers[number], drained=bool(step.drain))
                change(dict(step.patch))
            assert asks.done, f"{way.__name__} from {before}: {annotations}"
            assert all(each.drained is out for each in servers)


LB_1, LB_2 = Agents("lb-1", ("lb-2",)), Agents("lb-2", ("lb-1",))
"""Two HAProxies on machines of their own, one of which has the address."""


class Pair:
    """A node with a server in each of two HAProxies, whose agents take turns."""

    def __init__(self, *, second: bool = True) -> None:
        self.annotations: dict[str, str] = {}
        self.servers = {"lb-1": [replace(IN, sessions=0)], "lb-2": [replace(IN, sessions=0)] if second else []}

    def change(self, patch: Mapping[str, str | None]) -> None:
        """Of the Node."""
        for key, text in patch.items():
            self.annotations.pop(key, None)
            if text is not None:
                self.annotations[key] = text

    def turn(self, agents: Agents, now: float = 9) -> Turn:
        """One of an agent, which sees the Node as it is."""
        servers = self.servers[agents.name]
        step = turn(self.annotations, servers, 100, 30, now, agents)
        for number in (*step.drain, *step.ready):
            servers[number] = replace(servers[number], drained=bool(step.drain))
        self.change(step.patch)
        return step

    def ask(self) -> None:
        """As who asks does it: the old answers go."""
        self.change({DETACHMENT: "true", DETACHED: None, ATTACHED: None})

    @property
    def drained(self) -> set[bool]:
        """Whether its servers are out."""
        return {each.drained for servers in self.servers.values() for each in servers}


def test_a_node_is_out_once_it_is_out_of_every_machines_haproxy() -> None:
    """Whoever has the address sends nothing there; while one agent is down, nothing is claimed."""
    pair = Pair()
    pair.ask()
    for _ in range(9):
        last = pair.turn(LB_1)
    assert last.waits_for == "the agent of lb-2" and DETACHED not in pair.annotations
    for _ in range(9):
        pair.turn(LB_2)
    assert DETACHED in pair.annotations and pair.drained == {True}


def test_each_agent_brings_its_own_server_back() -> None:
    """However late it is: the answer is the last one's, and no server stays drained for ever."""
    pair = Pair()
    pair.ask()
    for _ in range(9):
        pair.turn(LB_1)
        pair.turn(LB_2)
    pair.change({DETACHMENT: None})
    for _ in range(9):
        pair.turn(LB_1)
    assert pair.drained == {True, False} and ATTACHED not in pair.annotations
    for _ in range(9):
        pair.turn(LB_2)
    assert pair.drained == {False} and pair.annotations.keys() == {ATTACHED}


@pytest.mark.parametrize("seed", range(300))
def test_no_order_of_two_agents_claims_what_is_not_so(seed: int) -> None:
    """Questions that come and go at any moment: an answer is only there while all servers are out."""
    chance, pair, claimed = random.Random(seed), Pair(), 0
    for now in range(120):
        if chance.random() < 0.15:
            if DETACHMENT in pair.annotations:
                pair.change({DETACHMENT: None, ATTACHED: None})
            else:
                pair.ask()
        pair.turn(chance.choice((LB_1, LB_2)), float(now))
        if {DETACHMENT, DETACHED} <= pair.annotations.keys():
            claimed += 1
            assert pair.drained == {True}
        if ATTACHED in pair.annotations:
            assert pair.drained == {False}
    pair.change({DETACHMENT: None})
    for _ in range(20):
        pair.turn(LB_1)
        pair.turn(LB_2)
    assert pair.drained == {False} and not {DETACHED, LB_1.mark, LB_2.mark} & pair.annotations.keys()


def test_a_machine_without_a_server_of_the_node_agrees() -> None:
    """Where no machine has one, nobody answers."""
    pair = Pair(second=False)
    pair.ask()
    for _ in range(9):
        pair.turn(LB_2)
        pair.turn(LB_1)
    assert DETACHED in pair.annotations and pair.annotations[LB_2.mark] == "none"
    pair.servers["lb-1"] = []
    pair.ask()
    assert DETACHED not in pair.annotations
    pair.change({LB_1.mark: None, LB_2.mark: None})
    for _ in range(9):
        pair.turn(LB_1)
        last = pair.turn(LB_2)
    assert last.waits_for == "a server with the node's name" and DETACHED not in pair.annotations
