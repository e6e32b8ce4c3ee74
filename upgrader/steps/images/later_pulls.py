"""The images that most workers pull beside the steps up to kube-apiserver's, and what proves that they have them.

Of a thousand nodes, a tenth pull together, so that it takes minutes. Most of them run nothing of the control plane, and
need nothing before kube-proxy is replaced. What an image's name, a registry or credentials have wrong is found before
anything changes, as always: by the controllers, and by a first batch of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from threading import Event, Thread

from upgrader.errors import Interrupted, UpgraderError
from upgrader.model.found_images import FoundImages
from upgrader.model.image_settings import ImageSettings
from upgrader.model.release import RECOVERED_RELEASE
from upgrader.ports import Clock, Kube
from upgrader.steps.images.image_pulls import ImagePulls, remove_pullers
from upgrader.steps.images.lacked_images import PulledImages, compare, lacking_nodes, pull
from upgrader.steps.images.node_images import KINDS, NodeNeeds
from upgrader.steps.images.planned_images import PlannedPods
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.release.plan import PlannedRelease
from upgrader.wait_and_retry import may_be_repeated, retry

__all__ = ["LaterPulls"]

_REQUESTS_AT_ONCE = 2
"""A kube-apiserver that is being replaced is asked for more important things."""
_CHECK_SECONDS = 1.0
_API_SECONDS = 60.0
_RETRY_SECONDS = 2.0
_END_SECONDS = 5.0
"""For the pods that are there: what is left, the next run deletes, and the kubelet ends."""


def _started(work: Callable[[], None]) -> Thread:
    """A thread that doesn't keep the process alive: a run that ends doesn't wait for an API that hangs."""
    thread = Thread(target=work, daemon=True, name="upgrader-images")
    thread.start()
    return thread


@dataclass
class LaterPulls:
    """`pipeline.Beside`: what is pulled while other steps are run, by a thread; and all of it, if that can't.

    The thread only makes it quicker. It emits nothing, and what fails there fails again in `complete`, where there is
    still time for it to pass.
    """

    needed_by: str
    """The name of the step behind kube-apiserver's."""
    steps: frozenset[str]
    """The names of that step and of those behind it: their pods' images may wait."""
    planned: tuple[PlannedPods, ...]
    kube: Kube
    clock: Clock
    settings: ImageSettings
    controllers: frozenset[str]
    """The names of their nodes: on these nothing waits."""
    start: Callable[[Callable[[], None]], Thread] = _started
    """Has work done by a thread."""
    _pulled: PulledImages = field(default_factory=PulledImages)
    _complete: bool = False
    """Whether all nodes are known to have all images; what another process knew of that isn't."""
    _stopped: Callable[[], bool] = lambda: False
    _ended: Event = field(default_factory=Event)
    _left_behind: Event = field(default_factory=Event)
    """Whether the pods that are still there are the next run's to remove."""
    _said: str = ""
    """How far the thread is."""
    _thread: Thread | None = None

    @classmethod
    def of(
        cls,
        plan: Plan,
        planned: tuple[PlannedPods, ...],
        kube: Kube,
        clock: Clock,
        settings: ImageSettings,
        controllers: frozenset[str],
    ) -> LaterPulls | None:
        """None where no later step needs any image, or kube-apiserver stays as it is: then nothing takes that time.

        None, too, where a playbook comes before kube-apiserver: it may drain nodes, on which no pod may be then that
        has no controller, or reboot them.
        """
        changed = {step.name for step in planned_of(plan, PlannedRelease) if step.action != "unchanged"}
        names = [step.name for step in plan.steps]
        if RECOVERED_RELEASE not in changed:
            return None
        number = names.index(RECOVERED_RELEASE)
        if any(isinstance(step, PlannedPlaybook) for step in plan.steps[:number]):
            return None
        behind = names[number + 1 :]
        if not {pods.step for pods in planned}.intersection(behind):
            return None
        return cls(behind[0], frozenset(behind), planned, kube, clock, settings, controllers)

    def divide(self, lacking: Iterable[NodeNeeds], at_once: int) -> tuple[list[NodeNeeds], list[NodeNeeds]]:
        """What is pulled first, and what may wait.

        First come the controllers, and of the workers as many as pull together: at least one of each architecture,
        operating system and container runtime, and of each set of workloads.
        """
        nodes = list(lacking)
        waiting = [needs for needs in nodes if needs.name not in self.controllers and self._later(needs).pods]
        kinds = {_kind(needs): needs.name for needs in reversed(waiting)}
        whole = dict.fromkeys((*kinds.values(), *(needs.name for needs in waiting)))
        first = set(list(whole)[: max(at_once, len(kinds))])
        later = [needs for needs in waiting if needs.name not in first]
        names = {needs.name for needs in later}
        now = [self._now(needs) if needs.name in names else needs for needs in nodes]
        return [needs for needs in now if needs.pods], [self._later(needs) for needs in later]

    def begin(self, lacking: list[NodeNeeds], at_once: int, pulled: PulledImages) -> None:
        """Have these nodes pull, beside what the caller does next. `pulled`: what was, and will be."""
        self._pulled, self._complete = pulled, not lacking
        if self._complete:
            return
        pulls = ImagePulls(
            self.kube,
            self.clock,
            self.settings,
            self._say,
            lambda: self._ended.is_set() or self._stopped(),
            self._left_behind.is_set,
            _REQUESTS_AT_ONCE,
        )

        def work() -> None:
            try:
                pull(pulls, lacking, at_once, pulled)
            except (UpgraderError, OSError):
                pass  # `complete` asks again
            except RuntimeError:
                if not self._ended.is_set():  # a process that ends makes no new threads, which requests are made by
                    raise

        self._thread = self.start(work)

    def complete(self, note: Callable[[str], None], check: Callable[[], None]) -> None:
        """See `pipeline.Beside`. Reads the nodes again: some may be new."""
        if self._complete:
            return
        if self._thread is not None and self._thread.is_alive():
            each = f"each has {self.settings.deadline_seconds:.0f} s for it (images.deadline)"
            note(f"waiting until the workers have the images of step {self.needed_by}: {each}")
            said = ""
            while self._thread.is_alive():
                check()
                self._thread.join(_CHECK_SECONDS)
                if self._said != said:
                    note(said := self._said)
        # kube-apiserver was replaced just now: one answer that is lost is no reason to take it back.
        what = "the API to say which images nodes lack"
        left, found = retry(
            self.clock, lambda: self._left(note, check), pause=_pause, seconds=_API_SECONDS, what=what, note=note
        )
        pulls = ImagePulls(self.kube, self.clock, self.settings, note, lambda: _interrupts(check))
        pull(pulls, left, self.settings.at_once(len(left)), self._pulled)
        check()  # it may have ended what was pulled
        self._pulled.tell(found)
        compare(found, lambda _: None)
        self._pulled, self._complete = PulledImages(), True  # of a thousand nodes, nothing of it is needed any more
        note("all images are on their nodes")

    def end_if(self, stopped: Callable[[], bool]) -> None:
        """See `pipeline.Beside`."""
        self._stopped = stopped

    def end(self, *, wait: bool) -> None:
        """See `pipeline.Beside`."""
        self._ended.set()
        if wait and self._thread is not None:
            self._thread.join(_END_SECONDS)
            self._left_behind.set()  # Python waits for requests at its end, and an API may answer none of a hundred

    def _say(self, text: str) -> None:
        self._said = text

    def _left(self, note: Callable[[str], None], check: Callable[[], None]) -> tuple[list[NodeNeeds], FoundImages]:
        check()  # without the lock, the pods are another process's
        remove_pullers(self.kube, note)
        found = FoundImages()
        planned = [pods for pods in self.planned if pods.step in self.steps]  # the pods of the others are there
        lacking = (self._pulled.left_of(needs) for needs in lacking_nodes(self.kube, planned, found, note))
        return [needs for needs in lacking if needs.pods], found

    def _now(self, needs: NodeNeeds) -> NodeNeeds:
        return NodeNeeds(needs.node, tuple(pods for pods in needs.pods if pods.step not in self.steps))

    def _later(self, needs: NodeNeeds) -> NodeNeeds:
        return NodeNeeds(needs.node, tuple(pods for pods in needs.pods if pods.step in self.steps))


def _pause(error: Exception) -> float | None:
    return _RETRY_SECONDS if may_be_repeated(error) else None


def _interrupts(check: Callable[[], None]) -> bool:
    """Whether it does, told without an exception: the pods are removed first."""
    try:
        check()
    except Interrupted:
        return True
    return False


def _kind(needs: NodeNeeds) -> tuple[Collection[str], ...]:
    info = needs.node["status"]["nodeInfo"]
    return (*(info[part] for part in KINDS), tuple(pods.workload for pods in needs.pods))
