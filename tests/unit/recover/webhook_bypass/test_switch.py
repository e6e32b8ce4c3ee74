"""guard's webhooks are switched off and on: what is remembered, in which order, and what has to answer first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError, Blocked, UsageError
from upgrader.ports import Kind, KubeObject
from upgrader.recover.webhook_bypass.configurations import KINDS, NOTE, NOTHING
from upgrader.recover.webhook_bypass.switch import switch_off, switch_on

VALIDATING = KINDS["ValidatingWebhookConfiguration"]
MUTATING = KINDS["MutatingWebhookConfiguration"]
SELECTOR = {"matchLabels": {"grafana.com/no-downscale": "true"}}


class Cluster(FakeKube):
    """An API server that calls the webhooks of dry runs, once it knows them."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.silent: set[str] = set()
        """Paths of backends that don't answer."""
        self.known_after = 2.0
        """Seconds until a new configuration is followed."""
        self.says: ApiError | None = None
        """What else admission says of the dry run."""
        self._made = 0.0

    def configuration(self, name: str, *hooks: str, kind: Kind = VALIDATING, **selectors: Any) -> None:
        """One of guard's."""
        labels = {"grafana.com/inject-rollout-operator-ca": "true"}
        webhooks = []
        for hook in hooks:
            service = {"namespace": "ops", "name": "guard", "path": f"/{hook}"}
            webhook = {"name": f"{hook}.example", "clientConfig": {"service": service}}
            if hook in selectors:
                webhook["objectSelector"] = selectors[hook]
            webhooks.append(webhook)
        self.put(kind, {"metadata": {"name": name, "labels": labels}, "webhooks": webhooks})

    def selectors(self, name: str, kind: Kind = VALIDATING) -> list[Any]:
        """The objectSelector of each webhook of a configuration."""
        return [webhook.get("objectSelector") for webhook in self.found(name, kind)["webhooks"]]

    def found(self, name: str, kind: Kind = VALIDATING) -> Any:
        """A configuration as it is now."""
        return self.get(kind, name)

    def off(self, *names: str) -> list[str]:
        """What was switched off."""
        return self._switched(switch_off, names)

    def on(self, *names: str) -> list[str]:
        """What was switched on, also where it ended with an error."""
        return self._switched(switch_on, names)

    def _switched(self, work: Any, names: Sequence[str]) -> list[str]:
        self.told: list[str] = []
        work(self, self.clock, names, lambda webhook: self.told.append(webhook.name))
        return self.told

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        if not dry_run:
            self._made = self.clock.monotonic()
            return super().create(kind, manifest, namespace, dry_run=dry_run)
        labels = manifest["metadata"].get("labels")
        if not labels:
            return super().create(kind, manifest, namespace, dry_run=True)
        (label,) = labels.values()
        if self.clock.monotonic() < self._made + self.known_after:
            return manifest
        for each in (VALIDATING, MUTATING):
            for configuration in self.list(each, labels="guard.upgrader.io/probe"):
                self._call(configuration, label)
        return manifest

    def _call(self, configuration: KubeObject, label: str) -> None:
        for webhook in configuration["webhooks"]:
            if label not in webhook["objectSelector"]["matchLabels"].values():
                continue
            client = webhook["clientConfig"]
            if "url" in client or client["service"]["path"] in self.silent:
                raise ApiError(f'Internal error occurred: failed calling webhook "{webhook["name"]}": refused')
            if self.says:
                raise self.says


@pytest.fixture
def cluster() -> Cluster:
    """With two webhooks that select by label and by nothing, and a mutating one."""
    cluster = Cluster()
    cluster.configuration("a", "one", "two", one=SELECTOR)
    cluster.configuration("b", "three", kind=MUTATING, three={})
    return cluster


def test_a_webhook_that_the_api_server_does_not_call_yet_is_waited_for_aloud(cluster: Cluster) -> None:
    """`guard on` says which one is asked, and for what it waits, and how long at most."""
    notes, doing = list[str](), list[str]()
    cluster.off("b")
    cluster.known_after = 10.0
    switch_on(cluster, cluster.clock, [], lambda _: None, notes.append, doing.append)
    which = "webhook three.example of MutatingWebhookConfiguration b"
    assert doing == [f"testing {which}: the API server waits up to 10 s for each answer…"]
    missing = "it admits a request that it must deny"
    assert notes == [f"waiting up to 30 s for the API server to call {which} in a dry run: {missing}"]


def test_off_matches_nothing_and_on_gives_everything_back(cluster: Cluster) -> None:
    """Each objectSelector, and none where there was none; nothing is left of it, also not of the dry runs."""
    before = [cluster.found("a")["webhooks"], cluster.found("b", MUTATING)["webhooks"]]
    assert cluster.off() == ["three.example", "one.example", "two.example"]
    assert cluster.selectors("a") == [NOTHING, NOTHING] and cluster.selectors("b", MUTATING) == [NOTHING]
    cluster.on()
    assert cluster.selectors("a") == [SELECTOR, {}] and cluster.selectors("b", MUTATING) == [{}]
    assert cluster.found("a")["webhooks"][0] == before[0][0]
    assert NOTE not in (cluster.found("a")["metadata"].get("annotations") or {})
    assert len(cluster.list(VALIDATING)) == 1 and len(cluster.list(MUTATING)) == 1


