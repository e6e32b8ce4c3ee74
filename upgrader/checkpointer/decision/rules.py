"""The pure core: from what has been so, and what is on disk, to which files there should be.

``decide`` is level-triggered: it is computed anew on every look, from durations and the disk alone, never from what it
decided before. Applying a part of its answer, or none, or being killed between two file operations, leaves a disk from
which the next look decides the rest. What it promises (`invariants` checks it before
each change), and why it holds:

I1. *The last-known-good is only ever replaced by something that was Ready for the set time.* A generation is captured
    only for a (pod, digest) whose unbroken run of looks "the API answered, this pod was Ready and not terminating, and
    this is what it was made of" lasts ``ready_for``. Any other look ends the run (``history``). A crash-looping pod
    therefore never becomes a generation, and a changed Secret has to prove itself as a changed image does. The one
    exception is the checkpointer's own first copy, which replaces nothing: that it acts is its proof (``observe``).
I2. *Nothing is deleted on an unknown.* A manifest of ours is withdrawn, and a generation pruned, only in a look in
    which the API answers and the runtime is known. Otherwise what is there stays as it is.
I3. *At most one instance of a workload is started here by us.* A workload has one manifest path, so one manifest. While
    it is in place it is switched to another generation only when the one there has verifiably failed (below), or is
    damaged and not up; the kubelet ends a static pod before it starts its successor of the same name. The
    checkpointer's own is the exception.
I4. *A copy starts only against evidence.* Away or expired is counted in consecutive looks, and the workload's own pods
    must be known to be absent, or known to be unable to stay up. No answer from the runtime is no evidence.
I5. *A copy never leaves before its parent stands.* It is withdrawn only after the API has answered, and the parent on
    this node has been Ready, both for the whole of ``release_after`` — the copy may be what is answering.
I6. *The generation in use and the newest good one are never pruned.*
I7. *Each generation is tried once.* A copy that fails is marked on disk before another takes its place, and the next
    choice prefers what isn't marked. When all are marked the newest is put in place, and stays: no circle. Only a
    new capture, that is a pod of that content that was Ready for the set time, makes it the first choice again.

When a copy starts:

``API_AWAY`` (kube-apiserver). Three cases. *Cold*: nothing of the workload has had a living sandbox since we look,
twice in a row, and the API was away both times. A kubelet that starts without an API knows only static pods, so no
waiting can help: a controller that lost its power gets its API back at once. *Gone*: its containers ran before and now
none does, for ``grace``; a living kubelet gets that long to restart them by itself. *Crash loop*: nothing stays up, for
``crash_grace``. While an API is merely being rolled, the old pod runs and stays up, so none of the three holds.

``LEASE`` (controller-manager, scheduler). They aren't needed to bring the API back, and after a power cut their pods,
which are still bound to this node, are restarted by the kubelet as soon as the API answers. They are needed when the
API answers and nobody in the cluster runs them: pods that were deleted or evicted are created and bound again only by
these two. The sign of that is a lease that nobody has renewed for ``crash_grace``, which is far longer than a restart
or a leader election takes. The copy takes part in the election like any instance, so starting it needlessly costs
memory, not correctness. It is withdrawn when the parent here has been Ready, or somebody else has held the lease, for
``release_after``. Where the API says that the owner doesn't exist, and has said so for ``release_after``, nobody is
meant to run it: its copy neither starts nor stays. That of kube-apiserver never goes on such a word.

A copy has failed when it was needed and nothing else could be the reason: for ``crash_grace`` the kubelet has had a
sandbox for it and it didn't stay up, while what it depends on (etcd) answered. Then the next older intact generation
takes its place. A generation whose images are gone from the node is passed over from the start, unless all are.

``ALWAYS`` (the checkpointer itself). Its manifest is there from the first generation on, so that it is there after a
power cut. It follows the newest generation only while the API has answered for ``release_after``: to switch it restarts
it, and after a power cut it may be all that can bring the API back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from upgrader.checkpointer.decision.durations import History
from upgrader.checkpointer.observed import ParentPod, Settings
from upgrader.node.choice import Generation, WorkloadInventory, best
from upgrader.node.workload import Policy, Workload

_LOOKS = 2


@dataclass(frozen=True)
class Desired:
    """Which files there should be.

    ``capture``: pods of which a new generation is to be written. ``failed``: generations to mark as such.
    ``manifests``: the generation whose manifest the kubelet should read, or None for no manifest of ours; a workload
    that is missing here is left as it is. ``prune``: generations to remove. ``reasons``: why, for people.
    """

    capture: tuple[ParentPod, ...] = ()
    failed: Mapping[Workload, int] = field(default_factory=dict)
    manifests: Mapping[Workload, int | None] = field(default_factory=dict)
    prune: tuple[tuple[Workload, int], ...] = ()
    reasons: Mapping[Workload, str] = field(default_factory=dict)


def decide(
    history: History, parents: tuple[ParentPod, ...], disk: Mapping[Workload, WorkloadInventory], settings: Settings
) -> Desired:
    """The files that there should be after this look. ``parents``: pods of this look, empty unless the API answers."""
    manifests: dict[Workload, int | None] = {}
    reasons: dict[Workload, str] = {}
    failed: dict[Workload, int] = {}
    prune: list[tuple[Workload, int]] = []
    for workload, holding in disk.items():
        if holding.best is None or holding.last_good is None:
            reasons[workload] = "no good generation on disk"
            continue
        number, reasons[workload] = _manifest(workload, holding, holding.best, history, settings)
        if number is not None or holding.active:
            manifests[workload] = number
        if number is not None and _failing(workload, holding, history, settings):
            failed.update((workload, g.number) for g in holding.intact if g.number == holding.active_number != number)
        prune += [(workload, g.number) for g in _surplus(holding, number, history, settings)]
    return Desired(
        capture=tuple(_captures(history, parents, disk, settings)),
        failed=failed,
        manifests=manifests,
        prune=tuple(prune),
        reasons=reasons,
    )


def _captures(
    history: History, parents: tuple[ParentPod, ...], disk: Mapping[Workload, WorkloadInventory], settings: Settings
) -> list[ParentPod]:
    """For each workload the newest pod that proved itself, where it isn't the last-known-good already."""
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


