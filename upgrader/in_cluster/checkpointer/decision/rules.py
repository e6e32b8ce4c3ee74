"""The pure core: from what has been so, and what is on disk, to which files there should be.

`decide` is level-triggered: it is computed again on every pass, from durations and the disk alone, never from what it
decided before. Applying a part of its answer, or none, or being killed between two file operations, is no harm: the
next pass decides the rest from the disk as it is. Its invariants (`invariants` checks them on each pass), and why they
hold:

I1. *The last-known-good is only ever replaced by something that was Ready for the set time.* A generation is captured
    only for a (pod, digest) whose unbroken run of passes "the API answered, this pod was Ready and not terminating, and
    this is what it was made of" lasts `ready_for`. Any other pass ends the run (`durations`). A crash-looping pod
    therefore never becomes a generation, and a changed Secret has to prove itself as a changed image does. The one
    exception is the checkpointer's own first standby pod, which replaces nothing: that it acts is its proof
    (`observer`).
I2. *Nothing is deleted on an unknown.* A manifest of ours is deactivated, and a generation pruned, only in a pass in
    which the API answers and the runtime is known. Otherwise what is there stays as it is.
I3. *At most one instance of a workload is started here by us.* A workload has one manifest path, so one manifest. While
    it is in place it is switched to another generation only when the one there has verifiably failed (below), or is
    damaged and not up; the kubelet ends a static pod before it starts its successor of the same name. The
    checkpointer's own is the exception.
I4. *A standby pod starts only against evidence.* Unreachable or expired is counted in consecutive passes, and the
    workload's own pods must be known to be absent, or known to be unable to stay up. No answer from the runtime is no
    evidence.
I5. *A standby pod never ends before its parent is Ready.* It is deactivated only after the API has answered, and the
    parent on this node has been Ready, both for the whole of `release_after` — the standby pod may be what is
    answering. One that was put in place beside a Ready parent stays for as long: a recovery does that where the parent
    answers wrongly, and stops it as soon as the standby pod serves.
    The exceptions (below) are what no standby pod may run for, and what isn't needed here.
I6. *The generation in use and the newest good one are never pruned.*
I7. *Each generation is tried once.* A standby pod that fails is marked on disk before another takes its place, and the
    next choice prefers what isn't marked. When all are marked the newest is put in place, and stays: no circle. Only a
    new capture, that is a pod of that content that was Ready for the set time, makes it the first choice again.
I8. *A checkpoint is removed only if it isn't needed.* The API has answered, and all that time the workload had no
    pod here and wasn't meant to (below).

When a standby pod starts:

`API_AWAY` (kube-apiserver). Three cases. *Cold*: nothing of the workload has had a living sandbox since this
process started, twice in a row, and the API was unreachable both times. A kubelet that starts without an API knows
only static pods, so no waiting can help: a controller that lost its power gets its API back at once. *Gone*: its
containers ran before and now none does, for `grace`; a living kubelet gets that long to restart them by itself.
*Crash loop*: nothing stays up, for `crash_grace`. While an API is merely being rolled, the old pod runs and stays
up, so none of the three holds.

`LEASE` (controller-manager, scheduler). They aren't needed to restore the API, and after a power cut their pods,
which are still bound to this node, are restarted by the kubelet as soon as the API answers. They are needed when
the API answers and nothing in the cluster runs them: pods that were deleted or evicted are created and bound again
only by these two. The sign of that is a lease that was not renewed for `crash_grace`, which is far longer than a
restart or a leader election takes. The standby pod takes part in the election like any instance, so starting it
needlessly costs memory, not correctness. It is deactivated when the parent here has been Ready, or another instance
has held the lease, for `release_after`. Where the owner doesn't exist according to the API, for all of
`release_after`, it is not meant to run: its standby pod neither starts nor stays. That of kube-apiserver is never
deactivated for this reason alone.

Neither of them runs where another static pod of the node has the workload's name, such as kubeadm's, or where the
workload is outside of what may have a checkpoint: it doesn't start, and ends once the API has answered for
`release_after`. And a checkpoint expires: what has no pod here, while its owner is gone or has all its pods elsewhere,
is removed after `expire_after`, kube-apiserver only while another instance was seen to serve all that time. Where the
kubelet's own address for the API leads to this node only, a standby pod of kube-apiserver that runs here stays: others
can't take its place for this node. That lasts until the controller has its own pod again, or its kubelet another
address. A load balancer on the node is seen to lead to the others as well: it keeps no standby pod.

A standby pod has failed when it was needed and nothing else could be the reason: for `crash_grace` the kubelet has had
a sandbox for it and it didn't stay up, while what it depends on (etcd) answered. Then the next older intact generation
takes its place. A generation whose images are gone from the node is passed over from the start, unless all are.

`ALWAYS` (the checkpointer itself). Its manifest is there from the first generation on, so that it is there after a
power cut. It follows the newest generation only while the API has answered for `release_after`: to switch it restarts
it, and after a power cut it may be all that can restore the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from upgrader.in_cluster.checkpointer.decision.durations import History
from upgrader.in_cluster.checkpointer.decision.settings import Settings
from upgrader.in_cluster.checkpointer.observed_values import ParentPod
from upgrader.onhost.node.generation_choice import Generation, WorkloadInventory, best
from upgrader.onhost.node.workload_policy import Policy, Workload

_PASSES = 2


@dataclass(frozen=True)
class Desired:
    """Which files there should be.

    `capture`: pods of which a new generation is to be written. `failed`: generations to mark as such.
    `manifests`: the generation whose manifest the kubelet should read, or None for no manifest of ours; a workload
    that is missing here is left as it is. `prune`: generations to remove. `forget`: workloads to remove altogether.
    `reasons`: why, for people.
    """

    capture: tuple[ParentPod, ...] = ()
    failed: Mapping[Workload, int] = field(default_factory=dict)
    manifests: Mapping[Workload, int | None] = field(default_factory=dict)
    prune: tuple[tuple[Workload, int], ...] = ()
    forget: tuple[Workload, ...] = ()
    reasons: Mapping[Workload, str] = field(default_factory=dict)


def decide(
    history: History, parents: tuple[ParentPod, ...], disk: Mapping[Workload, WorkloadInventory], settings: Settings
) -> Desired:
    """The files that there should be after this pass. `parents`: pods of this pass, empty unless the API answers."""
    manifests: dict[Workload, int | None] = {}
    reasons: dict[Workload, str] = {}
    failed: dict[Workload, int] = {}
    prune: list[tuple[Workload, int]] = []
    forget: list[Workload] = []
    for workload, inventory in disk.items():
        if expired(workload, inventory.policy, history, settings):
            reasons[workload] = "it should no longer run here"
            forget.append(workload)
            if inventory.active:
                manifests[workload] = None
            continue
        if inventory.best is None or inventory.last_good is None:
            reasons[workload] = "no good generation on disk"
            continue
        number, reasons[workload] = _manifest(workload, inventory, inventory.best, history, settings)
        if number is not None or inventory.active:
            manifests[workload] = number
        if number is not None and _failing(workload, inventory, history, settings):
            failed.update(
                (workload, g.number) for g in inventory.intact if g.number == inventory.active_number != number
            )
        prune += [(workload, g.number) for g in _surplus(inventory, number, history, settings)]
    return Desired(
        capture=tuple(_captures(history, parents, disk, settings)),
        failed=failed,
        manifests=manifests,
        prune=tuple(prune),
        forget=tuple(forget),
        reasons=reasons,
    )


def expired(workload: Workload, policy: Policy, history: History, settings: Settings) -> bool:
    """Whether a workload has been unneeded here for so long that its checkpoint goes."""
    calm = history.runtime_known and history.lasted(history.answering_since, settings.release_after)
    since = history.of(workload).unneeded_since
    return policy is not Policy.ALWAYS and calm and history.lasted(since, settings.expire_after)


def _captures(
    history: History, parents: tuple[ParentPod, ...], disk: Mapping[Workload, WorkloadInventory], settings: Settings
) -> list[ParentPod]:
    """For each workload the newest pod that proved itself, unless it is the last-known-good already."""
    proven: dict[Workload, ParentPod] = {}
    for pod in parents:
        if pod.digest is None or pod.problem is not None:
            continue
        since = history.of(pod.workload).ready_since.get((pod.uid, pod.digest))
        if not history.lasted(since, settings.ready_for):
            continue
        newest = proven.get(pod.workload)
        if newest is None or (pod.created, pod.uid) > (newest.created, newest.uid):
            proven[pod.workload] = pod
    return [pod for workload, pod in proven.items() if not _is_last_good(pod, disk.get(workload))]


def _is_last_good(pod: ParentPod, inventory: WorkloadInventory | None) -> bool:
    last = inventory.last_good if inventory else None
    # One that is marked as failed has proven itself again: a new capture of it is no longer marked (I7).
    return last is not None and not last.failed and last.digest == pod.digest


def _manifest(
    workload: Workload, inventory: WorkloadInventory, first: Generation, history: History, settings: Settings
) -> tuple[int | None, str]:
    """The generation to have in place, and why."""
    if inventory.policy is Policy.ALWAYS:
        return _own(inventory, first, history, settings), "the checkpointer's own standby pod always runs"
    if not inventory.active:
        start = _start(workload, inventory, history, settings)
        return (first.number, start) if start else (None, "in reserve")
    leave = _leave(workload, inventory, history, settings)
    if leave:
        return None, leave
    if inventory.active_number is None:
        return first.number, "the active manifest belongs to no generation"
    if any(g.number == inventory.active_number and not g.intact for g in inventory.generations):
        standby = history.of(workload).standby
        up = not history.runtime_known or (standby is not None and standby.up_since is not None)
        # What runs has read its files already: to replace it would only end it.
        return (
            (inventory.active_number, "active although damaged")
            if up
            else (first.number, "the active generation was damaged")
        )
    if _failing(workload, inventory, history, settings):
        next_best = best(inventory.generations, also_failed={inventory.active_number})
        if next_best is not None and next_best.number != inventory.active_number:
            return next_best.number, f"generation {inventory.active_number} did not stay up"
    return inventory.active_number, "active: the workload's own pod has not been back for long enough"


def _own(inventory: WorkloadInventory, first: Generation, history: History, settings: Settings) -> int:
    stays = any(g.number == inventory.active_number for g in inventory.intact)
    calm = history.lasted(history.answering_since, settings.release_after)
    return inventory.active_number if stays and not calm and inventory.active_number is not None else first.number


def _failing(workload: Workload, inventory: WorkloadInventory, history: History, settings: Settings) -> bool:
    """Whether the standby pod in place was needed, and has had its time, and didn't stay up."""
    line = history.of(workload)
    if inventory.policy is Policy.ALWAYS or line.standby is None or line.standby.number != inventory.active_number:
        return False
    if line.standby.up_since is not None:
        return False  # it runs just now: it may be about to make it
    if inventory.policy is Policy.LEASE:
        needed = line.lease_stale_since if history.answering_since is not None else None
    else:
        needed = history.away_since
    grace = settings.crash_grace
    return history.lasted(needed, grace) and history.lasted(line.standby.failing_since, grace)


