"""The step that changes the image of etcd's members, one at a time, and puts it back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from upgrader.errors import Blocked, HostError, RollbackFailed, StepFailed
from upgrader.model.cluster import Host
from upgrader.model.release import EtcdBefore, RestorePoint
from upgrader.onhost.sending.host_facts import EtcdServer
from upgrader.pipeline import Inspection
from upgrader.ports import Clock
from upgrader.steps.etcd.on_hosts import Changed, EtcdOnHosts, MemberNow
from upgrader.steps.etcd.plan import PlannedEtcd
from upgrader.steps.etcd.rules import cannot_go_back, next_member, not_settled, revision_of, successor
from upgrader.wait_and_retry import wait_for_hosts, wait_until

__all__ = ["EtcdInspector", "EtcdStep"]

Note = Callable[[str], None]

_POLL_SECONDS = 1.0
_REMEDY = (
    "Check etcd's members (`upgrader check`), and etcd's log on that controller (crictl ps -a --name etcd; crictl "
    "logs CONTAINER)."
)


@dataclass(frozen=True)
class EtcdStep:
    """What is left to do is read from the controllers: it can be repeated from any state."""

    planned: PlannedEtcd
    etcd: EtcdOnHosts
    hosts: Sequence[Host]
    """All controllers: a majority is counted of all members, those that have the image already, too."""
    clock: Clock
    show: Callable[[str, str, Note], str]
    """Have the API show that the member on a node runs an image; "", or what it does not show."""
    unwell: Callable[[], str]
    """What on the controllers isn't well now; "" where all is."""

    @property
    def name(self) -> str:
        return self.planned.name

    def summary(self) -> str:
        return self.planned.summary

    def capture(self) -> RestorePoint:
        """Raises Blocked where a member can't be asked, or has another image than planned."""
        planned = {change.node: change.before for change in self.planned.members}
        image, found = self.planned.settings.image, []
        for each in self.look():
            if each.name in planned:
                if each.image not in (planned[each.name], image):
                    raise Blocked(
                        f"{each.name}: etcd's manifest has the image {each.image}, but had {planned[each.name]} when "
                        "the run was planned; nothing was changed",
                        remedy="The manifest was changed, or the pod doesn't run: check both, then start a new run.",
                    )
                version = each.server.version if isinstance(each.server, EtcdServer) else ""
                found.append(EtcdBefore(each.name, planned[each.name], version))
        return RestorePoint(etcd=tuple(found), image=image)

    def apply(self, note: Note) -> None:
        """Raises StepFailed; a member that doesn't work with the new image has its old one again then."""
        try:
            self._change_all(note)
        except HostError as error:
            raise StepFailed(error.message, remedy=error.remedy) from error

    def _change_all(self, note: Note) -> None:
        settings = self.planned.settings
        before = {change.node: change.before for change in self.planned.members}
        members = self._awaited(note)
        while True:
            left = {each.name for each in members if each.name in before and each.image != settings.image}
            try:
                members = self._settled(note)
            except StepFailed:
                self._put_back_unhealthy(members, set(before) - left, note)
                raise
            chosen = next_member(members, left)
            if chosen is None:
                self._calm_down(note)
                return
            self._hand_over(members, chosen, set(before) - left, note)
            name, old = chosen.name, before[chosen.name]
            note(f"{name}: {old} → {settings.image}")
            changed = self.etcd.change(chosen.host, old, settings.image, str(settings.version), settings.ready_seconds)
            if changed.wrong:
                raise _failed(name, old, changed)
            note(f"{name}: etcd {settings.version} is healthy")
            self._show(name, settings.image, note)
            members = self._awaited(note)

    def undo(self, point: RestorePoint, note: Note) -> None:
        """Where all members have agreed on a new minor, the older one can't read the data: they stay as they are."""
        names = {before.node for before in point.etcd}
        self._put_all_back(point, names, note)
        # Only now, as it waits for the API, which may need all of them; also what an interrupted undo has not shown.
        for each in self._awaited(note):
            if each.name in names and not self._show(each.name, each.image, note):
                return  # the others would wait for the same API

    def _put_all_back(self, point: RestorePoint, names: Collection[str], note: Note) -> None:
        members = self._awaited(note)
        while not self._stays(members, point, note):
            left = {each.name for each in members if each.name in names and each.image == point.image}
            chosen = next_member(members, left)
            if chosen is None:
                self._calm_down(note)
                return
            if isinstance(chosen.server, EtcdServer) and chosen.server.healthy:
                try:
                    members = self._settled(note)
                except StepFailed as error:
                    raise RollbackFailed(error.message, remedy=error.remedy) from error
                if self._stays(members, point, note):  # they may have agreed while they were waited for
                    return
                self._hand_over(members, chosen, set(names) - left, note)
            changed = self.etcd.put_back(chosen.host, point.image, self.planned.settings.ready_seconds)
            if changed.back:
                what = "is not healthy with its previous image" if changed.image != point.image else "keeps its image"
                raise RollbackFailed(
                    f"{chosen.name}: etcd {what}, {changed.image}: {changed.back}",
                    remedy=_REMEDY,
                )
            note(f"{chosen.name}: etcd runs {changed.image} again")
            members = self._awaited(note)

    def _stays(self, members: Sequence[MemberNow], point: RestorePoint, note: Note) -> bool:
        agreed = cannot_go_back(members, (before.version for before in point.etcd))
        if agreed:
            note(
                f"etcd stays at {agreed}: all its members now use cluster version {agreed}, and the older etcd can't "
                f"read their data. Older kube-apiservers also work with etcd {agreed}. To go back, restore the backup: "
                "docs/backup.md"
            )
        return bool(agreed)

    def look(self) -> tuple[MemberNow, ...]:
        """All members. Raises HostError."""
        return _members(self.etcd, self.hosts)

    def _awaited(self, note: Note) -> tuple[MemberNow, ...]:
        """The same; a controller where nothing answers, after a power cut say, is waited for."""
        return wait_for_hosts(self.clock, self.look, note, "because etcd's members are changed one at a time")

    def _settled(self, note: Note) -> tuple[MemberNow, ...]:
        """The members, once etcd is whole and each has caught up with the others. Raises StepFailed with what isn't."""
        watch = _Settling(self.etcd, self.hosts)
        seconds = self.planned.settings.ready_seconds
        missing = self._wait(watch.missing, "all members of etcd", note)
        if missing:
            raise StepFailed(f"waited {seconds:.0f} s for all members of etcd: {missing}", remedy=_REMEDY)
        return watch.members

    def _hand_over(self, members: Sequence[MemberNow], leaving: MemberNow, done: Collection[str], note: Note) -> None:
        """Have another member lead before this one is restarted; where that fails, etcd does so itself as it ends."""
        heir = successor(members, leaving, done)
        if heir:
            try:
                self.etcd.lead(leaving.host, heir)
                note(f"{leaving.name}: etcd's leadership was moved to another member")
            except HostError as error:
                note(
                    f"{leaving.name}: etcd's leadership could not be moved; the others elect a leader when this "
                    f"member stops: {error.message}"
                )

    def _calm_down(self, note: Note) -> None:
        """While the API has no etcd, others lose their leases, end, and are started again with a pause: a gate would
        call them broken. They get the time for that; after it, the gates judge.
        """
        self._wait(self.unwell, "the control plane", note)

    def _wait(self, missing: Callable[[], str], what: str, note: Note) -> str:
        seconds = self.planned.settings.ready_seconds
        return wait_until(self.clock, missing, seconds=seconds, interval_seconds=_POLL_SECONDS, what=what, note=note)

    def _show(self, name: str, image: str, note: Note) -> bool:
        """It is only shown: where that fails, nothing else is wrong. But the next run's checks read it."""
        if missing := self.show(name, image, note):
            note(f"{name}: etcd runs {image}, but its pod in the API does not show it: {missing}")
        return not missing

    def _put_back_unhealthy(self, members: Sequence[MemberNow], changed: Collection[str], note: Note) -> None:
        """Those that an interrupted run left with an image that doesn't work."""
        settings = self.planned.settings
        for each in members:
            if each.name not in changed:
                continue
            now = self.etcd.look(each.host)  # it may have got healthy while all were waited for
            if now is not None and not (isinstance(now.server, EtcdServer) and now.server.healthy and now.runs is True):
                back = self.etcd.put_back(each.host, settings.image, settings.ready_seconds)
                had = "keeps the image" if back.image == settings.image else "is back at the image"
                why = f", and is not healthy: {back.back}" if back.back else ""
                note(f"{each.name}: etcd {had} {back.image}{why}")


