"""Each rule of the decision, one scenario at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.unit.in_cluster.checkpointer.builders import API
from upgrader.in_cluster.checkpointer.decision.durations import History, advance
from upgrader.in_cluster.checkpointer.decision.rules import Desired, decide
from upgrader.in_cluster.checkpointer.decision.settings import Settings
from upgrader.in_cluster.checkpointer.observed_values import (
    ApiState,
    LeaseSeen,
    Observation,
    ParentPod,
    Presence,
    StandbySeen,
)
from upgrader.onhost.node.generation_choice import Generation, WorkloadInventory
from upgrader.onhost.node.workload_policy import Policy, Workload

SETTINGS = Settings(ready_for=30, grace=20, release_after=30, keep=3)
GOOD = WorkloadInventory(Policy.API_AWAY, (Generation(1, "old"), Generation(2, "good")))
ACTIVE = replace(GOOD, active=True, active_number=2)
UP = Presence(running=frozenset({"c1"}), up=frozenset({"c1"}), sandbox=True)
LOOPING = Presence(sandbox=True)
NOTHING = Presence()
POD = ParentPod(API, "kube-system", "kube-apiserver-abc-x1", "u1", "2026-01-01T00:00:00Z", True, False, "good")


@dataclass
class Node:
    """A node whose passes are two seconds apart."""

    inventory: WorkloadInventory = GOOD
    history: History = field(default_factory=History)
    now: float = 100.0

    def look(
        self,
        api: ApiState = ApiState.ANSWERING,
        parents: tuple[ParentPod, ...] = (),
        presence: Presence | None = NOTHING,
        lease: LeaseSeen | None = None,
        seconds: float = 2.0,
    ) -> Desired:
        """Look once every two seconds, for `seconds`; the last answer."""
        end = self.now + seconds
        while self.now < end:
            self.now += 2.0
            runtime = None if presence is None else {API: presence}
            leases = {} if lease is None else {API: lease}
            seen = Observation(self.now, api, parents, runtime, leases)
            self.history = advance(self.history, seen, [API], SETTINGS.ready_for)
            desired = decide(self.history, parents, {API: self.inventory}, SETTINGS)
        return desired


def test_captures_only_after_the_set_time() -> None:
    """A new digest becomes a generation once its pod has been Ready for the set time, not before."""
    node, new = Node(), replace(POD, digest="new")
    assert node.look(parents=(new,), seconds=30).capture == ()
    assert node.look(parents=(new,)).capture == (new,)


def test_one_unready_look_starts_the_time_anew() -> None:
    """A pod that is not Ready in a single pass has to prove itself from the start."""
    node, new = Node(), replace(POD, digest="new")
    node.look(parents=(new,), seconds=28)
    node.look(parents=(replace(new, ready=False),))
    assert node.look(parents=(new,), seconds=30).capture == ()


def test_one_unknown_look_starts_the_time_anew() -> None:
    """Not knowing is not being Ready."""
    node, new = Node(), replace(POD, digest="new")
    node.look(parents=(new,), seconds=28)
    node.look(api=ApiState.UNKNOWN)
    assert node.look(parents=(new,), seconds=30).capture == ()


def test_a_changed_secret_proves_itself_anew() -> None:
    """The same pod with other content is a new candidate with a time of its own."""
    node = Node()
    node.look(parents=(replace(POD, digest="new"),), seconds=28)
    assert node.look(parents=(replace(POD, digest="newer"),), seconds=30).capture == ()


def test_what_is_current_is_not_captured_again() -> None:
    """A steady state writes nothing."""
    assert Node().look(parents=(POD,), seconds=100).capture == ()


def test_content_that_failed_and_proves_itself_again_is_captured() -> None:
    """When every generation is marked as failed, and a pod of the newest one's content is Ready for long enough, a new
    generation of it has no mark: after an outage with another cause, recovery must not refuse all there is."""
    marked = tuple(replace(generation, failed=True) for generation in GOOD.generations)
    assert Node(replace(GOOD, generations=marked)).look(parents=(POD,), seconds=40).capture == (POD,)
    assert (
        Node(replace(GOOD, generations=(*marked, Generation(3, "good")))).look(parents=(POD,), seconds=40).capture == ()
    )


def test_a_terminating_pod_is_not_captured() -> None:
    """The old pod of a rollout doesn't come back as a generation."""
    assert Node().look(parents=(replace(POD, digest="new", terminating=True),), seconds=100).capture == ()


