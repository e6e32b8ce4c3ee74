"""`--wait`: what is starting on the controllers, as after a boot, gets time before anything is judged."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from upgrader.app.front_end import FrontEnd
from upgrader.app.wiring import open_session
from upgrader.errors import ApiError, CredentialsRefused
from upgrader.gates.critical_workloads import critical_pods_on
from upgrader.gates.pod_faults import Fault, pod_fault
from upgrader.model.cluster import Cluster
from upgrader.model.first_few import first_few
from upgrader.model.time_text import duration
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock, Kube
from upgrader.wait_and_retry import wait_until

__all__ = ["await_start", "wait_for_start"]

_POLL_SECONDS = 2.0


def wait_for_start(folder: Path, target: KubernetesVersion | None, seconds: float, front_end: FrontEnd) -> None:
    """Wait until every critical pod on the controllers is Ready, or waiting doesn't help, at most for so long.

    Changes nothing, and holds no lock. What isn't Ready then is what the checks find.
    """
    with front_end.busy(), open_session(folder, target) as session:
        await_start(session.tools.kube, session.tools.clock, session.cluster, seconds, front_end)


def await_start(kube: Kube, clock: Clock, cluster: Cluster, seconds: float, front_end: FrontEnd) -> None:
    """The same with these tools."""
    deadline = clock.monotonic() + seconds
    said = False

    def missing() -> str:
        nonlocal said
        try:
            starting = _starting(kube, cluster)
        except CredentialsRefused:
            return ""  # time gives no rights: what is asked next says so
        except ApiError as error:
            starting = error.message or "the API server gave no reason"
        if starting and not said:
            said = True
            front_end.notify(f"Waiting up to {duration(seconds)} (--timeout) for what is not Ready yet: {starting}")
        if starting:
            left = duration(max(0.0, deadline - clock.monotonic()))
            front_end.doing(f"waiting {left} more for what is not Ready yet: {starting}")
        return starting

    still = wait_until(clock, missing, seconds=seconds, interval_seconds=_POLL_SECONDS)
    if still:
        front_end.notify(f"Not Ready after {duration(seconds)}: {still}")


def _starting(kube: Kube, cluster: Cluster) -> str:
    """The pods that time may help; "" where there are none. Those that fail again and again are not waited for alone:
    they may only need what is starting beside them. Raises ApiError.
    """
    pods = (pod for host in cluster.controllers for pod in critical_pods_on(kube, host.name))
    faults = [fault for pod in pods if (fault := pod_fault(pod)) is not None]
    return "" if all(fault.broken for fault in faults) else first_few(_told(faults))


def _told(faults: Iterable[Fault]) -> list[str]:
    return [f"{fault.pod.name} on {fault.pod.node}" for fault in faults]
