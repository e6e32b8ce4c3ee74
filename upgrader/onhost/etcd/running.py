"""Whether etcd's container on this host has the image of its manifest, and whether its member is healthy with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import container_facts, etcd_facts
from upgrader.onhost.node.cri import ContainerStatus, Runtime, Sandbox

__all__ = ["Watch", "container", "of_same_image", "running_uid", "runs_image"]

_POLL_SECONDS = 0.25
_PORT_TAKEN = "address already in use"
"""An error with which a container may exit once: the previous pod's may still be running."""
_LOG_BYTES = 16384
_LINES = 5
_CHARACTERS = 400


def container(runtime: Runtime) -> ContainerStatus | None:
    """The newest container of etcd's static pod; None if there is none. Raises Failed or ValueError."""
    found = [each for pod in _pods(runtime) for each in pod.containers if each.name == "etcd"]
    newest = max(found, key=lambda each: each.created_at, default=None)
    return runtime.status(newest.id) if newest is not None else None


def of_same_image(runtime: Runtime, now: str, then: str) -> int:
    """When the newest container was created, in nanoseconds, if both names mean the same image; 0 otherwise, or
    unknown.

    That is the case after a move to another registry: a running container then doesn't prove that the kubelet has
    restarted it, and the next member would be stopped at the same time as this one.
    """
    try:
        first, second = runtime.image(now), runtime.image(then)
        found = container(runtime) if first and second and first.id == second.id else None
    except (Failed, ValueError):
        return 0
    return found.created_at if found is not None else 0


def running_uid(runtime: Runtime) -> str:
    """The UID of etcd's static pod; "" unless exactly one runs. Raises Failed or ValueError."""
    pods = [pod for pod in _pods(runtime) if any(each.running and each.name == "etcd" for each in pod.containers)]
    return pods[0].labels.get("io.kubernetes.pod.uid", "") if len(pods) == 1 else ""


def _pods(runtime: Runtime) -> list[Sandbox]:
    pods = (pod for pod in runtime.sandboxes() if pod.from_file and pod.namespace == "kube-system")
    return [pod for pod in pods if pod.name.startswith("etcd-")]


def runs_image(runtime: Runtime, status: ContainerStatus, image: str) -> bool:
    """Whether a container has the image that this name refers to on this node. Raises Failed or ValueError."""
    known = runtime.image(image)
    return known is not None and bool({status.image, status.image_ref} & {known.id, *known.digests})


@dataclass
class Watch:
    """Waits for a member to be healthy with an image. `version`: which it must report; "" for any. `ending`: when the
    container was created that the kubelet is about to restart; 0 if its image distinguishes it. `hurry`: called
    repeatedly until a container has the image.
    """

    runtime: Runtime
    image: str
    version: str
    root: str = ""
    ending: int = 0
    hurry: Callable[[], None] = lambda: None

    def wait(self, seconds: float, *, ends: bool = True) -> str:
        """Returns "", or the problem once `seconds` have passed. `ends`: also as soon as its container has exited with
        an error.
        """
        until = time.monotonic() + seconds
        ended: set[int] = set()
        excused: set[int] = set()
        while True:
            missing, status = self._missing()
            if not missing:
                return ""
            if status is None:
                self.hurry()
            elif status.state == "exited" and status.exit_code:
                ended.add(status.created_at)
                if _PORT_TAKEN in missing and not excused:
                    excused.add(status.created_at)
            if ends and ended - excused:
                return missing
            if time.monotonic() >= until:
                return f"waited {seconds:.0f} s: {missing}"
            time.sleep(_POLL_SECONDS)

    def _missing(self) -> tuple[str, ContainerStatus | None]:
        """The unmet condition, and the container that has the image."""
        try:
            found = container(self.runtime)
            old = found is not None and found.created_at == self.ending
            if found is None or old or not runs_image(self.runtime, found, self.image):
                absent = self.runtime.image(self.image) is None
                why = "the image is not on this node" if absent else "the kubelet has not started it yet"
                return f"no container of {self.image} runs: {why}", None
        except (Failed, ValueError) as error:
            return f"the container runtime does not answer: {error}", None
        if found.state != "running":
            return f"its container {self._ended(found)}", found
        return self._unhealthy(), found

    def _unhealthy(self) -> str:
        try:
            server = etcd_facts.server(self.root, [])
        except (Failed, OSError, ValueError) as error:
            return f"etcd doesn't answer: {error}"
        if self.version and server["version"] and server["version"] != self.version:
            return f"etcd reports version {server['version']}, but the image should have {self.version}"
        return "" if server["healthy"] else f"etcd is not healthy: {server['said']}"

    def _ended(self, status: ContainerStatus) -> str:
        said = " ".join(part for part in (status.reason, status.message[:_CHARACTERS]) if part)
        lines = [line for line in container_facts.logged(self.root + status.log, _LOG_BYTES) if line.strip()]
        text = f"is {status.state}" + (f" with code {status.exit_code}" if status.state == "exited" else "")
        text += f" ({said})" if said else ""
        shown = [line[:_CHARACTERS] for line in lines[-_LINES:]]
        return text + ("; it wrote last:\n" + "\n".join(shown) if shown else "")