def test_the_newest_proven_pod_wins() -> None:
    """Of two Ready pods the younger is kept, so a finished rollout decides."""
    young = replace(POD, uid="u2", digest="new", created="2026-01-02T00:00:00Z")
    assert Node().look(parents=(POD, young), seconds=40).capture == (young,)


def test_going_back_makes_the_old_content_the_last_good_again() -> None:
    """After a rollback the older content is captured once more, as the newest."""
    old = replace(POD, digest="old")
    assert Node().look(parents=(old,), seconds=40).capture == (old,)


def test_cold_start_after_two_looks() -> None:
    """A node that lost its power, with nothing left to start the API, doesn't wait for a grace."""
    node = Node()
    assert API not in node.look(api=ApiState.AWAY).manifests
    assert node.look(api=ApiState.AWAY).manifests == {API: 2}


def test_no_cold_start_where_a_sandbox_lives() -> None:
    """A living sandbox means a kubelet that knows the pod and may restart it by itself."""
    assert Node().look(api=ApiState.AWAY, presence=LOOPING, seconds=18).manifests == {}


def test_no_start_while_the_runtime_is_unknown() -> None:
    """An error of the container runtime is not an empty node."""
    assert Node().look(api=ApiState.AWAY, presence=None, seconds=600).manifests == {}


def test_no_start_while_the_runtime_does_not_know_a_container() -> None:
    """A container of unknown state may be running."""
    assert Node().look(api=ApiState.AWAY, presence=Presence(unknown=True, sandbox=True), seconds=600).manifests == {}


def test_no_start_while_the_api_is_unknown() -> None:
    """An answer from which nothing follows, such as a 401, starts nothing."""
    assert Node().look(api=ApiState.UNKNOWN, seconds=600).manifests == {}


def test_no_start_while_the_parent_stays_up() -> None:
    """An API that doesn't answer while its pod runs, as with etcd unreachable, is not helped by a second one."""
    assert Node().look(api=ApiState.AWAY, presence=UP, seconds=600).manifests == {}


def test_a_roll_starts_nothing() -> None:
    """While one pod is replaced by the next, and a few requests fail, nothing is started."""
    node = Node()
    node.look(presence=UP, parents=(POD,), seconds=100)
    both = Presence(running=frozenset({"c1", "c2"}), up=frozenset({"c1", "c2"}), sandbox=True)
    assert node.look(presence=both, api=ApiState.AWAY, seconds=4).manifests == {}
    after = Presence(running=frozenset({"c2"}), up=frozenset({"c2"}), sandbox=True)
    assert node.look(presence=after, api=ApiState.AWAY, seconds=28).manifests == {}


def test_a_pod_that_is_gone_gets_the_grace() -> None:
    """The kubelet may restart containers that ran before; only then the standby pod starts."""
    node = Node()
    node.look(presence=UP, parents=(POD,), seconds=40)
    assert node.look(api=ApiState.AWAY, seconds=20).manifests == {}
    assert node.look(api=ApiState.AWAY).manifests == {API: 2}


def test_a_crash_loop_starts_the_last_good() -> None:
    """A parent that never stays up, with the API unreachable, gives way to the last-known-good after the crash
    grace.
    """
    node = Node()
    node.look(presence=UP, parents=(POD,), seconds=40)
    names = iter(range(1000))
    for _ in range(30):
        new = frozenset({f"crash{next(names)}"})
        assert node.look(api=ApiState.AWAY, presence=Presence(running=new, up=new, sandbox=True)).manifests == {}
    node.look(api=ApiState.AWAY, presence=LOOPING)
    assert node.look(api=ApiState.AWAY, presence=LOOPING).manifests == {API: 2}


