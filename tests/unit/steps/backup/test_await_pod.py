"""What a static pod on a controller says when it has failed."""

from __future__ import annotations

from pathlib import Path

from upgrader.onhost.backup.await_pod import wait
from upgrader.onhost.node.cri import Container, ContainerStatus, Runtime, Sandbox


class OnePod(Runtime):
    """A runtime with a pod whose only container has ended, and has such a log."""

    def __init__(self, log: Path) -> None:
        super().__init__(lambda method, request: b"")
        object.__setattr__(self, "log", log)

    def sandboxes(self) -> list[Sandbox]:
        container = Container("c", "s", "restore", "exited", 0)
        return [Sandbox("s", "kube-system", "upgrader-etcd-controller-1", False, True, {}, (container,))]

    def status(self, container: str) -> ContainerStatus:
        log = str(self.log)  # type: ignore[attr-defined]
        return ContainerStatus("restore", 0, "exited", "etcd", 0, 0, 0, 1, "Error", "", log)


def test_a_failure_is_told_by_the_last_that_was_written(tmp_path: Path) -> None:
    """A tool that talks a lot says at its end why it failed; a log of megabytes doesn't hide that."""
    log = tmp_path / "0.log"
    lines = [f"2026-11-23T12:00:00Z stderr F restoring {number:06}" for number in range(5000)]
    log.write_text("\n".join([*lines, "2026-11-23T12:00:01Z stderr F no space left on device"]) + "\n")
    answer = wait(OnePod(log), "upgrader-etcd", "etcd", 1.0)
    assert answer["failed"].endswith("no space left on device")
