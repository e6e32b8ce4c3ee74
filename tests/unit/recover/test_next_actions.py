"""What a recovery decides to do next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.recover.controllers import ACTIVE_PATH, controller, generation
from upgrader.model.cluster import Host
from upgrader.onhost.sending.host_facts import Container, Endpoint, Unit, Unknown
from upgrader.recover.diagnosis.diagnose import Controller
from upgrader.recover.restoring.next_actions import (
    BESIDE_SECONDS,
    PARENT_SECONDS,
    STAGGER_SECONDS,
    STANDBY_SECONDS,
    UNIT_SECONDS,
    UNIT_TRIES,
    Attempts,
    next_actions,
    remember,
)

GONE = generation(4, missing=("registry.k8s.io/kube-apiserver:v1.37.1",))
FAILED = generation(4, failure="did not stay up")
DAMAGED = generation(4, damage="manifest.json was changed")


def decided(
    *controllers: Controller, attempts: Attempts | None = None, now: float = 0.0, api: bool = False
) -> list[str]:
    """What is done, in words."""
    actions = next_actions(controllers, attempts or Attempts(), now, api_answers=api)
    return [str(action).partition(", captured at")[0] for action in actions]


PUT_4 = "controller-1: start kube-apiserver from its generation 4"
PUT_3 = "controller-1: start kube-apiserver from its generation 3"
ONE_LOOK = {
    "nothing runs: the newest good generation": (controller(), [PUT_4]),
    "the newest is damaged: the one before": (controller(generations=(generation(3), DAMAGED)), [PUT_3]),
    "the newest one's image is gone: the one before": (controller(generations=(generation(3), GONE)), [PUT_3]),
    "the newest has failed before: the one before": (controller(generations=(generation(3), FAILED)), [PUT_3]),
    "all have failed before: nothing": (controller(generations=(replace(FAILED, number=3), FAILED)), []),
    "all but one have failed, which lacks its image": (
        controller(generations=(replace(GONE, number=3), FAILED)),
        [],
    ),
    "one that failed is in place: it gets its time": (controller(generations=(generation(3), FAILED), active=4), []),
    "none is good: nothing": (controller(generations=(DAMAGED,)), []),
    "it isn't known which images are there: try": (
        controller(generations=(generation(4, missing=Unknown("?")),)),
        [PUT_4],
    ),
    "it serves: nothing": (controller(serves=True), []),
    "not known whether it serves: nothing": (controller(serves=None), []),
    "a standby pod is in place: it gets its time": (controller(active=4), []),
    "an older standby pod is in place: it gets its time": (controller(active=3), []),
    "a damaged standby pod is in place: replaced": (controller(in_place=True), [PUT_4]),
    "its own pod has started just now: it gets its time": (controller(running_for=5), []),
    "its own pod runs for long and doesn't serve": (controller(running_for=PARENT_SECONDS + 1), [PUT_4]),
    "the host's clock was set back": (controller(running_for=-3600), [PUT_4]),
    "not known what runs: wait a little": (controller(containers=Unknown("no crictl")), []),
    "manual action required": (controller(blocked="etcd has lost its data"), []),
    "kubelet is stopped: started, and the standby pod put in place": (
        controller(start=("kubelet",)),
        ["controller-1: start kubelet", PUT_4],
    ),
    "containerd is stopped: no standby pod before it is known what runs": (
        controller(start=("containerd", "kubelet")),
        ["controller-1: start containerd", "controller-1: start kubelet"],
    ),
}


@pytest.mark.parametrize(("seen", "done"), ONE_LOOK.values(), ids=ONE_LOOK)
def test_first_look(seen: Controller, done: list[str]) -> None:
    """What is done about a controller that was never examined before."""
    assert decided(seen) == done


def test_api_that_answers_is_let_alone() -> None:
    """With an API there is nothing to break the glass for; what is stopped on a controller is started all the same."""
    assert decided(controller(start=("kubelet",)), api=True) == ["controller-1: start kubelet"]


def test_unreachable_controller_is_passed_over() -> None:
    """Nothing can be done on an unreachable controller; the next one has its turn."""
    away = Controller(Host("controller-1", "10.0.0.1"), None, ())
    assert decided(away, controller("controller-2")) == [PUT_4.replace("-1", "-2")]


def test_next_older_generation_follows_one_that_does_not_come_up() -> None:
    """A standby pod that doesn't serve in its time makes room for the next older, once, whatever put it in place."""
    seen = controller(active=4)
    attempts = remember(Attempts(), [seen], (), now=0.0)
    assert decided(seen, attempts=attempts, now=STANDBY_SECONDS - 1) == []
    assert decided(seen, attempts=attempts, now=STANDBY_SECONDS) == [f"{PUT_3}"]
    older = remember(attempts, [controller(active=3)], (), now=STANDBY_SECONDS)
    assert decided(controller(active=3), attempts=older, now=10 * STANDBY_SECONDS) == []