def test_a_damaged_generation_is_never_started() -> None:
    """What fails its checksum is passed over for the last intact one."""
    node = Node(WorkloadInventory(Policy.API_AWAY, (Generation(1, "old"), Generation(2, "", intact=False))))
    assert node.look(api=ApiState.AWAY, seconds=4).manifests == {API: 1}


def test_the_standby_pod_stays_until_api_and_parent_are_back_for_long_enough() -> None:
    """The standby pod may be what answers: it ends only for a parent that has been Ready throughout."""
    node = Node(ACTIVE)
    assert node.look(api=ApiState.AWAY, seconds=60).manifests == {API: 2}
    assert node.look(seconds=300, presence=LOOPING).manifests == {API: 2}
    assert node.look(parents=(POD,), presence=UP, seconds=30).manifests == {API: 2}
    assert node.look(parents=(POD,), presence=UP).manifests == {API: None}


def test_the_standby_pod_stays_on_an_unknown() -> None:
    """Neither an unknown API nor an unknown runtime deactivates a standby pod."""
    node = Node(ACTIVE)
    node.look(parents=(POD,), presence=UP, seconds=28)
    assert node.look(parents=(POD,), presence=None, seconds=60).manifests == {API: 2}
    assert node.look(api=ApiState.UNKNOWN, presence=UP, seconds=60).manifests == {API: 2}


def test_an_active_standby_pod_is_not_switched() -> None:
    """A newer generation doesn't restart a standby pod that serves."""
    node = Node(
        WorkloadInventory(Policy.API_AWAY, (Generation(1, "a"), Generation(2, "b")), active=True, active_number=1)
    )
    assert node.look(api=ApiState.AWAY).manifests == {API: 1}


def test_a_damaged_manifest_is_written_again() -> None:
    """An active manifest that isn't what was captured is replaced by the last-known-good."""
    assert Node(replace(ACTIVE, active_number=None)).look(api=ApiState.AWAY).manifests == {API: 2}


def test_without_a_good_generation_nothing_is_touched() -> None:
    """When all generations are damaged, an active manifest is left as it is."""
    node = Node(WorkloadInventory(Policy.API_AWAY, (Generation(1, "", intact=False),), active=True, active_number=None))
    assert node.look(parents=(POD,), presence=UP, seconds=60) == replace(
        node.look(parents=(POD,), presence=UP), manifests={}, prune=()
    )


LEASED = replace(GOOD, policy=Policy.LEASE)


def test_no_leased_standby_pod_while_the_api_is_away() -> None:
    """Controller-manager and scheduler are of no use without an API."""
    assert Node(LEASED).look(api=ApiState.AWAY, seconds=600).manifests == {}


def test_a_leased_standby_pod_starts_when_nobody_holds_the_lease() -> None:
    """The API answers, the parent isn't here, and the lease hasn't been renewed for the crash grace."""
    node, lease = Node(LEASED), LeaseSeen("t1", ours=False)
    assert node.look(lease=lease, seconds=60).manifests == {}
    assert node.look(lease=lease, seconds=4).manifests == {API: 2}


def test_no_leased_standby_pod_while_the_lease_is_renewed_elsewhere() -> None:
    """Another node's instance does the work."""
    node = Node(LEASED)
    for second in range(200):
        assert node.look(lease=LeaseSeen(f"t{second}", ours=False)).manifests == {}


def test_no_leased_standby_pod_when_the_lease_is_unknown() -> None:
    """A lease that can't be read is no evidence."""
    assert Node(LEASED).look(seconds=600).manifests == {}


def test_no_leased_standby_pod_when_the_kubelet_restarts_the_parent_in_time() -> None:
    """After a power cut the parents come back by themselves within the grace."""
    node, lease = Node(LEASED), LeaseSeen("t1", ours=False)
    node.look(api=ApiState.AWAY, seconds=30)
    node.look(lease=lease, seconds=40)
    assert node.look(parents=(POD,), presence=UP, seconds=600).manifests == {}


def test_a_leased_standby_pod_leaves_for_another_holder() -> None:
    """Where no parent is meant to be here, a renewed lease elsewhere lets the standby pod go."""
    node = Node(replace(LEASED, active=True, active_number=2))
    node.look(lease=LeaseSeen("t0", ours=True), seconds=60)
    for second in range(15):
        assert node.look(lease=LeaseSeen(f"u{second}", ours=False)).manifests == {API: 2}
    assert node.look(lease=LeaseSeen("v", ours=False)).manifests == {API: None}


