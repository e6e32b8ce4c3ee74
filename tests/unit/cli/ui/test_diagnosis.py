"""A diagnosis as an operator sees it."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.cli.ui.conftest import text
from tests.unit.recover.controllers import controller, generation
from tests.unit.recover.host_facts_json import host_facts
from tests.unit.recover.test_diagnose import CASES, seen_in
from upgrader.cli.ui.diagnosis import draw_diagnosis
from upgrader.model.cluster import Host
from upgrader.onhost.sending.host_facts import Examined, Generation, HostFacts
from upgrader.recover.diagnosis.diagnose import Diagnosis, diagnose
from upgrader.recover.diagnosis.wrong_api import ApiSeen

WIDTH = 140


def keeping(*generations: Generation, active: int | None = None) -> HostFacts:
    """A healthy controller that keeps these generations of kube-apiserver."""
    kept = controller(generations=generations, active=active).facts
    assert kept is not None
    return replace(host_facts({}), workloads=kept.workloads)


def diagnosis(*facts: HostFacts, api: bool = False) -> Diagnosis:
    """What is made of controllers with these facts."""
    examined = [Examined(Host(f"controller-{n}", f"10.0.0.{n}"), found) for n, found in enumerate(facts, 1)]
    return diagnose(examined, ApiSeen(api, "connection refused"))


def test_a_bad_flag() -> None:
    """The state in a line, the cause with its remedy, and which standby pod would be restored."""
    drawn = text(draw_diagnosis(seen_in(CASES["bad-flag"])), width=WIDTH)
    assert drawn.splitlines()[:3] == [
        " ✘ The API does not answer: connection refused",
        "   controller-1  containerd runs · kubelet runs · etcd healthy · kube-apiserver does not serve",
        "",
    ]
    cause = drawn.splitlines()[3]
    assert cause.startswith(" ✘ error  controller-1: kube-apiserver exits with 1: Error: unknown flag: --nonsense")
    assert cause.endswith("apiserver.exits")
    assert (
        "controller-1: the last-known-good kube-apiserver is generation 4 of 2026-11-21T10:00:00Z (complete)" in drawn
    )


def test_lines_hang_on_a_terminal_of_80_columns() -> None:
    """What the API says and what would be restored go on below their first words, and not at the left."""
    seen = diagnose(
        [Examined(Host("controller-1", "10.0.0.1"), keeping(generation(4)))], ApiSeen(False, "it refuses " * 12)
    )
    lines = text(draw_diagnosis(seen), width=80).splitlines()
    assert [line for line in lines if line.strip() and not line.startswith(" ")] == []
    assert lines[1].startswith("   it refuses") or lines[1].startswith("   refuses")


def test_the_cause_stands_first() -> None:
    """Of two controllers the errors come first, and warnings after them."""
    damaged = keeping(generation(3), generation(4, damage="a was changed"))
    (down,) = (host_facts(raw) for raw in CASES["containerd-stopped"]["controllers"])
    lines = text(draw_diagnosis(diagnosis(damaged, down)), width=WIDTH).splitlines()
    first = [line for line in lines if line.startswith((" ✘ error", " ! warning"))]
    assert "containerd is stopped" in first[0]
    assert "is damaged" in first[1]


def test_healthy() -> None:
    """Nothing is listed where nothing is wrong."""
    drawn = text(draw_diagnosis(diagnosis(keeping(generation(4), active=4), api=True)), width=WIDTH)
    assert "standby pod of generation 4 in place" in drawn
    assert "✘" not in drawn


def test_a_controller_that_was_not_reached() -> None:
    """It is listed, with the reason."""
    seen = diagnose([Examined(Host("controller-1", "10.0.0.1"), None, "No route to host")], ApiSeen(False))
    drawn = text(draw_diagnosis(seen), width=WIDTH)
    assert "controller-1  not reached" in drawn
    assert "controller-1 can't be examined: No route to host" in drawn
