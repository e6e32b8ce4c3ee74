"""What a run needs and an unreachable webhook of guard's refuses: the webhook is off for the run, and on at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.helm import FakeHelm
from tests.unit.recover.webhook_bypass.test_switch import MUTATING, SELECTOR, VALIDATING, Cluster
from upgrader.errors import ApiError, HelmError, UpgraderError, WorkloadFailed
from upgrader.model.event import Event, Note, WebhookSwitched, WebhookSwitching
from upgrader.model.release import ReleaseSpec
from upgrader.model.webhook_ref import WebhookRef
from upgrader.ports import Kind
from upgrader.recover.webhook_bypass.bypassing_tools import BypassingHelm, BypassingKube
from upgrader.recover.webhook_bypass.configurations import NOTHING
from upgrader.recover.webhook_bypass.switch import switch_off
from upgrader.recover.webhook_bypass.unreachable import UnreachableWebhooks

ONE = WebhookRef("ValidatingWebhookConfiguration", "a", "one.example")
TWO = WebhookRef("ValidatingWebhookConfiguration", "a", "two.example")
REFUSAL = 'Internal error occurred: failed calling webhook "{}": failed to call webhook: Post "https://x": refused'


class Run:
    """A run on a cluster with two webhooks of guard's, and one of somebody else's; what it tells."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.configuration("a", "one", "two", one=SELECTOR)
        self._label("a")
        other = {"name": "policy.example", "clientConfig": {"url": "https://x"}}
        self.cluster.put(VALIDATING, {"metadata": {"name": "policies"}, "webhooks": [other]})
        self.webhooks = UnreachableWebhooks(self.cluster, self.cluster.clock)
        self.events: list[Event] = []

    def _label(self, name: str, kind: Kind = VALIDATING) -> None:
        change = {"metadata": {"labels": {"grafana.com/namespace": "ops"}}}
        self.cluster.patch(kind, name, change)

    def during(self, work: Callable[[], object], off: Iterable[WebhookRef] = ()) -> object:
        """What the work of a run returns, which is told to `events`."""
        with self.webhooks.during(self.events.append, off):
            return work()

    def written(self, write: Callable[[], str]) -> object:
        """What a write of a run returns."""
        return self.during(lambda: self.webhooks.needed(write))

    def refused_by(self, *names: str, seconds: float = 0, error: type[UpgraderError] = ApiError) -> Callable[[], str]:
        """A write that is refused as long as these select anything, and for some seconds more."""
        last = [0.0]

        def write() -> str:
            for name in names:
                for webhook in self.cluster.found("a")["webhooks"]:
                    if webhook["name"] == name and webhook.get("objectSelector") != NOTHING:
                        last[0] = self.cluster.clock.monotonic()
                        raise error(REFUSAL.format(name))
            if seconds and self.cluster.clock.monotonic() - last[0] < seconds:
                raise error(REFUSAL.format(names[0]))
            return "written"

        return write

    def told(self) -> list[str]:
        """The switches that were begun and done."""
        return [
            f"{type(event).__name__} {event.which.webhook} {'off' if event.off else 'on'}"
            for event in self.events
            if isinstance(event, WebhookSwitching | WebhookSwitched)
        ]


@pytest.mark.parametrize("error", [ApiError, HelmError, WorkloadFailed])
def test_it_is_off_for_the_run_and_on_at_its_end(error: type[UpgraderError]) -> None:
    """The write is tried again, an event comes before and after each switch, and all it selected is back at the end."""
    run = Run()
    run.cluster.silent = {"/one"}
    assert run.written(run.refused_by("one.example", error=error)) == "written"
    assert run.cluster.selectors("a") == [NOTHING, None]
    assert run.told() == ["WebhookSwitching one.example off", "WebhookSwitched one.example off"]
    (begun, done) = run.events
    assert isinstance(begun, WebhookSwitching) and "failed calling webhook" in begun.reason
    assert isinstance(done, WebhookSwitched) and done.succeeded
    run.cluster.silent = set()
    run.during(run.webhooks.switch_on, [ONE])
    assert run.cluster.selectors("a") == [SELECTOR, None]
    assert run.told()[2:] == ["WebhookSwitching one.example on", "WebhookSwitched one.example on"]