def _is_last_good(pod: ParentPod, holding: WorkloadInventory | None) -> bool:
    last = holding.last_good if holding else None
    return last is not None and last.digest == pod.digest


def _manifest(
    workload: Workload, holding: WorkloadInventory, first: Generation, history: History, settings: Settings
) -> tuple[int | None, str]:
    """The generation to have in place, and why."""
    if holding.policy is Policy.ALWAYS:
        return _own(holding, first, history, settings), "the checkpointer's own copy is always there"
    if not holding.active:
        start = _start(workload, holding, history, settings)
        return (first.number, start) if start else (None, "in reserve")
    leave = _leave(workload, holding, history, settings)
    if leave:
        return None, leave
    if holding.active_number is None:
        return first.number, "what was in place is no generation's manifest"
    if any(g.number == holding.active_number and not g.intact for g in holding.generations):
        copy = history.of(workload).copy
        up = not history.runtime_known or (copy is not None and copy.up_since is not None)
        # What runs has read its files already: to replace it would only take it away.
        return (holding.active_number, "active, though damaged") if up else (first.number, "what was active is damaged")
    if _failing(workload, holding, history, settings):
        next_best = best(holding.generations, also_failed={holding.active_number})
        if next_best is not None and next_best.number != holding.active_number:
            return next_best.number, f"generation {holding.active_number} did not stay up"
    return holding.active_number, "active: the workload has not been back for long enough"


def _own(holding: WorkloadInventory, first: Generation, history: History, settings: Settings) -> int:
    stays = any(g.number == holding.active_number for g in holding.intact)
    calm = history.lasted(history.answering_since, settings.release_after)
    return holding.active_number if stays and not calm and holding.active_number is not None else first.number


def _failing(workload: Workload, holding: WorkloadInventory, history: History, settings: Settings) -> bool:
    """Whether the copy in place was needed, and has had its time, and didn't stay up."""
    line = history.of(workload)
    if holding.policy is Policy.ALWAYS or line.copy is None or line.copy.number != holding.active_number:
        return False
    if line.copy.up_since is not None:
        return False  # it runs just now: it may be about to make it
    if holding.policy is Policy.LEASE:
        needed = line.lease_stale_since if history.answering_since is not None else None
    else:
        needed = history.away_since
    grace = settings.crash_grace
    return history.lasted(needed, grace) and history.lasted(line.copy.failing_since, grace)


def _start(workload: Workload, holding: WorkloadInventory, history: History, settings: Settings) -> str:
    """Why the copy has to start; empty if it hasn't."""
    if not history.runtime_known:
        return ""
    line = history.of(workload)
    if holding.policy is Policy.LEASE:
        if history.lasted(line.ownerless_since, settings.release_after):
            return ""
        nobody = history.lasted(line.lease_stale_since, settings.crash_grace)
        away = line.parent_ready_since is None and history.lasted(line.unstable_since, settings.crash_grace)
        answering = history.lasted(history.answering_since, settings.crash_grace)
        return "nobody in the cluster runs it" if nobody and away and answering else ""
    if history.away_passes < _LOOKS:
        return ""
    if not line.seen_up and line.absent_passes >= _LOOKS:
        return "the API is away and nothing on this node would start it"
    if history.lasted(line.absent_since, settings.grace) and history.lasted(history.away_since, settings.grace):
        return "the API is away and the workload's pod is gone"
    if history.lasted(line.unstable_since, settings.crash_grace) and history.lasted(
        history.away_since, settings.crash_grace
    ):
        return "the API is away and the workload's pod does not stay up"
    return ""


def _leave(workload: Workload, holding: WorkloadInventory, history: History, settings: Settings) -> str:
    """Why the copy may leave; empty if it may not."""
    if not (history.runtime_known and history.lasted(history.answering_since, settings.release_after)):
        return ""
    line = history.of(workload)
    if history.lasted(line.parent_ready_since, settings.release_after):
        return "the workload's own pod is Ready again"
    if holding.policy is Policy.LEASE and history.lasted(line.lease_elsewhere_since, settings.release_after):
        return "another instance holds the lease"
    if holding.policy is Policy.LEASE and history.lasted(line.ownerless_since, settings.release_after):
        return "the workload no longer exists"
    return ""


def _surplus(holding: WorkloadInventory, in_use: int | None, history: History, settings: Settings) -> list[Generation]:
    """Generations beyond the last ``keep`` distinct good ones; damaged ones once they are older than all these."""
    if history.answering_since is None or not history.runtime_known:
        return []
    kept: dict[str, int] = {}
    for generation in reversed(holding.intact):
        if len(kept) < settings.keep:
            kept.setdefault(generation.digest, generation.number)
    used = {*kept.values(), in_use, holding.active_number, holding.last_good.number if holding.last_good else None}
    full = len(kept) == settings.keep
    oldest = min(kept.values())
    return [g for g in holding.generations if g.number not in used and (g.intact or (full and g.number < oldest))]
