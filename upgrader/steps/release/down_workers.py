"""Workers that are down: Helm would wait for their pods, so a release that wants some there is waited for without it.

As kstatus has it, a DaemonSet is complete when each of its nodes has a Ready pod of the newest revision; it stays
incomplete while one of them is dead, and Helm rolls back at its timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from upgrader.errors import ApiError, HelmError
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.gates.manifest_workloads import daemon_sets_on, stateful_sets_in, workloads_in
from upgrader.gates.node_health import unreachable_nodes
from upgrader.ports import Clock, Helm, Kube
from upgrader.steps.release.own_wait import OwnWait
from upgrader.wait_and_retry import wait_until

__all__ = ["DownWorkers", "roll_back"]

_PODS_A_SECOND = 200
"""How many pods are read in a second at most, on average: a DaemonSet has one on each of thousands of nodes."""

_TAINT_SECONDS = 60.0
"""How long after its death a worker may have no taint yet: kube-controller-manager waits for 40 to 50 s."""


@dataclass(frozen=True)
class DownWorkers:
    """Finds those on which a release's DaemonSets can't be rolled out."""

    kube: Kube
    clock: Clock
    controllers: Collection[str]
    healthy_before: Collection[str] | None = None
    """The workers that were healthy before the run; None: nothing is known of them, and each is waited for."""

    def upgrading(self, manifest: str, namespace: str) -> OwnWait | None:
        """None where Helm can wait. One that was healthy before the run has to be so after it. Raises ApiError."""
        known = self.healthy_before
        return self._wait(manifest, namespace, lambda name: known is not None and name not in known)

    def undoing(self, manifest: str, namespace: str) -> OwnWait | None:
        """The same of a rollback, which no worker makes fail that is down by now. Raises ApiError."""
        return self._wait(manifest, namespace, lambda _: True)

    def after_helms_wait(
        self, manifest: str, namespace: str, *, ran_out: bool, watch: Callable[[], None], note: Callable[[str], None]
    ) -> OwnWait | None:
        """The same once Helm's own wait for a rollback has failed: a worker may have died in it, under pods of any
        workload. None where no such worker is down.

        `ran_out`: Helm has waited as long as it could. Then a worker that has died may not have its taint yet.
        """
        found: list[OwnWait] = []

        def not_yet() -> str:
            watch()
            wait = self._wait(manifest, namespace, lambda _: True, any_workload=True)
            found.extend([wait] if wait is not None and wait.lacks_pods_there else [])
            return "" if found else "no such worker has been seen yet"

        what = "the API to show whether a worker died while Helm waited"
        wait_until(self.clock, not_yet, seconds=_TAINT_SECONDS if ran_out else 0.0, what=what, note=note)
        return found[0] if found else None

    def lost(self) -> list[str]:
        """The nodes that have gone down since the run began, as far as the API says."""
        try:
            down = unreachable_nodes(self.kube)
        except ApiError:
            return []
        return sorted(name for name in down if name in self.controllers or name in (self.healthy_before or ()))

    def _wait(
        self, manifest: str, namespace: str, left_out: Callable[[str], bool], *, any_workload: bool = False
    ) -> OwnWait | None:
        refs = workloads_in(manifest, namespace)
        if not refs or not (any_workload or any(ref.kind == "DaemonSet" for ref in refs)):
            return None
        down = unreachable_nodes(self.kube)
        names = down if any_workload else daemon_sets_on(manifest, namespace, down.values())

        def is_left_out(name: str) -> bool:
            return name not in self.controllers and left_out(name)

        found = tuple(sorted(filter(is_left_out, names)))
        if not found:
            return None
        # What others than their controllers replace, Helm doesn't wait for either: their own gates do.
        sets = stateful_sets_in(manifest, namespace)
        waited = tuple(ref for ref in refs if ref not in sets or not (sets[ref].on_delete or sets[ref].group))
        every_seconds = max(1.0, self.kube.count(NODES) / _PODS_A_SECOND)
        return OwnWait(self.kube, self.clock, waited, found, is_left_out, every_seconds)


def roll_back(
    helm: Helm,
    down: DownWorkers | None,
    release: str,
    namespace: str,
    revision: int,
    *,
    timeout_seconds: float,
    note: Callable[[str], None],
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Helm's rollback, and the wait for it.

    Helm waits where no worker is down when it begins. One that dies then has its taint only 40 to 50 s later, and Helm
    waits for its pods until its timeout. So what Helm's failure means is decided behind it.
    """

    def by_helm(*, wait: bool) -> None:
        helm.rollback(release, namespace, revision, timeout_seconds=timeout_seconds, wait=wait, watch=watch)

    if down is None:
        by_helm(wait=True)
        return
    manifest = helm.manifest(release, namespace, revision)
    own = down.undoing(manifest, namespace)
    if own is not None:
        note(f"{own.why}: this step, not Helm, waits for the other pods of release {release}")
    else:
        began = down.clock.monotonic()
        try:
            by_helm(wait=True)
            return
        except HelmError as error:
            ran_out = down.clock.monotonic() - began >= timeout_seconds
            own = down.after_helms_wait(manifest, namespace, ran_out=ran_out, watch=watch, note=note)
            if own is None:
                raise
            note(
                f"{own.why} now, and Helm's wait failed ({error.message}): rolling release {release} back once more; "
                "this time the step, not Helm, waits for the other pods"
            )
    # Also where it is the second time: Helm takes what it waited for in vain for a failed revision.
    by_helm(wait=False)
    own(timeout_seconds, watch, note)
