"""Drains nodes by the eviction API, which honours disruption budgets; with a deadline, and a policy for after it.

A budget answers 429 while it allows no eviction: PodDisruptionBudgets, and webhooks with budgets of their own. That is
waited for; so is a conflict, and an API server that has failed (500 and above; a pod with several PodDisruptionBudgets
gets that, too), and a namespace that is being deleted: no pod of it can be evicted, and each is about to be deleted.
Every other refusal stays one, however long is waited.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from upgrader.errors import ApiError, CredentialsRefused
from upgrader.model.counted import counted
from upgrader.model.first_few import first_few
from upgrader.model.node_settings import DrainPolicy
from upgrader.ports import Clock, Kube
from upgrader.steps.nodes.api_resources import PODS
from upgrader.steps.nodes.budgets import by_webhook, why_refused
from upgrader.steps.nodes.pods_to_drain import DrainedPod, DrainedPods, pods_to_drain, tolerates_cordon
from upgrader.wait_and_retry import wait_until

__all__ = ["Drain"]

Note = Callable[[str], None]

_POLL_SECONDS = 2.0
_NODES_A_ROUND = 6
"""Three reads a second, however many nodes are drained at once: their pods take a while to end."""
_TERMINATING = "because it is being terminated"
"""How the API server refuses whatever is new in a namespace that is being deleted, evictions among it."""
_BRIEF_SECONDS = 30.0
"""As long as a pod has by default to end, once it was asked to."""
_SHOWN = 3


@dataclass(frozen=True)
class Drain:
    """Drains several nodes at once."""

    kube: Kube
    clock: Clock
    policy: DrainPolicy
    controllers: Collection[str]
    problem: Callable[[str], str]
    """What a node's conditions say against it, "" when nothing does."""
    check: Callable[[], None]
    """Called while it waits; ends it by raising StepFailed."""

    def briefly(self, nodes: Sequence[str], note: Note) -> Mapping[str, str]:
        """Ask for evictions for a short while, and delete nothing: for who goes on with the pods that are left."""
        seconds = min(_BRIEF_SECONDS, self.policy.deadline_seconds)
        return _Rounds(replace(self, policy=DrainPolicy(seconds)), note).until_deadline(nodes)

    def run(self, nodes: Sequence[str], note: Note) -> Mapping[str, str]:
        """Drain nodes that are cordoned. Returns those that could not be drained, with why.

        Raises CredentialsRefused where the API accepts those of the kubeconfig no longer.
        """
        rounds = _Rounds(self, note)
        undrained = rounds.until_deadline(nodes)
        if self.policy.on_blocked == "force" and undrained:
            for name in undrained:
                try:
                    rounds.force(name)
                except ApiError as error:  # what is left is told at the end of the second wait
                    note(f"{name}: {error.message}")
            undrained = rounds.until_deadline(tuple(undrained))
        return undrained


