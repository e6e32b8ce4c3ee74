"""`--wait`: what is starting on the controllers, as after a boot, gets time before anything is judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from upgrader.app.front_end import FrontEnd
from upgrader.app.wiring import open_session
from upgrader.errors import ApiError, CredentialsRefused
from upgrader.gates.critical_workloads import critical_pods_on
from upgrader.gates.kubernetes_kinds import LEASES
from upgrader.gates.node_health import HEARTBEATS
from upgrader.gates.pod_faults import Fault, pod_fault
from upgrader.model.cluster import Cluster
from upgrader.model.first_few import first_few
from upgrader.model.time_text import duration
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Clock, Kube
from upgrader.wait_and_retry import wait_until

__all__ = ["await_start", "wait_for_start"]

_POLL_SECONDS = 2.0
_RENEWALS = 2
"""So often a kubelet has to renew its Lease, each 10 s, before its node's pods are believed: after a boot it does so at
once, and reports its pods within seconds.
"""
_USUAL_SECONDS = 25.0
"""As long as that takes where nothing is wrong: it is not reported before."""


def wait_for_start(folder: Path, target: KubernetesVersion | None, seconds: float, front_end: FrontEnd) -> None:
    """Wait until every critical pod on the controllers is Ready, or waiting doesn't help, at most for so long.

    Changes nothing, and holds no lock. What isn't Ready then is what the checks find.
    """
    with front_end.busy(), open_session(folder, target) as session:
        await_start(session.tools.kube, session.tools.clock, session.cluster, seconds, front_end)


def await_start(kube: Kube, clock: Clock, cluster: Cluster, seconds: float, front_end: FrontEnd) -> None:
    """The same with these tools.

    After a power cut the API answers before all kubelets do: until these, or the controller-manager after 40 s, write
    the status of pods, it is that of before.
    """
    begun = clock.monotonic()
    deadline = begun + seconds
    said = False
    kubelets = _Kubelets(kube, [host.name for host in cluster.controllers])

    def missing() -> str:
        nonlocal said
        try:
            silent = kubelets.silent()
            starting = _starting(kube, cluster) or silent
            patient = starting == silent and clock.monotonic() - begun < _USUAL_SECONDS
        except CredentialsRefused:
            return ""  # time gives no rights: what is asked next says so
        except ApiError as error:
            starting, patient = error.message or "the API server gave no reason", False
        if starting and not said and not patient:
            said = True
            front_end.notify(f"Waiting up to {duration(seconds)} (--timeout) until these are Ready: {starting}")
        if starting:
            left = duration(max(0.0, deadline - clock.monotonic()))
            front_end.doing(f"waiting {left} more until these are Ready: {starting}")
        return starting

    still = wait_until(clock, missing, seconds=seconds, interval_seconds=_POLL_SECONDS)
    if still:
        front_end.notify(f"Not Ready after {duration(seconds)}: {still}")


@dataclass
class _Kubelets:
    """Which of the controllers' kubelets were seen to run. Clocks aren't compared: their Leases have to change."""

    kube: Kube
    names: list[str]
    seen: dict[str, set[str]] = field(default_factory=dict)
    """What each Lease's time was."""

    def silent(self) -> str:
        """Those that have not renewed their Leases yet; "" for none. Raises ApiError."""
        for name in self.names:
            if len(self.seen.get(name, ())) <= _RENEWALS:
                lease = self.kube.get(LEASES, name, HEARTBEATS)
                if time := str(((lease or {}).get("spec") or {}).get("renewTime") or ""):
                    self.seen.setdefault(name, set()).add(time)
        # One without a Lease is no node, or never was one that worked: the checks say so.
        waits = [name for name, times in self.seen.items() if len(times) <= _RENEWALS]
        return f"the kubelet of {first_few(waits)}" if waits else ""


def _starting(kube: Kube, cluster: Cluster) -> str:
    """The pods that time may help; "" where there are none. Those that fail again and again are not waited for alone:
    they may only need what is starting beside them. Raises ApiError.
    """
    pods = (pod for host in cluster.controllers for pod in critical_pods_on(kube, host.name))
    faults = [fault for pod in pods if (fault := pod_fault(pod)) is not None]
    return "" if all(fault.broken for fault in faults) else first_few(_told(faults))


def _told(faults: Iterable[Fault]) -> list[str]:
    return [f"{fault.pod.name} on {fault.pod.node}" for fault in faults]