def test_one_that_answers_stays_on_whatever_a_workloads_log_says() -> None:
    """Who can write a line into a pod's log, or an Event, switches off nothing that protects others."""
    run = Run()
    told = WorkloadFailed(f"container app of pod web-1 crash-loops\nlog of app: {REFUSAL.format('one.example')}")
    with pytest.raises(WorkloadFailed):
        run.written(always(told))
    assert run.cluster.selectors("a") == [SELECTOR, None] and not run.events


@pytest.mark.parametrize(
    "denied", ['admission webhook "policy.example" denied the request', "policy 'p' denied request"]
)
@pytest.mark.parametrize("error", [ApiError, HelmError])
def test_what_another_webhook_says_is_not_the_api_servers_word(error: type[UpgraderError], denied: str) -> None:
    """Policies repeat labels and names of what they refuse: anybody could have guard's name there."""
    run = Run()
    with pytest.raises(error):
        run.written(always(error(f"{denied}: owner is {REFUSAL.format('one.example')}")))
    assert run.cluster.selectors("a") == [SELECTOR, None] and not run.events


def test_each_that_refuses_is_switched_off_and_the_last_one_is_on_first() -> None:
    """A write may meet several, one after the other."""
    run = Run()

    def work() -> None:
        run.webhooks.needed(run.refused_by("one.example", "two.example"))
        run.webhooks.switch_on()

    run.during(work)
    assert [told for told in run.told() if "Switched" in told] == [
        "WebhookSwitched one.example off",
        "WebhookSwitched two.example off",
        "WebhookSwitched two.example on",
        "WebhookSwitched one.example on",
    ]


@pytest.mark.parametrize(("seconds", "done"), [(20, True), (40, False)])
def test_api_servers_may_take_a_while_to_know(seconds: float, done: bool) -> None:
    """It is tried again for half a minute; then the refusal is what is said."""
    run = Run()

    def work() -> str:
        return run.webhooks.needed(run.refused_by("one.example", seconds=seconds))

    if done:
        assert run.during(work) == "written"
    else:
        with pytest.raises(ApiError, match="failed calling webhook"):
            run.during(work)
    assert run.told() == ["WebhookSwitching one.example off", "WebhookSwitched one.example off"]


def always(error: UpgraderError) -> Callable[[], str]:
    """A write that is always refused so."""

    def write() -> str:
        raise error

    return write


@pytest.mark.parametrize(
    "message",
    [
        REFUSAL.format("policy.example"),
        REFUSAL.format("unknown.example"),
        'admission webhook "one.example" denied the request: no',
        "one.example is forbidden",
    ],
    ids=["another's", "unknown", "denied", "forbidden"],
)
def test_nothing_else_is_switched(message: str) -> None:
    """Somebody else's webhook, or one of guard's that has answered no, refuses as before."""
    run = Run()
    with pytest.raises(ApiError) as raised:
        run.during(lambda: run.webhooks.needed(always(ApiError(message))))
    assert raised.value.message == message and not run.events
    assert run.cluster.selectors("a") == [SELECTOR, None] and run.cluster.selectors("policies") == [None]


def test_a_configuration_that_guard_does_not_inject_is_not_guards() -> None:
    """It has only one of the two labels."""
    run = Run()
    run.cluster.configuration("b", "three", kind=MUTATING)
    with pytest.raises(ApiError):
        run.during(lambda: run.webhooks.needed(always(ApiError(REFUSAL.format("three.example")))))
    assert run.cluster.selectors("b", MUTATING) == [None]


def test_outside_of_a_run_nothing_is_switched() -> None:
    """A check has to see what a run would meet."""
    run = Run()
    with pytest.raises(ApiError):
        run.webhooks.needed(run.refused_by("one.example"))
    assert run.cluster.selectors("a") == [SELECTOR, None]