@dataclass
class _Rounds:
    """One drain: each round asks for the eviction of what is left."""

    drain: Drain
    note: Note
    told: set[tuple[str, str]] = field(default_factory=set)
    """(Node, why it waits) of what was noted, so that it is noted once."""
    first: dict[str, frozenset[str]] = field(default_factory=dict)
    """Node → the uids of the pods that were on it at first."""
    final: dict[str, str] = field(default_factory=dict)
    """Node → the refusal of a pod that no wait changes."""

    def until_deadline(self, nodes: Sequence[str]) -> dict[str, str]:
        """Those that are not drained at the deadline, or can't be, with why."""
        drain, left, blocked = self.drain, dict.fromkeys(nodes, ""), dict[str, str]()
        seconds = drain.policy.deadline_seconds
        last_round = drain.clock.monotonic() + seconds - _POLL_SECONDS
        begun = False

        def missing() -> str:
            nonlocal begun
            drain.check()
            # All of them at first, so that their pods begin to end, and at last, as what was seen before may be old.
            all_of_them = not begun or drain.clock.monotonic() >= last_round
            begun = True
            for name in tuple(left) if all_of_them else tuple(left)[:_NODES_A_ROUND]:
                try:
                    pods = self._pods(name)
                    if pods.bare and drain.policy.on_blocked != "force":
                        blocked[name] = _bare(pods)
                    else:
                        left[name] = self._round(name, pods)
                        if final := self._final(name):
                            blocked[name] = f"{final}; waiting would not help"
                    if name in blocked:
                        del left[name]
                except CredentialsRefused:
                    raise  # of no node in particular: the wait ends where that lasts
                except ApiError as error:
                    left[name] = error.message
                why = left.pop(name, None)
                if why:
                    left[name] = why  # behind those that were read before it
                elif why is not None:
                    self.note(f"{name}: drained")
            return "; ".join(left.values())

        what = f"{counted(len(nodes), 'node')} to be drained"
        wait_until(drain.clock, missing, seconds=seconds, interval_seconds=_POLL_SECONDS, what=what, note=self.note)
        late = f"it was not drained within {seconds:.0f} s"
        return blocked | {name: f"{late}: {self._cause(name, why)}" for name, why in left.items()}

    def force(self, name: str) -> None:
        """Delete what could not be evicted: no budget is asked."""
        pods = self._pods(name)
        for pod in (*pods.owned, *pods.bare):
            if not pod.ending:
                self.note(f"{name}: deleting pod {pod}, which could not be evicted (onBlocked: force)")
                self.drain.kube.delete(PODS, pod.name, pod.namespace)

    def _pods(self, name: str) -> DrainedPods:
        found = self.drain.kube.list(PODS, fields=f"spec.nodeName={name}")
        first = self.first.setdefault(name, frozenset(pod["metadata"]["uid"] for pod in found))
        # Those that tolerate a cordon are evicted once: where they come back here, they would for ever.
        left = (pod for pod in found if pod["metadata"]["uid"] in first or not tolerates_cordon(pod))
        return pods_to_drain(left, controller=name in self.drain.controllers)

    def _round(self, name: str, pods: DrainedPods) -> str:
        """Evict what may go; returns what the node still waits for."""
        refused, ending = [], []
        for pod in (*pods.owned, *pods.bare):
            why = "" if pod.ending else self._evict(name, pod)
            if why:
                refused.append(why)
            else:
                ending.append(f"{pod}{pod.kept_by}")
        for why in refused if not self._final(name) else ():
            if (name, why) not in self.told:
                self.told.add((name, why))
                self.note(f"{name}: {why}; waiting")
        ends = [f"these pods have not terminated: {first_few(ending)}"] if ending else []
        return "; ".join([*refused[:_SHOWN], *ends])

    def _evict(self, name: str, pod: DrainedPod) -> str:
        """Why it can't be evicted now; "" when it was."""
        try:
            self.drain.kube.evict(pod.name, pod.namespace, uid=pod.uid)
        except ApiError as error:
            if isinstance(error, CredentialsRefused) and not by_webhook(error):
                raise
            why = why_refused(self.drain.kube, pod, error)
            if _is_final(error):
                self.final.setdefault(name, why)
            return why
        return ""

    def _final(self, name: str) -> str:
        """The refusal that ends a node's drain; "" where there is none, or the policy has its pod deleted."""
        return "" if self.drain.policy.on_blocked == "force" else self.final.get(name, "")

    def _cause(self, name: str, why: str) -> str:
        """A node that no longer answers is the cause of pods that don't end."""
        try:
            problem = self.drain.problem(name)
        except ApiError as error:
            problem = error.message
        return f"node {name} {problem}; {why}" if problem else why


def _is_final(error: ApiError) -> bool:
    if error.status == HTTPStatus.FORBIDDEN and _TERMINATING in error.message:
        return False
    passes = error.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.CONFLICT)
    return not passes and HTTPStatus.BAD_REQUEST <= error.status < HTTPStatus.INTERNAL_SERVER_ERROR


def _bare(pods: DrainedPods) -> str:
    names = [str(pod) for pod in pods.bare]
    return (
        f"pod {first_few(names)} on it has no controller, so an eviction would remove it permanently (`onBlocked: "
        "force` allows that)"
    )