@pytest.mark.parametrize("etcd", [False, None])
def test_no_generation_is_blamed_for_etcd(etcd: bool | None) -> None:
    """Where etcd isn't known to be healthy, the standby pod in place stays: no other would come up either."""
    seen = controller(active=4, etcd=etcd)
    attempts = remember(Attempts(), [seen], (), now=0.0)
    assert decided(seen, attempts=attempts, now=10 * STANDBY_SECONDS) == []


def test_one_controller_after_the_other() -> None:
    """The second controller's standby pod follows only when the first one's hasn't brought the API back in its time."""
    both = controller(), controller("controller-2")
    (first,) = next_actions(both, Attempts(), 0.0, api_answers=False)
    assert first.host.name == "controller-1"
    attempts = remember(Attempts(), both, [first], now=0.0)
    after = controller(active=4), controller("controller-2")
    assert decided(*after, attempts=attempts, now=STAGGER_SECONDS - 1) == []
    assert decided(*after, attempts=attempts, now=STAGGER_SECONDS) == [PUT_4.replace("-1", "-2")]


def test_unit_that_does_not_start_is_not_tried_for_ever() -> None:
    """A unit is started again after a pause, and a few times only."""
    seen, attempts, now, starts = controller(start=("containerd",)), Attempts(), 0.0, 0
    while now < 20 * UNIT_SECONDS:
        actions = next_actions([seen], attempts, now, api_answers=False)
        starts += len(actions)
        attempts = remember(attempts, [seen], actions, now)
        now += 1.0
    assert starts == UNIT_TRIES


def test_what_runs_stays_unknown() -> None:
    """Where the runtime never reports what runs, the standby pod is put in place after the time that a start takes."""
    seen = controller(containers=Unknown("no crictl"))
    attempts = remember(Attempts(), [seen], (), now=0.0)
    assert decided(seen, attempts=attempts, now=PARENT_SECONDS - 1) == []
    assert decided(seen, attempts=attempts, now=PARENT_SECONDS) == [PUT_4]


def test_the_standby_pod_goes_where_the_checkpointer_looks_for_it() -> None:
    """The manifest is that of the generation, at the one path that the pod-checkpointer knows."""
    (action,) = next_actions([controller()], Attempts(), 0.0, api_answers=False)
    assert getattr(action, "path", "") == ACTIVE_PATH


def wrong(**changes: object) -> Controller:
    """A controller whose own kube-apiserver serves, and is wrong; generation 4 was made from it."""
    own = Container("kube-apiserver-new", "kube-system", "kube-apiserver", "running", uid="u-new", template="t-new")
    generations = (replace(generation(3), pod="u-old", template="t-old"), replace(generation(4), pod="u-new"))
    given = {"serves": True, "containers": (own,), "generations": generations, **changes}
    return controller(**given)  # type: ignore[arg-type]


def replaced(seen: Controller, attempts: Attempts | None = None, now: float = 0.0) -> list[str]:
    """What is done about a wrong API, in words."""
    actions = next_actions([replace(seen, wrong=True)], attempts or Attempts(), now, api_answers=True, replace=True)
    return [str(action).partition(", captured at")[0] for action in actions]


STOP = "controller-1: stop kube-apiserver-new, which does not work correctly"
STANDBY = Container("kube-apiserver-checkpoint-c", "kube-system", "kube-apiserver", "running", standby=True, uid="u-s")


def test_wrong_instance_is_replaced_by_a_generation_of_another_pod() -> None:
    """The newest generation may have been made from the wrong pod itself: it is passed over."""
    assert replaced(wrong()) == [PUT_3]


def test_generation_of_another_template_comes_first() -> None:
    """What has the wrong pod's template is tried only where there is nothing else."""
    same = replace(generation(5), pod="u-other", template="t-new")
    other = replace(generation(3), pod="u-old", template="t-old")
    assert replaced(wrong(generations=(other, same))) == [PUT_3]
    assert replaced(wrong(generations=(same,))) == ["controller-1: start kube-apiserver from its generation 5"]


