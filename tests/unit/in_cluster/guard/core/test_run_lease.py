"""Who holds groups still: a run whose Lease has changed lately, by the clock of whoever watches it."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.in_cluster.guard.core.admission import AdmissionRequest
from upgrader.in_cluster.guard.core.rollout import Hold
from upgrader.in_cluster.guard.core.run_lease import GROUPS, Seen, held_by, refuse_downscale, seen

RUN = "20261125T140000-v1.37.1"


def lease(renewed: str = "t1", *, holder: str = "anna@laptop", seconds: Any = 60, **notes: str) -> dict[str, Any]:
    """As a run writes it."""
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": seconds}
    return {"metadata": {"annotations": {"upgrader.io/run": RUN, **notes}}, "spec": spec}


def watched(*looks: tuple[float, dict[str, Any] | None]) -> Hold | None:
    """Who holds, after these looks at these times."""
    last: Seen | None = None
    for now, found in looks:
        last = seen(last, found, now)
    assert last is not None
    return held_by(last)


def every_five(until: float, renewed: str = "t1", since: float = 0) -> list[tuple[float, dict[str, Any] | None]]:
    """Looks that find the same Lease."""
    return [(float(now), lease(renewed)) for now in range(int(since), int(until) + 1, 5)]


@pytest.mark.parametrize("found", [None, {}, {"metadata": {}, "spec": None}, lease(holder="")])
def test_a_free_lease_holds_nothing(found: dict[str, Any] | None) -> None:
    """There is none, or its last holder has released it."""
    assert watched((0, found)) is None


def test_one_that_is_seen_first_is_alive_until_its_time_is_over() -> None:
    """Whatever its times say by its own clock; and it is dead once it was seen unchanged for as long as it is valid."""
    assert watched((0, lease(renewed="1970-01-01T00:00:00Z"))) == Hold(RUN)
    assert watched(*every_five(55)) == Hold(RUN)
    assert watched(*every_five(60)) is None


def test_one_that_renews_lives() -> None:
    """For as long as it does, and another process that takes it over is alive, too."""
    assert watched(*every_five(55), *every_five(110, "t2", since=60)) == Hold(RUN)
    assert watched(*every_five(60), (65, lease(holder="ben@ci"))) == Hold(RUN)


def test_time_in_which_nobody_could_look_does_not_count() -> None:
    """The API was away for two minutes, in which the run couldn't renew either; or this process was stopped."""
    assert watched((0, lease()), (120, lease())) == Hold(RUN)
    assert watched((0, lease()), *every_five(175, since=120)) == Hold(RUN)
    assert watched((0, lease()), *every_five(180, since=120)) is None


@pytest.mark.parametrize("seconds", [None, 0, -1, "60", True, 1.5])
def test_a_duration_that_is_none_is_sixty_seconds(seconds: Any) -> None:
    """As the runner writes it."""
    last = seen(None, lease(seconds=seconds), 0)
    assert last.seconds == 60


def test_the_groups_that_it_names_and_its_name() -> None:
    """Blanks don't matter; before a run has a name, its process has one."""
    assert watched((0, lease(**{GROUPS: "shop/db, shop/cache,"}))) == Hold(RUN, frozenset({"shop/db", "shop/cache"}))
    assert watched((0, lease(**{"upgrader.io/run": ""}))) == Hold("anna@laptop")


@pytest.mark.parametrize(
    ("groups", "subresource", "refused"),
    [((), "", True), ((), "scale", True), (("shop/db",), "", False), (("shop/db",), "scale", True)],
)
def test_what_shrinks_is_refused_but_by_the_runs_own_release(
    groups: tuple[str, ...], subresource: str, refused: bool
) -> None:
    """By the run's name. Helm writes the object of a group that the run names; an autoscaler its Scale."""
    request = AdmissionRequest(
        uid="u",
        operation="UPDATE",
        group="apps",
        version="v1",
        resource="statefulsets",
        subresource=subresource,
        kind="Scale" if subresource else "StatefulSet",
        namespace="shop",
        name="db-a",
        dry_run=False,
        object={"spec": {"replicas": 1}},
        old_object={"spec": {"replicas": 3}},
    )
    answer = refuse_downscale(request, "db", Hold(RUN, frozenset(groups)))
    assert (answer is not None) is refused
    if answer is not None:
        assert answer.code == 403
        assert answer.message == (
            "downscale of statefulsets/db-a in shop from 3 to 1 replicas is not allowed while the upgrade "
            f"{RUN} holds the group db"
        )