def test_on_goes_back_in_the_reverse_order(cluster: Cluster) -> None:
    """Also over several commands: what was switched off last is on first."""
    cluster.off("two.example")
    cluster.clock.sleep(1)
    cluster.off()
    assert cluster.on() == ["one.example", "three.example", "two.example"]


def test_twice_is_as_once(cluster: Cluster) -> None:
    """What is off is never remembered as what it had before."""
    cluster.off()
    assert cluster.off() == []
    cluster.on()
    assert cluster.on() == [] and cluster.selectors("a") == [SELECTOR, {}]


def test_only_what_is_named(cluster: Cluster) -> None:
    """By its own name or its configuration's; others stay on."""
    assert cluster.off("one.example") == ["one.example"]
    assert cluster.selectors("a") == [NOTHING, None]
    assert cluster.off("b") == ["three.example"]
    assert cluster.on("a") == ["one.example"]
    assert cluster.selectors("b", MUTATING) == [NOTHING]


def test_a_name_that_none_has_changes_nothing(cluster: Cluster) -> None:
    """The error lists those that there are."""
    with pytest.raises(UsageError, match="no webhook bogus") as refused:
        cluster.off("one.example", "bogus")
    assert "one.example" in refused.value.remedy and cluster.selectors("a") == [SELECTOR, None]
    with pytest.raises(UsageError) as nothing:
        Cluster().off("bogus")
    assert "no configuration has the label" in nothing.value.remedy


def test_one_that_is_silent_stays_off(cluster: Cluster) -> None:
    """With the API server's words; those that come before it are on, those after it are not tried."""
    cluster.off()
    cluster.silent = {"/one"}
    with pytest.raises(Blocked, match=r"one\.example of ValidatingWebhookConfiguration a stays off.*refused"):
        cluster.on()
    assert cluster.told == ["two.example"]
    assert cluster.selectors("a") == [NOTHING, {}] and cluster.selectors("b", MUTATING) == [NOTHING]
    assert len(cluster.list(VALIDATING)) == 1, "nothing is left of the dry run"
    cluster.silent = set()
    assert cluster.on() == ["one.example", "three.example"]


def test_a_configuration_that_is_not_followed_proves_nothing(cluster: Cluster) -> None:
    """As long as the API server doesn't call it at all, that nothing is refused says nothing."""
    cluster.off("one.example")
    cluster.known_after = 100
    with pytest.raises(Blocked, match="did not call it within 30 s"):
        cluster.on()
    cluster.known_after = 29
    assert cluster.on() == ["one.example"]


def test_of_anothers_refusal_nothing_follows(cluster: Cluster) -> None:
    """It is raised, and nothing is switched on."""
    cluster.off("one.example", "two.example")
    cluster.says = ApiError('admission webhook "policy.example" denied the request: no')
    with pytest.raises(ApiError, match=r"policy\.example"):
        cluster.on()
    assert cluster.selectors("a") == [NOTHING, NOTHING]


def test_leftovers_of_a_killed_probe_are_removed(cluster: Cluster) -> None:
    """They match nothing, and the next one cleans up."""
    cluster.off("one.example")
    labels = {"guard.upgrader.io/probe": "true"}
    cluster.put(VALIDATING, {"metadata": {"name": "guard-probe-old", "labels": labels}, "webhooks": []})
    cluster.on()
    assert [each["metadata"]["name"] for each in cluster.list(VALIDATING)] == ["a"]


def test_what_helm_has_put_back_is_on(cluster: Cluster) -> None:
    """A release writes its own objectSelector over it; what was noted for it counts no more."""
    cluster.off()
    cluster.patch(VALIDATING, "a", {"webhooks": [{**cluster.found("a")["webhooks"][0], "objectSelector": SELECTOR}]})
    assert cluster.on() == ["three.example"]
    assert cluster.off("a") == ["one.example"]
    assert cluster.on("a") == ["one.example"] and cluster.selectors("a") == [SELECTOR]


@pytest.mark.parametrize("note", [None, "no JSON", "[]", '{"one.example": 1}'])
def test_what_nothing_remembers_is_not_guessed(cluster: Cluster, note: str | None) -> None:
    """An annotation that somebody removed or wrote: the operator has to say what it selects."""
    cluster.off("one.example")
    cluster.patch(VALIDATING, "a", {"metadata": {"annotations": {NOTE: note}}})
    with pytest.raises(UsageError, match="is not recorded"):
        cluster.on()
    assert cluster.selectors("a") == [NOTHING, None]


def test_somebody_who_writes_at_the_same_time_is_waited_for(cluster: Cluster) -> None:
    """guard writes its authority there, too: a conflict is another read, and an end that isn't reached is an error."""
    conflicts = [3]
    real = cluster.patch

    def patch(kind: Kind, name: str, changes: KubeObject, namespace: str = "", *, subresource: str = "") -> KubeObject:
        if conflicts[0]:
            conflicts[0] -= 1
            error = ApiError("modified")
            error.status = 409
            raise error
        return real(kind, name, changes, namespace)

    cluster.patch = patch  # type: ignore[method-assign]
    assert cluster.off("one.example") == ["one.example"]
    conflicts[0] = 9
    with pytest.raises(ApiError, match="modified"):
        cluster.off("two.example")


def test_a_configuration_that_is_gone_is_off(cluster: Cluster) -> None:
    """It stands in nobody's way."""
    real = cluster.get

    def get(kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        return None if name == "a" else real(kind, name, namespace)

    cluster.get = get  # type: ignore[method-assign]
    assert "one.example" in cluster.off()