def test_a_dead_holder_is_not_another_holder() -> None:
    """A name that stays in the lease without renewing it doesn't let the standby pod go."""
    node = Node(replace(LEASED, active=True, active_number=2))
    node.look(lease=LeaseSeen("t0", ours=False))
    assert node.look(lease=LeaseSeen("t1", ours=False), seconds=600).manifests == {API: 2}


def test_the_own_standby_pod_is_always_there_and_follows_the_newest() -> None:
    """The checkpointer's standby pod is in place whatever is known, so that it is there after a power cut."""
    own = WorkloadInventory(Policy.ALWAYS, (Generation(1, "a"), Generation(2, "b")))
    assert Node(own).look(api=ApiState.UNKNOWN, presence=None).manifests == {API: 2}
    assert Node(replace(own, active=True, active_number=1)).look(seconds=34).manifests == {API: 2}


def test_the_own_standby_pod_is_not_restarted_while_it_may_be_needed() -> None:
    """After a power cut in the middle of its own rollout, the old standby pod restores the API before the new
    replaces it.

    With its manifest gone or damaged there is nothing to wait for.
    """
    own = WorkloadInventory(Policy.ALWAYS, (Generation(1, "a"), Generation(2, "b")), active=True, active_number=1)
    node = Node(own)
    assert node.look(api=ApiState.AWAY, seconds=600).manifests == {API: 1}
    assert node.look(api=ApiState.UNKNOWN, seconds=600).manifests == {API: 1}
    assert node.look(seconds=30).manifests == {API: 1}
    assert node.look(seconds=2).manifests == {API: 2}
    assert Node(replace(own, active_number=None)).look(api=ApiState.AWAY).manifests == {API: 2}


def test_prunes_all_but_the_last_distinct_good_ones() -> None:
    """Three distinct contents stay, even when two of them alternated."""
    numbers = [Generation(n, d) for n, d in enumerate(["a", "b", "c", "d", "c", "d"], start=1)]
    node = Node(WorkloadInventory(Policy.API_AWAY, tuple(numbers)))
    assert node.look(parents=(replace(POD, digest="d"),), presence=UP).prune == ((API, 1), (API, 3), (API, 4))


def test_prunes_nothing_on_an_unknown() -> None:
    """No pass with a source missing deletes a generation."""
    node = Node(WorkloadInventory(Policy.API_AWAY, tuple(Generation(n, str(n)) for n in range(1, 9))))
    assert node.look(api=ApiState.UNKNOWN).prune == ()
    assert node.look(presence=None).prune == ()


def test_a_damaged_generation_goes_only_when_enough_good_ones_are_newer() -> None:
    """Damaged generations may still help an operator; they are removed last."""
    bad = Generation(1, "", intact=False)
    few = WorkloadInventory(Policy.API_AWAY, (bad, Generation(2, "a"), Generation(3, "b")))
    assert Node(few).look(presence=UP).prune == ()
    enough = replace(few, generations=(*few.generations, Generation(4, "c")))
    assert Node(enough).look(presence=UP).prune == ((API, 1),)


def test_a_standby_pod_that_was_put_beside_a_ready_parent_gets_its_time() -> None:
    """A recovery puts it there because the parent answers wrongly: it isn't ended before it could serve."""
    node, presence = Node(), {API: UP}

    def look(standbys: dict[Workload, StandbySeen]) -> Desired:
        node.now += 2.0
        seen = Observation(node.now, ApiState.ANSWERING, (POD,), presence, {}, standbys)
        node.history = advance(node.history, seen, [API], SETTINGS.ready_for)
        return decide(node.history, (POD,), {API: node.inventory}, SETTINGS)

    for _ in range(60):
        look({})
    node.inventory = ACTIVE
    for _ in range(15):
        assert look({API: StandbySeen(2, UP)}).manifests == {API: 2}
    assert look({API: StandbySeen(2, UP)}).manifests == {API: None}
