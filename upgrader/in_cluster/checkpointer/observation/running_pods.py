"""What runs on this node, as its container runtime reports it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from upgrader.contract.checkpoints import CHECKPOINT_OF
from upgrader.in_cluster.checkpointer.checkpointer_errors import RuntimeUnknown
from upgrader.in_cluster.checkpointer.observation.grpc import Channel, GrpcError
from upgrader.in_cluster.checkpointer.observed_values import Presence
from upgrader.in_cluster.checkpointer.static_pods.pods import belongs
from upgrader.onhost.node.cri import Runtime, Sandbox
from upgrader.onhost.node.workload_policy import Workload

T = TypeVar("T")


def list_sandboxes(socket_path: str, timeout_seconds: float) -> list[Sandbox]:
    """All sandboxes with their containers. Raises RuntimeUnknown; never a partial list."""
    return _ask(socket_path, timeout_seconds, "its pods", Runtime.sandboxes)


def image_ids(socket_path: str, timeout_seconds: float, images: Iterable[str]) -> dict[str, str]:
    """Name → ID of those images that the node has. Raises RuntimeUnknown."""
    wanted = sorted(set(images))

    def ids(runtime: Runtime) -> dict[str, str]:
        return {name: found.id for name in wanted if (found := runtime.image(name)) is not None}

    return _ask(socket_path, timeout_seconds, "its images", ids)


def images_present(socket_path: str, timeout_seconds: float, images: Iterable[str]) -> dict[str, bool]:
    """Which images the node has, by the names that pods call them. Raises RuntimeUnknown."""
    wanted = sorted(set(images))
    return _ask(
        socket_path,
        timeout_seconds,
        "its images",
        lambda r: {name: r.image(name) is not None for name in wanted},
    )


def _ask(socket_path: str, timeout_seconds: float, what: str, question: Callable[[Runtime], T]) -> T:
    try:
        with Channel(socket_path, timeout_seconds) as channel:
            return question(Runtime(channel.call))
    except (GrpcError, ValueError) as error:
        raise RuntimeUnknown(f"the container runtime doesn't report {what}: {error}") from error


def presence(workload: Workload, expected: Iterable[str], sandboxes: Iterable[Sandbox]) -> Presence:
    """What of a workload's own pods runs. `expected`: the containers that must all run for a pod to be up."""
    own = (s for s in sandboxes if not s.from_file and belongs(workload, s.namespace, s.name, s.labels))
    return _presence(set(expected), own)


def standby_presence(
    workload: Workload, number: int, expected: Iterable[str], sandboxes: Iterable[Sandbox]
) -> Presence:
    """What of our standby pod of a workload runs, of that generation only. `expected`: as for `presence`."""
    standbys = (
        s
        for s in sandboxes
        if s.namespace == workload.namespace and s.labels.get(CHECKPOINT_OF) == workload.name and s.generation == number
    )
    return _presence(set(expected), standbys)


def instances(workload: Workload, sandboxes: Iterable[Sandbox]) -> int:
    """How many pods of a workload run on this node, its standby pod included."""
    return sum(
        any(c.running for c in s.containers)
        and (
            belongs(workload, s.namespace, s.name, s.labels)
            or (s.namespace == workload.namespace and s.labels.get(CHECKPOINT_OF) == workload.name)
        )
        for s in sandboxes
    )


def _presence(names: set[str], sandboxes: Iterable[Sandbox]) -> Presence:
    running: set[str] = set()
    up: set[str] = set()
    ready = unknown = False
    for sandbox in sandboxes:
        ready = ready or sandbox.ready
        here = {c.name: c.id for c in sandbox.containers if c.running}
        # A container of unknown state in a dead sandbox is a remnant of a power cut; in a living one it might run.
        unknown = unknown or (sandbox.ready and any(c.state == "unknown" for c in sandbox.containers))
        running.update(here.values())
        if sandbox.ready and names and names <= here.keys():
            up.update(here[name] for name in names)
    return Presence(running=frozenset(running), up=frozenset(up), sandbox=ready, unknown=unknown)