def test_one_that_does_not_answer_stays_off_and_says_what_is_left_to_do() -> None:
    """It is waited for, and the one that was switched off before it isn't tried; the event has the command."""
    run = Run()
    run.cluster.silent = {"/two"}

    def work() -> None:
        run.webhooks.needed(run.refused_by("one.example", "two.example"))
        run.webhooks.switch_on()

    run.during(work)
    last = run.events[-1]
    assert isinstance(last, WebhookSwitched) and not last.succeeded and last.which == TWO
    assert "failed calling webhook" in last.reason and last.remedy == "Once it answers, run `upgrader guard on`."
    assert run.cluster.selectors("a") == [NOTHING, NOTHING]
    assert 60 <= run.cluster.clock.monotonic() < 120


def test_what_a_killed_process_left_off_is_switched_on_by_another_one() -> None:
    """Also where it was killed before it had switched anything off, or the configuration is gone since."""
    run = Run()
    run.written(run.refused_by("one.example"))
    again = UnreachableWebhooks(run.cluster, run.cluster.clock)
    gone = WebhookRef("MutatingWebhookConfiguration", "gone", "three.example")
    with again.during(run.events.append, [ONE, TWO, gone]):
        again.switch_on()
    assert run.cluster.selectors("a") == [SELECTOR, None]
    ended = [event for event in run.events if isinstance(event, WebhookSwitched) and not event.off]
    assert [event.which for event in ended if event.succeeded] == [gone, TWO, ONE]


def test_what_people_switched_off_stays_off() -> None:
    """It is no reason to give up, either: the API server may not know it yet."""
    run = Run()
    switch_off(run.cluster, run.cluster.clock, ["one.example"], lambda _: None)

    def work() -> None:
        assert run.webhooks.needed(run.refused_by("one.example")) == "written"
        run.webhooks.switch_on()

    run.during(work)
    assert run.cluster.selectors("a") == [NOTHING, None] and not run.events


def test_one_that_cannot_be_switched_off_refuses_as_before() -> None:
    """The event says why, and the write's own error is what is raised."""
    run = Run()

    def patch(*_: Any, **__: Any) -> Any:
        raise ApiError("forbidden: no right to patch")

    run.cluster.patch = patch  # type: ignore[method-assign]
    with pytest.raises(ApiError, match="failed calling webhook"):
        run.during(lambda: run.webhooks.needed(run.refused_by("one.example")))
    last = run.events[-1]
    assert isinstance(last, WebhookSwitched) and not last.succeeded and "no right" in last.reason


@pytest.mark.parametrize("why", ["forgotten", "away"])
def test_what_cannot_be_given_back_is_said(why: str) -> None:
    """Nothing remembers what it selected, or the API doesn't answer."""
    run = Run()
    run.written(run.refused_by("one.example"))
    if why == "forgotten":
        run.cluster.patch(VALIDATING, "a", {"metadata": {"annotations": None}})
    run.cluster.unavailable = why == "away"
    run.during(run.webhooks.switch_on, [ONE])
    last = run.events[-1]
    assert isinstance(last, WebhookSwitched) and not last.succeeded
    assert ("is not recorded" if why == "forgotten" else "did not answer") in last.reason


def test_a_run_that_is_left_to_another_process_says_what_is_off() -> None:
    """With the command for whoever doesn't resume it."""
    run = Run()
    run.during(run.webhooks.remind, [ONE])
    (note,) = run.events
    assert isinstance(note, Note) and "upgrader guard on" in note.text and "one.example" in note.text


PODS = Kind("v1", "pods")
POD = {"metadata": {"name": "p", "namespace": "shop"}}


