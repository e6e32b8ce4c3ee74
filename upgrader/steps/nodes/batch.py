"""Takes a batch of nodes from cordon to uncordon, and those that fail back to where they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from upgrader.gates.node_return import FEW
from upgrader.model.first_few import first_few
from upgrader.model.node_mark import Phase
from upgrader.model.node_settings import OnBlocked
from upgrader.model.release import NodeBefore
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock
from upgrader.steps.nodes.cordon import Cordons, NodeNow
from upgrader.steps.nodes.decision import Todo, backward, forward
from upgrader.steps.nodes.detaching import Detaching
from upgrader.steps.nodes.drain import Drain
from upgrader.steps.nodes.node_playbooks import NodePlaybooks
from upgrader.steps.nodes.node_watch import NodeWatch
from upgrader.steps.step_document import NodeChange
from upgrader.wait_and_retry import wait_until

__all__ = ["Batch"]

Note = Callable[[str], None]
Problems = dict[str, str]
"""Node → why it failed."""
Versions = tuple[KubernetesVersion, ...]

_POLL_SECONDS, _POLL_MANY_SECONDS = 1.0, 3.0
_AS_BEFORE = "it is unchanged, and uncordoned"
_INTERRUPTED = "its upgrade failed before the run was interrupted"


@dataclass(frozen=True)
class Batch:
    """The nodes of a batch go through each phase together; Ansible works on them in parallel."""

    cordons: Cordons
    detaching: Detaching
    drain: Drain
    playbooks: NodePlaybooks
    watch: NodeWatch
    log: Callable[[str], str]
    """What a node's kubelet wrote last."""
    clock: Clock
    ready_seconds: float

    def telling(self, note: Note) -> Batch:
        """The same, which tells also for what it waits while the API doesn't answer."""
        cordons = replace(self.cordons, note=note)
        return replace(self, cordons=cordons, detaching=replace(self.detaching, cordons=cordons))

    def upgrade(self, nodes: Sequence[NodeChange], note: Note) -> Problems:
        """Upgrade nodes, each from its present state. Those that fail are rolled back, and returned.

        Raises ApiError where the API doesn't answer for long.
        """
        changes = {item.node: item for item in nodes}
        before = {name: NodeBefore(name, item.before, item.configured) for name, item in changes.items()}
        todo = self._todo(changes, lambda now: self.left(now, changes[now.name]), note)
        problems = self._put_back({name: self._why(name) for name in _having(todo, "put-back")}, before, note)

        late = self.detaching.back(_having(todo, "attach"), note)
        kept_in = self.detaching.out(_having(todo, "detach"), note)
        problems |= self._untouched(kept_in, before, note)
        ready = [*(name for name in _having(todo, "detach") if name not in kept_in), *_having(todo, "drain")]
        drained, blocked = self._drained(ready, note)
        problems |= self._undrained(blocked, before, note)
        going = [*drained, *_having(todo, "swap")]
        broken = self._swapped(going, {name: changes[name].after for name in going}, note)
        return problems | self._put_back(self._still_there({**late, **broken}, note), before, note)

    def left(self, now: NodeNow, change: NodeChange) -> Todo:
        """What is left to do with a node on its way forward."""
        wanted = self.playbooks.fingerprint
        configured = not wanted or now.configured == wanted
        return forward(now.mark, now.version, change.after, again=change.again, configured=configured)

    def put_back(self, before: Mapping[str, NodeBefore], note: Note) -> Problems:
        """Return nodes to what they were, from wherever each of them is. Those that can't be are returned.

        What keeps a node from being drained doesn't keep it from this: a kubelet may be replaced under running pods.
        Nor do its critical pods: what makes them Ready again may be the releases, which are undone after the nodes.
        """
        todo = self._todo(before, lambda now: self._left_backward(now, before[now.name]), note)
        for name in _having(todo, "release"):
            self.cordons.release(name)
            note(f"{name}: it was not changed; uncordoned")
        waiting = [*_having(todo, "release"), *_having(todo, "attach")]
        late = {name: f"{_AS_BEFORE}, but {why}" for name, why in self.detaching.back(waiting, note).items()}
        for name, why in self.detaching.out(_having(todo, "detach"), note, briefly=True).items():
            note(f"{name}: {why}; draining it anyway")
        draining = [*_having(todo, "detach"), *_having(todo, "drain")]
        self._enter(draining, "drain", note, "cordoned; draining with a short deadline")
        blocked = self.drain.briefly(draining, note) if draining else {}
        drained = [name for name in draining if name not in blocked]
        for name, why in blocked.items():
            note(f"{name}: {why}; restoring its old binaries while the remaining pods run")
        names = [*drained, *blocked, *_having(todo, "put-back")]
        return late | self._restored(dict.fromkeys(names, "the run is rolled back"), before, note, with_pods=False)

    def _left_backward(self, now: NodeNow, before: NodeBefore) -> Todo:
        new = self.playbooks.fingerprint
        reconfigured = bool(new) and now.configured == new != before.configured
        return backward(now.mark, now.version, before.version, reconfigured=reconfigured)

    def _todo(self, names: Mapping[str, object], decide: Callable[[NodeNow], Todo], note: Note) -> Mapping[str, Todo]:
        found: dict[str, Todo] = {}
        for name in names:
            now = self.cordons.read(name)
            if now is None:
                note(f"{name}: it is no longer a node of the cluster")
            else:
                found[name] = decide(now)
        return found

    def _still_there(self, broken: Mapping[str, str], note: Note) -> Mapping[str, str]:
        """Those that failed because they are gone are no failures."""
        gone = [name for name in broken if self.cordons.read(name) is None]
        for name in gone:
            note(f"{name}: it is no longer a node of the cluster")
        return {name: why for name, why in broken.items() if name not in gone}

    def _why(self, name: str) -> str:
        now = self.cordons.read(name)
        return (now.mark.why if now and now.mark else "") or _INTERRUPTED

    def _drained(self, names: Sequence[str], note: Note) -> tuple[list[str], Mapping[str, str]]:
        """Cordon and drain; returns those that are drained, and the others with why."""
        self._enter(names, "drain", note, "cordoned, draining it")
        blocked = self.drain.run(names, note) if names else {}
        return [name for name in names if name not in blocked], blocked

    def _undrained(self, blocked: Mapping[str, str], before: Mapping[str, NodeBefore], note: Note) -> Problems:
        """The same of those that could not be drained, of which the policy may have some skipped."""
        policy: OnBlocked = self.drain.policy.on_blocked
        return self._untouched(blocked, before, note, skipped=policy == "skip-node")

    def _untouched(
        self, blocked: Mapping[str, str], before: Mapping[str, NodeBefore], note: Note, *, skipped: bool = False
    ) -> Problems:
        """Nothing of them was changed, so that they only have to be uncordoned, and get back into the load balancer.

        Returns the problems: those of nodes that are not skipped, and of any that doesn't get back.
        """
        for name in blocked:
            self.cordons.release(name)
        late = self.detaching.back(tuple(blocked), note)
        problems = {}
        for name, why in blocked.items():
            text = f"{why}; the node was not changed (it still has {before[name].version}), and is uncordoned again"
            text += f"; but {late[name]}" if name in late else ""
            note(f"{name}: skipped: {text}" if skipped and name not in late else f"{name}: {text}")
            if not skipped or name in late:
                problems[name] = text
        return problems

    def _swapped(self, names: Sequence[str], after: Mapping[str, KubernetesVersion], note: Note) -> Mapping[str, str]:
        """Swap the programs of drained nodes, and uncordon those that are back; returns the others with why."""
        self._enter(names, "swap", note, "replacing its binaries")
        broken = self.playbooks.upgrade(names)
        configured = dict.fromkeys(names, self.playbooks.fingerprint or None)
        late = self._await({name: (after[name],) for name in names if name not in broken}, configured, note)
        out = self.detaching.back([name for name in names if name not in {**broken, **late}], note)
        return {**broken, **{name: f"{why}\n    its kubelet: {self.log(name)}" for name, why in late.items()}, **out}

    def _put_back(self, broken: Mapping[str, str], before: Mapping[str, NodeBefore], note: Note) -> Problems:
        for name, why in broken.items():
            note(f"{name}: {why}; restoring its old binaries")
        kept = self._restored(broken, before, note)
        return {name: f"{why}\n    {kept.get(name) or self._returned(name)}" for name, why in broken.items()}

    def _returned(self, name: str) -> str:
        now = self.cordons.read(name)
        return f"its old binaries were restored: it is at {now.version}, and Ready" if now else "it is gone"

    def _restored(
        self, names: Mapping[str, str], before: Mapping[str, NodeBefore], note: Note, *, with_pods: bool = True
    ) -> Problems:
        """Put the old programs back (`names`: why), and uncordon the nodes that are Ready with them; returns the others
        with what keeps them.
        """
        wanted = {name: self._restore_points(name, before[name].version) for name in names}
        for name, why in names.items():
            self.cordons.cordon(name, "back", why)
        broken = self.playbooks.restore(tuple(names))
        versions = {name: wanted[name] for name in names if name not in broken}
        configured = {name: self._earlier(before[name]) for name in versions}
        late = {**broken, **self._await(versions, configured, note, with_pods=with_pods)}
        out = self.detaching.back([name for name in names if name not in late], note)
        return {
            name: f"restoring it to {_either(wanted[name])} failed, and it stays cordoned: {problem}"
            for name, problem in late.items()
        } | {name: f"{_AS_BEFORE}, but {problem}" for name, problem in out.items()}

    def _restore_points(self, name: str, before: KubernetesVersion) -> Versions:
        """What its restore point may have: the version of now, or the one from before a swap that was never finished.

        Only the node knows whether it was: its kubelet may be the new one a moment before that is recorded there.
        """
        now = self.cordons.read(name)
        earlier = now.mark.before if now and now.mark else None
        return (before, earlier) if earlier and earlier != before else (before,)

    def _earlier(self, before: NodeBefore) -> str | None:
        """The configuration of a node that was rolled back; None: as its annotation says.

        Where that was the new configuration already, an interrupted run had written it, and the previous one is
        unknown.
        """
        new = self.playbooks.fingerprint
        return None if not new else "" if before.configured == new else before.configured

    def _enter(self, names: Sequence[str], phase: Phase, note: Note, text: str) -> None:
        for name in names:
            self.cordons.cordon(name, phase)
            note(f"{name}: {text}")

    def _await(
        self,
        versions: Mapping[str, Versions],
        configured: Mapping[str, str | None],
        note: Note,
        *,
        with_pods: bool = True,
    ) -> Problems:
        """Uncordon each node as soon as it is back, and note what it is configured with; returns those that are not in
        time, with what is missing.
        """
        ask = self.watch.all_back(versions, with_pods=with_pods)
        left = dict.fromkeys(versions, "")

        def missing() -> str:
            self.drain.check()
            left.update(ask(tuple(left)))
            for name in tuple(left):
                if not left[name]:
                    version = self.cordons.release(name, configured[name])
                    del left[name]
                    note(f"{name}: Ready with kubelet {version}; uncordoned")
            return "; ".join(left.values())

        # A kubelet renews its Lease every ten seconds: of many nodes, no heartbeat is missed.
        interval = _POLL_SECONDS if len(versions) <= FEW else _POLL_MANY_SECONDS
        what = f"{first_few(list(versions))} to be back"
        why = wait_until(
            self.clock, missing, seconds=self.ready_seconds, interval_seconds=interval, what=what, note=note
        )
        return {
            name: f"node {name} was not Ready with kubelet {_either(versions[name])} "
            f"within {self.ready_seconds:.0f} s: {problem or why}"
            for name, problem in left.items()
        }


def _having(todo: Mapping[str, Todo], what: Todo) -> list[str]:
    return [name for name, item in todo.items() if item == what]


def _either(versions: Versions) -> str:
    return " or ".join(map(str, versions))