def test_wrong_instance_is_stopped_once_the_standby_pod_serves_beside_it() -> None:
    """First the standby pod, then the stop: seen by its own answer, or after a while where it can't serve beside it."""
    seen = wrong(active=3)
    facts = seen.facts
    assert facts is not None and isinstance(facts.api, Endpoint) and isinstance(facts.containers, tuple)
    beside = replace(facts, containers=(*facts.containers, STANDBY))
    starting = replace(seen, facts=replace(beside, api=replace(facts.api, instances=1, private=1)))
    answering = replace(seen, facts=replace(beside, api=replace(facts.api, instances=2, listeners=1, private=2)))
    serving = replace(seen, facts=replace(beside, api=replace(facts.api, instances=2, listeners=2, private=2)))
    attempts = Attempts(standbys={("controller-1", 3): 0.0})
    assert replaced(starting, attempts, 5.0) == []
    assert replaced(answering, attempts, 5.0) == [], "its HAProxy doesn't listen for clients yet"
    assert replaced(serving, attempts, 5.0) == [STOP]
    assert replaced(starting, attempts, BESIDE_SECONDS) == [], "it may still come up"
    assert replaced(starting, attempts, STANDBY_SECONDS) == [], (
        "there is no other generation, and nothing serves instead"
    )
    older = replace(seen, facts=replace(beside, api=replace(facts.api, instances=0)))
    assert replaced(older, attempts, 5.0) == []
    assert replaced(older, attempts, BESIDE_SECONDS) == [STOP], "an older chart's can't serve before the port is free"
    masked = replace(older, facts=replace(beside, kubelet=Unit("kubelet", "inactive", "dead")))
    assert replaced(masked, attempts, BESIDE_SECONDS) == [], "no kubelet would start anything in its place"
    assert replaced(seen, attempts, BESIDE_SECONDS) == [], "the standby pod doesn't even exist"


@pytest.mark.parametrize("api", [Endpoint(False, "no answer", private=2, listeners=1), Unknown("no answer in time")])
def test_instance_is_not_stopped_while_none_answers_in_time(api: Endpoint | Unknown) -> None:
    """On a busy machine both may be too slow for an examination: what serves clients then stays, as nothing shows that
    the standby pod serves them.
    """
    seen = wrong(active=3)
    assert seen.facts is not None and isinstance(seen.facts.containers, tuple)
    busy = replace(seen, facts=replace(seen.facts, containers=(*seen.facts.containers, STANDBY), api=api))
    assert replaced(busy, Attempts(standbys={("controller-1", 3): 0.0}), BESIDE_SECONDS) == []


def test_standby_pod_that_is_refused_the_same_replaces_nobody() -> None:
    """It is known to be wrong as well: the next generation gets its turn, and the instance is not stopped for it."""
    seen = wrong(active=3)
    facts = seen.facts
    assert facts is not None and isinstance(facts.api, Endpoint) and isinstance(facts.containers, tuple)
    api = replace(facts.api, instances=2, listeners=2, private=2)
    both = replace(facts, containers=(*facts.containers, STANDBY), api=api)
    seen = replace(seen, facts=both, wrong_pods=frozenset({"u-new", "u-s"}))
    attempts = Attempts(standbys={("controller-1", 3): 0.0})
    assert not any("stop" in action for now in (5.0, STANDBY_SECONDS) for action in replaced(seen, attempts, now))


def test_standby_pod_that_is_wrong_as_well_is_replaced_by_an_older_one() -> None:
    """If it serves alone and the API is still wrong, the next generation gets its turn, after the same time as ever."""
    seen = wrong(active=4, containers=(STANDBY,))
    attempts = Attempts(standbys={("controller-1", 4): 0.0})
    assert replaced(seen, attempts, STANDBY_SECONDS - 1) == []
    assert replaced(seen, attempts, STANDBY_SECONDS) == [PUT_3]


def test_nothing_is_replaced_without_need_or_means() -> None:
    """kubeadm's own static pod is nobody's release; without another generation, or without facts, nothing is done."""
    facts = wrong().facts
    assert facts is not None and isinstance(facts.containers, tuple)
    static = tuple(replace(item, static=True) for item in facts.containers)
    assert replaced(wrong(containers=static)) == []
    assert replaced(wrong(generations=(replace(generation(4), pod="u-new"),))) == []
    assert replaced(wrong(containers=Unknown("no answer"))) == []