@pytest.mark.parametrize(
    "write",
    [
        lambda kube: kube.create(PODS, POD, "shop"),
        lambda kube: kube.create(PODS, POD, "shop", dry_run=True),
        lambda kube: kube.apply(PODS, POD, "shop"),
        lambda kube: kube.replace(PODS, POD, "shop"),
        lambda kube: kube.patch(PODS, "p", {}, "shop"),
        lambda kube: kube.delete(PODS, "p", "shop"),
        lambda kube: kube.evict("p", "shop", uid="u"),
    ],
)
def test_every_write_is_tried_again(write: Callable[[Any], object]) -> None:
    """And reads go through as they are."""
    run = Run()
    refusing = Refusing(run.refused_by("one.example"))
    run.during(lambda: write(BypassingKube(refusing, run.webhooks)))
    assert run.cluster.selectors("a") == [NOTHING, None]
    with pytest.raises(ApiError):
        run.during(lambda: BypassingKube(Refusing(always(ApiError("no"))), run.webhooks).get(PODS, "p", "shop"))


@pytest.mark.parametrize(("seconds", "off"), [(20, False), (40, True)])
def test_one_that_is_away_for_a_moment_stays_on(seconds: float, off: bool) -> None:
    """A drain may be what moves its only pod: from then on, no other eviction would ask it."""
    run, calls = Run(), list[float]()

    def write() -> str:
        calls.append(run.cluster.clock.monotonic())
        if calls[-1] - calls[0] < seconds and run.cluster.selectors("a") != [NOTHING, None]:
            raise ApiError(REFUSAL.format("one.example"))
        return "evicted"

    kube = BypassingKube(Refusing(write), run.webhooks)
    run.during(lambda: kube.evict("p", "shop", uid="u"))
    assert (run.cluster.selectors("a") == [NOTHING, None]) is off and bool(run.events) is off
    assert calls[-1] - calls[0] <= 36


class Refusing:
    """An API of which every call does this."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self._call()


def test_reads_are_the_same_as_without_it() -> None:
    """Each of them, of the API and of Helm."""
    run = Run()
    kube, cluster = BypassingKube(run.cluster, run.webhooks), run.cluster
    cluster.raw_answers["/readyz"] = "ok"
    assert kube.get(VALIDATING, "a") == cluster.get(VALIDATING, "a")
    assert kube.list(VALIDATING) == cluster.list(VALIDATING) == tuple(kube.each(VALIDATING))
    assert kube.count(VALIDATING) == 2 and kube.raw("/readyz") == "ok" and kube.logs("shop", "p", "c") == ""
    assert [event["type"] for event in kube.watch(VALIDATING, "", "a", timeout_seconds=1)] == ["ADDED"]
    assert abs((kube.server_time() - cluster.server_time()).total_seconds()) <= 1
    kube.reconnect()
    fake = FakeHelm()
    helm = BypassingHelm(fake, run.webhooks)
    assert helm.version() == fake.version() and helm.history("web", "shop") == () and helm.at_work("web", "shop") == 0


def test_a_release_that_was_refused_is_upgraded_again() -> None:
    """So is its rollback, and its removal."""
    run, refused = Run(), list[str]()

    class Refusing(FakeHelm):
        def upgrade(self, *args: Any, **named: Any) -> Any:
            self._once("upgrade")
            return super().upgrade(*args, **named)

        def rollback(self, *args: Any, **named: Any) -> Any:
            self._once("rollback")
            return super().rollback(*args, **named)

        def uninstall(self, *args: Any, **named: Any) -> None:
            self._once("uninstall")
            super().uninstall(*args, **named)

        def _once(self, what: str) -> None:
            if what not in refused:
                refused.append(what)
                raise HelmError(f"Helm failed on release 'web': {REFUSAL.format('one.example')}")

    helm, spec = BypassingHelm(Refusing(), run.webhooks), ReleaseSpec("web", "shop", Path("/charts/web"))

    def work() -> None:
        assert helm.upgrade(spec, timeout_seconds=9, watch=lambda: None).number == 1
        helm.upgrade(spec, timeout_seconds=9, watch=lambda: None)
        helm.rollback("web", "shop", 1, timeout_seconds=9)
        helm.uninstall("web", "shop", timeout_seconds=9)

    run.during(work)
    assert refused == ["upgrade", "rollback", "uninstall"] and helm.history("web", "shop") == ()