def _start(workload: Workload, inventory: WorkloadInventory, history: History, settings: Settings) -> str:
    """Why the standby pod has to start; empty if it hasn't."""
    line = history.of(workload)
    if line.barred or not history.runtime_known:
        return ""
    if inventory.policy is Policy.LEASE:
        if history.lasted(line.ownerless_since, settings.release_after):
            return ""
        stale = history.lasted(line.lease_stale_since, settings.crash_grace)
        parent_down = line.parent_ready_since is None and history.lasted(line.unstable_since, settings.crash_grace)
        answering = history.lasted(history.answering_since, settings.crash_grace)
        return "no instance in the cluster is running" if stale and parent_down and answering else ""
    if history.away_passes < _PASSES:
        return ""
    if not line.seen_up and line.absent_passes >= _PASSES:
        return "the API is unreachable, and this node has no pod of the workload"
    if history.lasted(line.absent_since, settings.grace) and history.lasted(history.away_since, settings.grace):
        return "the API is unreachable and the workload's pod is gone"
    if history.lasted(line.unstable_since, settings.crash_grace) and history.lasted(
        history.away_since, settings.crash_grace
    ):
        return "the API is unreachable and the workload's pod does not stay up"
    return ""


def _leave(workload: Workload, inventory: WorkloadInventory, history: History, settings: Settings) -> str:
    """Why the standby pod may be deactivated; empty if it may not."""
    if not (history.runtime_known and history.lasted(history.answering_since, settings.release_after)):
        return ""
    line = history.of(workload)
    if line.standby is not None and not history.lasted(line.standby.placed_since, settings.release_after):
        return ""
    if history.lasted(line.parent_ready_since, settings.release_after):
        return "the workload's own pod is Ready again"
    if history.lasted(line.barred_since, settings.release_after):
        return line.barred
    if inventory.policy is Policy.LEASE and history.lasted(line.lease_elsewhere_since, settings.release_after):
        return "another instance holds the lease"
    if inventory.policy is Policy.LEASE and history.lasted(line.ownerless_since, settings.release_after):
        return "the workload no longer exists"
    return ""


def _surplus(
    inventory: WorkloadInventory, in_use: int | None, history: History, settings: Settings
) -> list[Generation]:
    """Generations beyond the last `keep` distinct good ones; damaged ones once they are older than all these."""
    if history.answering_since is None or not history.runtime_known:
        return []
    kept: dict[str, int] = {}
    for generation in reversed(inventory.intact):
        if len(kept) < settings.keep:
            kept.setdefault(generation.digest, generation.number)
    used = {
        *kept.values(),
        in_use,
        inventory.active_number,
        inventory.last_good.number if inventory.last_good else None,
    }
    full = len(kept) == settings.keep
    oldest = min(kept.values())
    return [g for g in inventory.generations if g.number not in used and (g.intact or (full and g.number < oldest))]
