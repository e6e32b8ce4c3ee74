"""Queries of the container runtime (CRI, runtime.v1), over any transport.

While the API is unreachable the kubelet's own /pods can't be used: it authorizes callers through the API. `crictl` is
missing on many hosts, and `ctr` supports neither exit codes nor runtimes other than containerd. Field numbers are those
of k8s.io/cri-api, pkg/apis/runtime/v1/api.proto.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from upgrader.contract.checkpoints import GENERATION
from upgrader.onhost.node.protobuf import Message, encode

if TYPE_CHECKING:
    from collections.abc import Callable

_RUNTIME, _IMAGES = "/runtime.v1.RuntimeService/", "/runtime.v1.ImageService/"
_STATES = ("created", "running", "exited", "unknown")
_SANDBOX_READY = 0
_NUMBER = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Container:
    """A container, past or present. `state`: created, running, exited or unknown. `created_at`: nanoseconds."""

    id: str
    sandbox: str
    name: str
    state: str
    created_at: int

    @property
    def running(self) -> bool:
        """Whether it runs, according to the runtime."""
        return self.state == "running"


@dataclass(frozen=True)
class Sandbox:
    """A pod's sandbox, past or present. `from_file`: the kubelet read the pod from a static manifest.
    `generation`: the one that the pod's annotation names; None without such an annotation.
    """

    id: str
    namespace: str
    name: str
    ready: bool
    from_file: bool
    labels: Mapping[str, str]
    containers: tuple[Container, ...] = ()
    generation: int | None = None


@dataclass(frozen=True)
class ContainerStatus:
    """All recorded data of a container. Times in nanoseconds, 0 for never; `log`: path of its log file. `image_ref`:
    the ID, or a digest, of its actual image.
    """

    name: str
    attempt: int
    state: str
    image: str
    created_at: int
    started_at: int
    finished_at: int
    exit_code: int
    reason: str
    message: str
    log: str
    image_ref: str = ""


@dataclass(frozen=True)
class Image:
    """An image on the node; `digests`: its digests in repositories."""

    id: str
    digests: tuple[str, ...]


@dataclass(frozen=True)
class Runtime:
    """The queries. `call`: (method, request) → the response's message. Each raises the exceptions of `call`, and
    ValueError on a damaged message.
    """

    call: Callable[[str, bytes], bytes]

    def version(self) -> str:
        """Name and version."""
        answer = Message(self.call(_RUNTIME + "Version", b""))
        return f"{answer.text(2)} {answer.text(3)}"

    def sandboxes(self) -> list[Sandbox]:
        """All sandboxes with their containers; never a partial list."""
        # Containers first: a pod that starts between the calls then shows a ready sandbox, not a container without one.
        containers = self.call(_RUNTIME + "ListContainers", b"")
        return decode(self.call(_RUNTIME + "ListPodSandbox", b""), containers)

    def status(self, container: str) -> ContainerStatus:
        """A container, by its ID."""
        found = Message(self.call(_RUNTIME + "ContainerStatus", encode(1, container))).message(1)
        return ContainerStatus(
            name=found.message(2).text(1),
            attempt=found.message(2).integer(2),
            state=_state(found.integer(3)),
            image=found.message(8).text(1),
            created_at=found.integer(4),
            started_at=found.integer(5),
            finished_at=found.integer(6),
            exit_code=found.integer(7),
            reason=found.text(10, errors="replace"),
            message=found.text(11, errors="replace"),
            log=found.text(15),
            image_ref=found.text(9),
        )

    def stop(self, sandbox: str) -> None:
        """Stop a sandbox, by its ID, and whatever runs in it, without a grace period."""
        self.call(_RUNTIME + "StopPodSandbox", encode(1, sandbox))

    def image(self, name: str) -> Image | None:
        """An image, by its name in a pod, or by its digest; None if the node doesn't have it. The kubelet makes the
        same query before it starts a container.
        """
        answer = Message(self.call(_IMAGES + "ImageStatus", encode(1, encode(1, name))))
        found = answer.message(1)
        return Image(found.text(1), tuple(found.texts(3))) if 1 in answer else None


def decode(sandboxes: bytes, containers: bytes) -> list[Sandbox]:
    """The two lists, put together. Raises ValueError on a damaged message."""
    by_sandbox: dict[str, list[Container]] = defaultdict(list)
    for found in Message(containers).messages(1):
        name, state = found.message(3).text(1), _state(found.integer(6))
        container = Container(found.text(1), found.text(2), name, state, found.integer(7))
        by_sandbox[container.sandbox].append(container)
    return [_sandbox(found, by_sandbox) for found in Message(sandboxes).messages(1)]


def _state(number: int) -> str:
    return _STATES[number] if 0 <= number < len(_STATES) else "unknown"


def _sandbox(found: Message, containers: Mapping[str, list[Container]]) -> Sandbox:
    annotations, metadata = found.map(6), found.message(2)
    made_of = annotations.get(GENERATION, "")
    return Sandbox(
        id=found.text(1),
        name=metadata.text(1),
        namespace=metadata.text(3),
        ready=found.integer(3) == _SANDBOX_READY,
        from_file=annotations.get("kubernetes.io/config.source") == "file",
        labels=found.map(5),
        containers=tuple(containers.get(found.text(1), ())),
        generation=int(made_of) if _NUMBER.fullmatch(made_of) else None,
    )