@dataclass
class _Settling:
    """Asks all members, again and again: each must get as far as any of them was the time before."""

    etcd: EtcdOnHosts
    hosts: Sequence[Host]
    members: tuple[MemberNow, ...] = ()
    revision: int | None = field(default=None)

    def missing(self) -> str:
        """What isn't well; "" once two rounds have shown that all is."""
        try:
            self.members = _members(self.etcd, self.hosts)
        except HostError as error:
            return error.message
        before, self.revision = self.revision, revision_of(self.members)
        if before is None:
            return not_settled(self.members, 0) or "checked only once so far"
        return not_settled(self.members, before)


@dataclass(frozen=True)
class EtcdInspector:
    """How far an interrupted step got, by the members' manifests."""

    step: EtcdStep

    def await_idle(self, point: RestorePoint | None, note: Note) -> None:
        """A change that outlives its SSH connection ends by itself; the next one on that controller waits for it."""

    def inspect(self, point: RestorePoint | None) -> Inspection:
        planned = self.step.planned
        names = {change.node for change in planned.members}
        members = [each for each in self.step.look() if each.name in names]
        left = [each.name for each in members if each.image != planned.settings.image or each.runs is not True]
        if not left:
            return Inspection(True, f"all {len(members)} members have the image")
        return Inspection(False, f"{len(members) - len(left)} of {len(members)} have it; left: {', '.join(left)}")


def _members(etcd: EtcdOnHosts, hosts: Sequence[Host]) -> tuple[MemberNow, ...]:
    found = (etcd.look(host) for host in hosts)
    return tuple(each for each in found if each is not None)


def _failed(name: str, before: str, changed: Changed) -> StepFailed:
    if changed.back and changed.image != before:
        then = f"Its manifest has the image {changed.image}: {changed.back}"
    elif changed.back:
        then = f"Its manifest has the previous image again, {changed.image}, but etcd is not healthy: {changed.back}"
    else:
        then = f"It runs {changed.image} again, and is healthy."
    return StepFailed(
        f"{name}: etcd did not become healthy with its new image: {changed.wrong}\n{then}",
        remedy="Find out why this image doesn't run here, or set another one in upgrader.yaml: etcd.image.",
    )
