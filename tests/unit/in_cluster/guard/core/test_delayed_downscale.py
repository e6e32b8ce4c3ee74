"""Delayed downscales: TestRolloutController_ReconcileStatefulsetWithDownscaleDelay, and answers of the table."""

from __future__ import annotations

import json

import pytest

from tests.unit.in_cluster.guard.core.builders import zone
from upgrader.contract.times import days_of
from upgrader.in_cluster.guard.core.delayed_downscale import (
    DELAY,
    URL,
    Delay,
    Reply,
    calls,
    delay_of,
    endpoint,
    reached,
)
from upgrader.in_cluster.guard.core.scaling import NotScaled
from upgrader.in_cluster.guard.core.workloads import StatefulSet

NOW, MINUTE = 1_700_000_000, 60
DOMAIN = "cluster.local."


def _set(replicas: int = 5, first: int = 0, delay: str = "1h", url: str = "http://x/prepare?a=b") -> StatefulSet:
    marks = {DELAY: delay, URL: url}
    return zone("web-zone-b", replicas, service_name="web", first_ordinal=first, annotations=marks)


def _delay(which: StatefulSet) -> Delay:
    delay = delay_of(which)
    assert delay is not None
    return delay


def _prepared(minutes: float) -> Reply:
    return Reply(200, json.dumps({"timestamp": int(NOW - minutes * MINUTE)}).encode())


def _reached(wanted: int, *replies: Reply) -> int:
    """`replies`: of the last pods, in the order of their names."""
    which = _set()
    return reached(which, wanted, _delay(which), dict(zip(range(wanted, 5), replies, strict=False)), NOW)


def test_the_set_shrinks_once_all_pods_were_prepared_for_long_enough() -> None:
    """Each says 70 minutes, of 60."""
    assert _reached(3, _prepared(70), _prepared(70)) == 3
    assert _reached(3, _prepared(60), _prepared(60)) == 3


@pytest.mark.parametrize("minutes", [(30, 0), (70, 0), (0, 59)])
def test_the_set_does_not_shrink_before_its_last_pod_may_go(minutes: tuple[float, float]) -> None:
    """Not all, or not the one at the end, for which the other can't go alone."""
    with pytest.raises(NotScaled, match="has not been prepared for 3600 s"):
        _reached(3, *map(_prepared, minutes))


def test_the_set_shrinks_by_the_last_pods_over_the_delay() -> None:
    """Two of four: 2 holds up 1, although 1 is over it."""
    assert _reached(1, _prepared(75), _prepared(30), _prepared(75), _prepared(70)) == 3


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(500, b'{"timestamp": 1}'), "HTTP 500"),
        (Reply(409, b'{"timestamp": 1}'), "HTTP 409"),
        (Reply(302, b'{"timestamp": 1}'), "HTTP 302"),
        (Reply(0, b'{"timestamp": 1}', "network is down"), "network is down"),
        (Reply(200, b"this should be JSON"), "isn't JSON"),
        (Reply(200, b"[" * 100_000), "isn't JSON"),
        (Reply(200, b"\xff"), "isn't JSON"),
        (Reply(200, b"[]"), "no timestamp"),
        (Reply(200, b"{}"), "no timestamp"),
        (Reply(200, b'{"timestamp": 0}'), "no timestamp"),
        (Reply(200, b'{"timestamp": "1"}'), "no timestamp"),
        (Reply(200, b'{"timestamp": true}'), "no timestamp"),
        (Reply(200, b'{"timestamp": 1e99}'), "no timestamp"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_pod_that_cannot_be_prepared_holds_up_all(reply: Reply, why: str) -> None:
    """Not at all, although the others are over the delay, and the last one too."""
    with pytest.raises(NotScaled, match=why):
        _reached(3, reply, _prepared(70))


def test_a_pod_that_was_not_asked_holds_up_all() -> None:
    """Nobody knows since when."""
    with pytest.raises(NotScaled, match="web-zone-b-4 can't be prepared: it wasn't called"):
        _reached(3, _prepared(70))


def test_the_pods_that_go_are_asked_and_the_others_told_that_they_stay() -> None:
    """Also when nothing changes, or when it grows: then all stay."""
    which = _set()
    asked = calls(which, 3, _delay(which), DOMAIN)
    assert [e.pod for e in asked.post] == ["web-zone-b-3", "web-zone-b-4"]
    assert [e.pod for e in asked.delete] == ["web-zone-b-0", "web-zone-b-1", "web-zone-b-2"]
    for wanted in (5, 9):
        assert len(calls(which, wanted, _delay(which), DOMAIN).delete) == 5
        assert not calls(which, wanted, _delay(which), DOMAIN).post
        assert reached(which, wanted, _delay(which), {}, NOW) == 5


def test_ordinals_may_begin_anywhere() -> None:
    """As `spec.ordinals.start` says."""
    which = _set(2, first=7)
    assert [e.pod for e in calls(which, 1, _delay(which), DOMAIN).post] == ["web-zone-b-8"]
    assert reached(which, 1, _delay(which), {8: _prepared(70)}, NOW) == 1


def test_a_pod_is_asked_by_its_name_in_the_clusters_dns() -> None:
    """The URL as it is, but for its host; of the headless Service that the set names."""
    which = _set(url="https://whatever:8443/a/b?c=d")
    made = endpoint(which, 4, _delay(which).url, DOMAIN)
    assert str(made) == "https://web-zone-b-4.web.ns.svc.cluster.local.:8443/a/b?c=d"
    assert (made.port, made.pod, made.ordinal) == (8443, "web-zone-b-4", 4)
    plain = endpoint(which, 0, _delay(_set(url="http://x")).url, DOMAIN)
    assert (plain.port, plain.path, plain.host) == (80, "/", "web-zone-b-0.web.ns.svc.cluster.local.")
    assert endpoint(which, 0, _delay(_set(url="https://x")).url, DOMAIN).port == 443


@pytest.mark.parametrize(("delay", "url"), [("", "http://x/"), ("1h", ""), ("0", "http://x/"), ("0s", "http://x/")])
def test_a_set_without_both_annotations_has_no_delay(delay: str, url: str) -> None:
    """Nor with a delay of nothing."""
    assert delay_of(_set(delay=delay, url=url)) is None


@pytest.mark.parametrize(
    ("delay", "url"),
    [
        ("soon", "http://x/"),
        ("-1h", "http://x/"),
        ("1.5h", "http://x/"),
        ("1h", "x/prepare"),
        ("1h", "file:///etc/passwd"),
        ("1h", "http://"),
        ("1h", "http://x:y/"),
        ("1h", "http://x:0/"),
        ("1h", "http://[x/"),
    ],
)
def test_a_delay_that_cannot_be_read_holds_up_the_downscale(delay: str, url: str) -> None:
    """With what stands there."""
    with pytest.raises(NotScaled):
        delay_of(_set(delay=delay, url=url))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1d12h", 129600),
        ("1w", 604800),
        ("1y", 31536000),
        ("90m", 5400),
        ("5ms", 0.005),
        ("12h1d", None),
        ("", None),
        (5, None),
    ],
)
def test_a_delay_is_read_as_prometheus_reads_it(text: object, seconds: float | None) -> None:
    """With days, which Go's durations don't have."""
    assert days_of(text) == (None if seconds is None else pytest.approx(seconds))
