"""What runs on this node, from the container runtime itself (CRI, runtime.v1).

While the API is away the kubelet's own /pods can't be asked: it authorises callers through the API. Field numbers are
those of k8s.io/cri-api, pkg/apis/runtime/v1/api.proto.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from upgrader.checkpointer.errors import RuntimeUnknown
from upgrader.checkpointer.grpc import Channel, GrpcError
from upgrader.checkpointer.model import Presence
from upgrader.checkpointer.pods import belongs
from upgrader.checkpointer.protobuf import encode, fields
from upgrader.node.names import CHECKPOINT_OF, GENERATION
from upgrader.node.workload import Workload

_SERVICE = "/runtime.v1.RuntimeService/"
_IMAGE_STATUS = "/runtime.v1.ImageService/ImageStatus"
_SANDBOX_READY = 0
_RUNNING, _UNKNOWN = 1, 3


@dataclass(frozen=True)
class Container:
    """A container, past or present. ``state``: CRI's ContainerState. ``created_at``: nanoseconds."""

    id: str
    sandbox: str
    name: str
    state: int
    created_at: int

    @property
    def running(self) -> bool:
        """Whether the runtime says that it runs."""
        return self.state == _RUNNING


@dataclass(frozen=True)
class Sandbox:
    """A pod's sandbox, past or present. ``from_file``: the kubelet read the pod from a static manifest.
    ``generation``: of which the pod says that it was made; None where it says nothing of the kind.
    """

    id: str
    namespace: str
    name: str
    ready: bool
    from_file: bool
    labels: Mapping[str, str]
    containers: tuple[Container, ...] = field(default=())
    generation: int | None = None


def list_sandboxes(socket_path: str, timeout: float) -> list[Sandbox]:
    """All sandboxes with their containers. Raises RuntimeUnknown; never a partial list."""
    try:
        with Channel(socket_path, timeout) as channel:
            # Containers first: a pod that starts between the calls then shows a ready sandbox, not a container without
            # one.
            containers = channel.call(_SERVICE + "ListContainers", b"")
            sandboxes = channel.call(_SERVICE + "ListPodSandbox", b"")
        return decode(sandboxes, containers)
    except (GrpcError, ValueError) as error:
        raise RuntimeUnknown(f"the container runtime can't be asked what runs: {error}") from error


def images_present(socket_path: str, timeout: float, images: Iterable[str]) -> dict[str, bool]:
    """Which images the node has, by the names that pods call them: the very question that the kubelet asks before it
    starts a container. Raises RuntimeUnknown.
    """
    try:
        with Channel(socket_path, timeout) as channel:
            found = {image: channel.call(_IMAGE_STATUS, _image_request(image)) for image in sorted(set(images))}
        return {image: any(number == 1 for number, _ in fields(answer)) for image, answer in found.items()}
    except (GrpcError, ValueError) as error:
        raise RuntimeUnknown(f"the container runtime can't be asked which images it has: {error}") from error


def _image_request(image: str) -> bytes:
    return encode(1, encode(1, image.encode()))


def decode(sandboxes: bytes, containers: bytes) -> list[Sandbox]:
    """The two responses, put together. Raises ValueError on a damaged message."""
    by_sandbox: dict[str, list[Container]] = defaultdict(list)
    for number, value in fields(containers):
        if number == 1:
            container = _container(_bytes(value))
            by_sandbox[container.sandbox].append(container)
    return [_sandbox(_bytes(value), by_sandbox) for number, value in fields(sandboxes) if number == 1]


def presence(workload: Workload, expected: Iterable[str], sandboxes: Iterable[Sandbox]) -> Presence:
    """What of a workload's own pods runs. ``expected``: the containers that must all run for a pod to be up."""
    own = (s for s in sandboxes if not s.from_file and belongs(workload, s.namespace, s.name, s.labels))
    return _presence(set(expected), own)


def copy_presence(workload: Workload, number: int, expected: Iterable[str], sandboxes: Iterable[Sandbox]) -> Presence:
    """What of our copy of a workload runs, of that generation only. ``expected``: as for ``presence``."""
    copies = (
        s
        for s in sandboxes
        if s.namespace == workload.namespace and s.labels.get(CHECKPOINT_OF) == workload.name and s.generation == number
    )
    return _presence(set(expected), copies)


def _presence(names: set[str], sandboxes: Iterable[Sandbox]) -> Presence:
    running: set[str] = set()
    up: set[str] = set()
    ready = unknown = False
    for sandbox in sandboxes:
        ready = ready or sandbox.ready
        here = {c.name: c.id for c in sandbox.containers if c.running}
        # A container of unknown state in a dead sandbox is what a power cut leaves behind; in a living one it might
        # run.
        unknown = unknown or (sandbox.ready and any(c.state == _UNKNOWN for c in sandbox.containers))
        running.update(here.values())
        if sandbox.ready and names and names <= here.keys():
            up.update(here[name] for name in names)
    return Presence(running=frozenset(running), up=frozenset(up), sandbox=ready, unknown=unknown)


def _container(data: bytes) -> Container:
    found: dict[int, int | bytes] = dict(fields(data))
    metadata = dict(fields(_bytes(found.get(3, b""))))
    return Container(
        id=_text(found.get(1, b"")),
        sandbox=_text(found.get(2, b"")),
        name=_text(metadata.get(1, b"")),
        state=_int(found.get(6, 0)),
        created_at=_int(found.get(7, 0)),
    )


def _sandbox(data: bytes, containers: Mapping[str, list[Container]]) -> Sandbox:
    found: dict[int, int | bytes] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    for number, value in fields(data):
        if number in (5, 6):
            entry = dict(fields(_bytes(value)))
            (labels if number == 5 else annotations)[_text(entry.get(1, b""))] = _text(entry.get(2, b""))
        else:
            found[number] = value
    metadata = dict(fields(_bytes(found.get(2, b""))))
    identity = _text(found.get(1, b""))
    return Sandbox(
        id=identity,
        name=_text(metadata.get(1, b"")),
        namespace=_text(metadata.get(3, b"")),
        ready=_int(found.get(3, 0)) == _SANDBOX_READY,
        from_file=annotations.get("kubernetes.io/config.source") == "file",
        labels=labels,
        containers=tuple(containers.get(identity, ())),
        generation=int(made_of) if (made_of := annotations.get(GENERATION, "")).isdigit() else None,
    )


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where a message was expected")
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()


def _int(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("a message where a number was expected")
    return value
