"""Has nodes pull images, some nodes at a time, and waits for each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TypeVar

from upgrader.errors import ApiError, ApiUnavailable, StepFailed
from upgrader.model.first_few import first_few
from upgrader.model.image_settings import ImageSettings
from upgrader.ports import Clock, Kind, Kube, KubeObject
from upgrader.steps.images.node_images import not_ready
from upgrader.steps.images.puller_pod import (
    LABELS,
    ImageStatus,
    PullerPod,
    has_no_place,
    image_statuses,
    manifest,
    new_name,
    refusal,
)
from upgrader.wait_and_retry import may_be_repeated, retry

__all__ = ["ImagePulls", "remove_pullers"]

PODS = Kind("v1", "pods")
_NODES = Kind("v1", "nodes", namespaced=False)
_EVENTS = Kind("v1", "events")
_SELECTOR = ",".join(f"{key}={value}" for key, value in LABELS.items())

_POLL_SECONDS = 1.0
"""From an answer to the next question, whatever is created and removed between them."""
_REQUESTS_AT_ONCE = 8
"""Of a hundred nodes that pull together, one after the other would wait longer for its pod than for a small image."""
_LEFT_BEHIND_SECONDS = 60.0
"""How much longer than the step waits a pod may live: a kubelet that ended it first would hide what it waited for."""
_RETRY_SECONDS = 2.0
_NOTE_SECONDS = 15.0
_GIVE_UP_SECONDS = 60.0
"""How long a pull may fail before it counts as failed: by then the kubelet has tried it three times.