def test_wrong_instances_are_replaced_one_controller_after_the_other() -> None:
    """Only where the evidence is, and only after the first: an API server that is right is left alone."""
    first, second = replace(wrong(), wrong=True), replace(wrong(name="controller-2"), wrong=True)
    right = wrong(name="controller-3")
    seen = next_actions([first, second, right], Attempts(), 0.0, api_answers=True, replace=True)
    assert [str(action).partition(",")[0] for action in seen] == [PUT_3]
    waits = replace(wrong(active=3), wrong=True)
    assert next_actions([waits, second], Attempts(), 0.0, api_answers=True, replace=True) == ()
    assert next_actions([first], Attempts(), 0.0, api_answers=True) == ()


def test_pods_of_other_clusters_are_left_alone() -> None:
    """A hosted control plane's kube-apiserver, in a namespace of its own, is none of ours."""
    facts = wrong().facts
    assert facts is not None and isinstance(facts.containers, tuple)
    assert replaced(wrong(containers=tuple(replace(item, namespace="tenant-a") for item in facts.containers))) == []


def test_pod_that_a_wrong_one_replaced_was_right() -> None:
    """While it still ends, its generation is the one to start, and it isn't stopped; a restart makes no pod newer."""
    old = Container("kube-apiserver-old", "kube-system", "kube-apiserver", "running", uid="u-old", created=30.0)
    begun = Container("kube-apiserver-old", "kube-system", "address", "exited", uid="u-old", created=1.0)
    new = Container("kube-apiserver-new", "kube-system", "kube-apiserver", "running", uid="u-new", created=20.0)
    assert replaced(wrong(containers=(old, begun, new))) == [PUT_3]
    attempts = Attempts(standbys={("controller-1", 3): 0.0})
    assert replaced(wrong(containers=(old, begun, new, STANDBY), active=3), attempts, BESIDE_SECONDS) == [STOP]


def test_the_instance_with_the_evidence_is_stopped_whatever_its_age() -> None:
    """A rollback may have made a right pod already, which is newer than the wrong one that still ends."""
    old = Container("kube-apiserver-old", "kube-system", "kube-apiserver", "running", uid="u-old", created=1.0)
    new = Container("kube-apiserver-new", "kube-system", "kube-apiserver", "running", uid="u-new", created=20.0)
    attempts = Attempts(standbys={("controller-1", 3): 0.0})
    seen = replace(wrong(containers=(old, new, STANDBY), active=3), wrong_pods=frozenset({"u-old"}))
    assert replaced(seen, attempts, BESIDE_SECONDS) == [
        "controller-1: stop kube-apiserver-old, which does not work correctly"
    ]


def test_standby_pod_that_is_wrong_beside_a_right_instance_is_left_to_the_checkpointer() -> None:
    """Nothing is stopped or started: the workload's own pod serves, so that the standby pod is removed anyway."""
    new = Container("kube-apiserver-new", "kube-system", "kube-apiserver", "running", uid="u-new", created=20.0)
    attempts = Attempts(standbys={("controller-1", 4): 0.0})
    seen = replace(wrong(containers=(new, STANDBY), active=4), wrong_pods=frozenset({"u-s"}))
    right = replace(seen, right_pods=frozenset({"u-new"}))
    assert replaced(right, attempts, STANDBY_SECONDS) == []
    other = replace(wrong(name="controller-2"), wrong=True)
    both = next_actions([replace(right, wrong=True), other], attempts, STANDBY_SECONDS, api_answers=True, replace=True)
    assert [str(action).partition(",")[0] for action in both] == [PUT_3.replace("-1", "-2")], "it holds nobody up"
    assert replaced(seen, attempts, STANDBY_SECONDS) == [PUT_3], "its own pod was not seen to serve"


def test_instance_that_serves_is_never_stopped_for_another_one() -> None:
    """Where the wrong instance's pod isn't known, age doesn't make the right one guilty."""
    new = Container("kube-apiserver-new", "kube-system", "kube-apiserver", "running", uid="u-new", created=20.0)
    attempts = Attempts(standbys={("controller-1", 3): 0.0})
    seen = replace(wrong(containers=(new,), active=3), right_pods=frozenset({"u-new"}))
    assert not any("stop" in action for action in replaced(seen, attempts, BESIDE_SECONDS))
