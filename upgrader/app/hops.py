"""An upgrade over several minor versions: one run after the other, each with its own plan, checks, gates and journal.

A hop that fails rolls back to where it began, so that the cluster is left healthy at the last hop that passed. Between
two hops there is no lock and no unfinished work: the same command continues from there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from typing import Protocol

from upgrader.app.execution import FinishedRun
from upgrader.app.upgrade import CheckedPlan, ProposedUpgrade
from upgrader.engine.execution.stop_request import StopRequest
from upgrader.engine.state.run_state import RunState
from upgrader.errors import Blocked, Interrupted
from upgrader.model.skips import Skips
from upgrader.model.version import KubernetesVersion

__all__ = ["HopWatcher", "hops_left", "refuse_if_stopped", "run_hops", "skips_of"]


class HopWatcher(Protocol):
    """The operator of an upgrade over several hops."""

    def approve(self, checked: CheckedPlan, *, foreseen: bool) -> None:
        """Raise whatever ends the upgrade before this hop.

        `foreseen`: the plan is exactly what was said of it when a hop was last approved that wasn't foreseen itself.
        """
        ...

    def ended(self, finished: FinishedRun) -> None:
        """Raise the run's error, if it has one: no hop begins after one that failed."""
        ...

    def pause(self, checked: CheckedPlan) -> None:
        """Between two hops, while no lock is held; `checked` is the hop that has ended."""
        ...


def run_hops(
    propose: Callable[[int | None], AbstractContextManager[ProposedUpgrade]],
    watcher: HopWatcher,
    most: int | None = None,
) -> None:
    """Propose, approve and run one hop after the other, until nothing is ahead.

    `propose` is given how many hops are left (None: as many as it takes). Each proposal is made from the cluster as the
    last hop left it. Raises what `propose` and the watcher raise; Interrupted where a stop was requested; and Blocked
    where a hop succeeded without the API server having become newer: the same hop would be next, without an end.
    """
    approved, reached = list[str](), None
    for done in count():
        with propose(None if most is None else most - done) as proposed:
            checked = proposed.checked
            if reached is not None:
                _refuse_standstill(checked.plan.current, reached)
            foreseen = approved[:1] == [checked.plan.digest]
            # What a later proposal says of the hops after it was shown to nobody who was asked.
            approved = approved[1:] if foreseen else [hop.plan.digest for hop in checked.ahead]
            watcher.approve(checked, foreseen=foreseen)
            finished = proposed.execute()
        watcher.ended(finished)
        if not checked.ahead:
            return
        refuse_if_stopped(proposed.held.stop, checked.goal)
        reached = checked.plan.target
        watcher.pause(checked)


def refuse_if_stopped(stop: StopRequest, goal: KubernetesVersion) -> None:
    """Raise Interrupted where a stop was requested during a run's last step: it has ended, but no other one begins."""
    if stop.requested:
        raise Interrupted(
            f"{stop.reason}, on the way to {goal}: no further hop was started",
            remedy=f"Run `upgrader run --to {goal}` to continue.",
        )


def _refuse_standstill(current: KubernetesVersion, reached: KubernetesVersion) -> None:
    if current.minors_after(reached) < 0:
        raise Blocked(
            f"the run to {reached} succeeded, but the API server is at {current}: no further hop was started",
            remedy="Check that the pipeline upgrades the kube-apiserver of this kubeconfig: kubectl get --raw /version",
        )


def hops_left(state: RunState) -> KubernetesVersion | None:
    """The version that a run which has reached its own was on the way to; None where nothing is left."""
    reached, goal = state.target, state.goal
    if state.outcome != "succeeded" or state.rolling_back or reached is None or goal is None:
        return None
    return goal if goal.minors_after(reached) > 0 else None


def skips_of(state: RunState) -> Skips:
    """What the operator overruled when the run was started, for the hops after it as well."""
    return Skips(tuple(dict.fromkeys(item.id for item in state.skipped)), next((i.reason for i in state.skipped), ""))