So long an API that answers may refuse a pod for what may pass, too."""

_PULL_REMEDY = (
    "Check the image's name, the registry, the node's connection to it and its credentials (imagePullSecrets). If the "
    "nodes get their images in another way, set images.pull: false in upgrader.yaml. Then run the same command again."
)
_ADMISSION_REMEDY = (
    "Allow the pod: it meets Pod Security level `restricted`, unless the workload itself uses hostNetwork, requests "
    "1m CPU and 8Mi, and tolerates all taints. Or set images.pull: false in upgrader.yaml."
)
_NODE_REMEDY = (
    "Check the node (kubectl describe node), its kubelet and its connection to the registry; if it is only slow, "
    "raise images.deadline in upgrader.yaml. Then run the same command again."
)

_T = TypeVar("_T")


@dataclass
class _NodePull:
    """A node that is pulling."""

    node: str
    pods: tuple[PullerPod, ...]
    begun: float
    failing_since: dict[tuple[str, str], float] = field(default_factory=dict)
    """(Pod, image) → when its pull was first seen to fail."""
    last: dict[tuple[str, str], ImageStatus] = field(default_factory=dict)
    skipped: str = ""
    """Why the node is asked no more, which says nothing of its images; "" while it is asked."""
    again: bool = False
    """Whether a pod of it was deleted before: an autoscaler may drain the node once; twice, it was something else."""
    deleted: str = ""
    """Which pod was deleted; "": none."""

    def missing(self) -> list[ImageStatus]:
        """What is not there yet."""
        return [status for status in self.last.values() if status.state != "there"]


@dataclass(frozen=True)
class ImagePulls:
    """Not all nodes at once: a registry and its network are shared."""

    kube: Kube
    clock: Clock
    settings: ImageSettings
    note: Callable[[str], None]
    ended: Callable[[], bool] = lambda: False
    """Whether the nodes that haven't pulled yet are not to be asked any more."""
    left_behind: Callable[[], bool] = lambda: False
    """Whether the pods that are still there are left for `remove_pullers`: nothing waits for this any more."""
    requests_at_once: int = _REQUESTS_AT_ONCE

    def run(
        self,
        nodes: Mapping[str, tuple[PullerPod, ...]],
        at_once: int,
        found: Callable[[str, Collection[ImageStatus]], None],
    ) -> None:
        """Calls `found` with the name of each node that has its images, and what it says of each. Raises StepFailed
        when one can't be pulled.

        `at_once`: how many nodes pull at the same time. A node that goes away meanwhile, or has no place for the pod,
        is noted, and says nothing. Leaves no pod behind, but where the API doesn't answer: `remove_pullers` finds it.
        """
        waiting, active, again = list(nodes.items())[::-1], dict[str, _NodePull](), set[str]()
        noted = looked = self.clock.monotonic()
        try:
            while (waiting or active) and not self.ended():
                begun = []
                while waiting and len(active) < at_once:
                    node, pods = waiting.pop()
                    active[node] = _NodePull(node, pods, self.clock.monotonic(), again=node in again)
                    begun.append(active[node])
                self._create(begun)
                if self.ended():
                    break  # pods that were not created have not been deleted by others
                # To remove the pods of many nodes, and create the next ones, may have taken as long.
                self.clock.sleep(max(0.0, looked + _POLL_SECONDS - self.clock.monotonic()))
                read = self._read(active)
                looked = self.clock.monotonic()
                deleted = [pull for pull in active.values() if pull.deleted and not pull.skipped]
                self._end(deleted, active)
                for pull in deleted:
                    self.note(f"{pull.deleted}: it is created again")
                    again.add(pull.node)
                    # Last of all: by then its node may be gone, or another one.
                    waiting.insert(0, (pull.node, tuple(replace(pod, name=new_name()) for pod in pull.pods)))
                ended = [pull for pull in active.values() if not pull.missing() and pull.last]
                for pull in ended:
                    found(pull.node, pull.last.values())
                self._end(ended, active)
                self._fail_late(active, read=read)
                skipped = [pull for pull in active.values() if pull.skipped]
                for pull in skipped:
                    self.note(f"{pull.node} {pull.skipped}: it pulls its images when its pods start")
                self._end(skipped, active)
                if active and self.clock.monotonic() - noted >= _NOTE_SECONDS:
                    noted = self.clock.monotonic()
                    self.note(_progress(len(nodes) - len(waiting) - len(active), len(nodes), active.values()))
        finally:
            self._end(list(active.values()), active)

    def _create(self, pulls: list[_NodePull]) -> None:
        """Those of many nodes together; what doesn't succeed at once is tried again one after the other."""
        seconds = self.settings.deadline_seconds + _LEFT_BEHIND_SECONDS
        pods = [pod for pull in pulls for pod in pull.pods]
        failing = _failing(pods, lambda pod: self._create_one(pod, seconds), self.requests_at_once)
        again = {pod.name for pod, _ in failing}
        for pull in pulls:
            if left := [pod for pod in pull.pods if pod.name in again]:
                pull.begun = self.clock.monotonic()
                self._create_patiently(left, seconds)

    def _create_patiently(self, pods: Iterable[PullerPod], seconds: float) -> None:
        begun = self.clock.monotonic()

        def pause(error: Exception) -> float | None:
            lasts = not isinstance(error, ApiUnavailable) and self.clock.monotonic() - begun >= _GIVE_UP_SECONDS
            return _RETRY_SECONDS if may_be_repeated(error) and not lasts and not self.ended() else None

        for pod in pods:
            try:
                retry(
                    self.clock,
                    lambda pod=pod: self._create_one(pod, seconds),  # type: ignore[misc]
                    pause=pause,
                    seconds=seconds,
                    what=f"the API to accept a pod that pulls images on {pod.node}",
                    note=self.note,
                )
            except ApiError as error:
                what = f"no pod could be created in namespace {pod.namespace} to pull images on {pod.node}"
                raise StepFailed(f"{what}: {error.message}", remedy=_ADMISSION_REMEDY) from error

    def _create_one(self, pod: PullerPod, seconds: float) -> None:
        if self.ended():
            return  # a hundred requests take a while
        try:
            self.kube.create(PODS, manifest(pod, seconds=seconds), pod.namespace)
        except ApiError as error:
            # Created by an attempt whose answer was lost; or a quota's count was changed by somebody else just now.
            if error.status != HTTPStatus.CONFLICT or self.kube.get(PODS, pod.name, pod.namespace) is None:
                raise

    def _read(self, active: Mapping[str, _NodePull]) -> bool:
        """Read all pods; an API that doesn't answer is waited for as long as the nodes are. Whether it did."""
        try:
            found = {
                item["metadata"]["name"]: item
                for namespace in sorted({pod.namespace for pull in active.values() for pod in pull.pods})
                for item in self.kube.list(PODS, namespace, labels=_SELECTOR)
            }
        except ApiError as error:
            if may_be_repeated(error):
                return False
            raise
        for pull in active.values():
            for pod in pull.pods:
                self._judge(pull, pod, found.get(pod.name))
        return True

    def _judge(self, pull: _NodePull, pod: PullerPod, found: KubeObject | None) -> None:
        if found is None:
            pull.skipped = pull.skipped or self._gone(pull.node)
            if pull.skipped:
                return
            what = f"pod {pod.namespace}/{pod.name} was deleted before {pod.node} had pulled its images"
            if not pull.again:
                pull.deleted = what
                return
            raise StepFailed(
                what, remedy="Find out who deleted it (the API's audit log), and run the same command again."
            )
        now = self.clock.monotonic()
        for status in image_statuses(pod, found):
            key = pod.name, status.image
            before = pull.last.get(key)
            if status.state == "failing":
                pull.failing_since.setdefault(key, now)
                # "Back-off pulling image" says less than the error before it.
                if before is not None and before.state == "failing" and "ImagePullBackOff" in status.message:
                    status = before
            elif status.state == "there":
                pull.failing_since.pop(key, None)
            pull.last[key] = status
        refused = refusal(found)
        if refused and any(pull.last[pod.name, image.name].state != "there" for image in pod.images):
            if has_no_place(found):
                pull.skipped = f"has no room for a pod that pulls images ({refused})"
                return
            raise StepFailed(f"{pod.node} rejected the pod that pulls images: {refused}", remedy=_NODE_REMEDY)

    def _fail_late(self, active: Mapping[str, _NodePull], *, read: bool) -> None:
        """Raise StepFailed for the first pull that has failed, or is over its deadline.

        What failed when the API last answered (not `read`) may be there by now.
        """
        now = self.clock.monotonic()
        for pull in active.values():
            if pull.skipped:
                continue
            for (pod, image), status in pull.last.items():
                failing = now - pull.failing_since.get((pod, image), now)
                given_up = status.state == "failing" and failing >= _GIVE_UP_SECONDS and read
                if status.state == "failed" or given_up:
                    raise self._failed(pull, pod, status, active)
            if now - pull.begun >= self.settings.deadline_seconds:
                pull.skipped = self._gone(pull.node)
                if not pull.skipped:
                    raise self._overdue(pull)

    def _gone(self, name: str) -> str:
        """What became of a node that no longer does anything, such as one that an autoscaler removes; "" if nothing."""
        try:
            node = self.kube.get(_NODES, name)
        except ApiError:
            return ""  # not known
        if node is None:
            return "was removed"
        return "is no longer Ready" if not_ready(node) else ""

    def _failed(self, pull: _NodePull, pod: str, status: ImageStatus, active: Mapping[str, _NodePull]) -> StepFailed:
        others = sorted(
            other.node
            for other in active.values()
            if other is not pull
            and any(each.image == status.image and each.state != "there" for each in other.missing())
        )
        also = f"\nThe image isn't on {first_few(others)} yet, either." if others else ""
        text = f"{pull.node} can't pull {status.image}: {status.message}"
        return StepFailed(f"{text}{also}{self._warnings(pull, pod)}", remedy=_PULL_REMEDY)

    def _overdue(self, pull: _NodePull) -> StepFailed:
        missing = pull.missing()
        names = ", ".join(dict.fromkeys(status.image for status in missing)) or "its images"
        last = next((status.message for status in missing if status.message), "its kubelet has not reported any status")
        within = f"within {self.settings.deadline_seconds:.0f} s"
        pod = pull.pods[0].name
        text = f"{pull.node} has not pulled {names} {within}: {last}{self._warnings(pull, pod)}"
        return StepFailed(text, remedy=_NODE_REMEDY)

    def _warnings(self, pull: _NodePull, pod: str) -> str:
        """Warnings about a pod, as lines: they may say what its status doesn't, such as a missing Secret."""
        namespace = next(each.namespace for each in pull.pods if each.name == pod)
        try:
            events = self.kube.list(_EVENTS, namespace, fields=f"involvedObject.name={pod}")
        except ApiError:
            return ""  # the failure itself has been said
        texts = dict.fromkeys(str(item.get("message")) for item in events if item.get("type") == "Warning")
        return "".join(f"\n  {text}" for text in list(texts)[-3:])

    def _end(self, pulls: list[_NodePull], active: dict[str, _NodePull]) -> None:
        """Remove the pods of these nodes, and wait for them no more."""
        pods = [(pod.namespace, pod.name) for pull in pulls for pod in pull.pods]
        _remove(self.kube, pods, self.note, self.requests_at_once, self.left_behind)
        for pull in pulls:
            del active[pull.node]


def remove_pullers(kube: Kube, note: Callable[[str], None]) -> None:
    """Remove what an interrupted run left; what can't be removed is noted. Raises ApiError."""
    left = (item["metadata"] for item in kube.list(PODS, labels=_SELECTOR))
    _remove(kube, [(each["namespace"], each["name"]) for each in left], note)


def _remove(
    kube: Kube,
    pods: Sequence[tuple[str, str]],
    note: Callable[[str], None],
    at_once: int = _REQUESTS_AT_ONCE,
    left_behind: Callable[[], bool] = lambda: False,
) -> None:
    """Each (namespace, name)."""

    def delete(pod: tuple[str, str]) -> None:
        if not left_behind():
            kube.delete(PODS, pod[1], pod[0])

    for (namespace, name), error in _failing(pods, delete, at_once):
        note(f"pod {namespace}/{name} could not be deleted; the next run deletes it: {error.message}")


def _failing(items: Sequence[_T], request: Callable[[_T], None], at_once: int) -> list[tuple[_T, ApiError]]:
    """Make one request for each item, a few at a time; those that were not answered, or refused, and why."""

    def failure(item: _T) -> ApiError | None:
        try:
            request(item)
        except ApiError as error:
            return error
        return None

    if not items:
        return []
    with ThreadPoolExecutor(min(at_once, len(items))) as pool:
        return [(item, error) for item, error in zip(items, pool.map(failure, items), strict=True) if error]


def _progress(done: int, all_of_them: int, active: Iterable[_NodePull]) -> str:
    now = [f"{pull.node} ({len(pull.missing()) or 'all'} to go)" for pull in active]
    return f"{done} of {all_of_them} nodes have their images; pulling on {first_few(now)}"
