"""One measurement: do damage, fix it, and measure how long each part takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.recovery import boot
from bench.recovery.watch import Watch, back, gaps
from testkit.lab_cluster import LabCluster, until
from upgrader.lab.lifecycle import Lab
from upgrader.lab.nspawn_machine import machine_of
from upgrader.lab.readiness import troubles
from upgrader.ports import Kind

__all__ = ["Result", "Site"]

_STANDBY = "/etc/kubernetes/manifests/checkpoint-kube-system.kube-apiserver.json"
_NODES, _PODS = Kind("v1", "nodes", namespaced=False), Kind("v1", "pods")
_DEADLINE_SECONDS = 300.0


@dataclass(frozen=True)
class Result:
    """The result of one measurement; times in seconds, None for what did not happen.

    `ssh`: from when the controller was switched on until its sshd answered. `api` and `done` begin there, or, without a
    power cut, when the API became unreachable. `done`: every pod of the control plane is Ready, the releases
    are deployed, and no standby pod of kube-apiserver is active. `lost_again`: the length of each further outage
    of the API. `milestones`: see `boot.milestones`.
    """

    cause: str
    fixed_by: str
    ssh: float | None = None
    api: float | None = None
    done: float | None = None
    lost_again: tuple[float, ...] = ()
    note: str = ""
    milestones: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Site:
    """A lab to damage. It has one controller, except for `wait_done` and `unfinished`."""

    cluster: LabCluster

    @property
    def lab(self) -> Lab:
        """The lab as a machine."""
        return Lab.find(self.cluster.name)

    def power_cut(
        self,
        cause: str,
        fixed_by: str,
        *,
        fix: Callable[[], str] = lambda: "",
        finish: Callable[[], str] = lambda: "",
        settle: bool = True,
    ) -> Result:
        """Cut the controller's power and switch it on.

        `fix()` is called once sshd answers, `finish()` once the API does; the result notes what they return. Without
        `settle` it ends there.
        """
        lab = self.lab
        controller = lab.placement.node("controller-1")
        lab.crash(controller.name)
        with self._watch() as watch:
            lab.boot(controller.name)
            until("sshd", lambda: back(watch.ssh) is not None, timeout_seconds=60)
            ssh = back(watch.ssh) or 0.0
            notes = [fix()]
            api = watch.wait_for_api(timeout_seconds=_DEADLINE_SECONDS)
            milestones = self._milestones()
            notes.append(finish())
            problem = self._settle() if settle else ""
            done = watch.seconds
        note = "; ".join(text for text in (*notes, problem) if text)
        ended = done - ssh if settle and not problem else None
        return Result(cause, fixed_by, ssh, api - ssh, ended, gaps(watch.api, api), note, milestones)

    def damage(
        self,
        cause: str,
        fixed_by: str,
        do: Callable[[], object],
        *,
        fix: Callable[[], str] = lambda: "",
        finish: Callable[[], str] = lambda: "",
    ) -> Result:
        """Do damage that makes the API unreachable, without a power cut; `fix()` and `finish()` as for `power_cut`."""
        with self._watch() as watch:
            watch.wait_for_api()
            do()
            until("the API to be unreachable", lambda: not watch.api[-1].up, timeout_seconds=_DEADLINE_SECONDS)
            away = watch.api[-1].seconds
            notes = [fix()]
            api = watch.wait_for_api(after=away, timeout_seconds=watch.seconds + _DEADLINE_SECONDS)
            notes.append(finish())
            problem = self._settle()
            done = watch.seconds
        note = "; ".join(text for text in (*notes, problem) if text)
        ended = None if problem else done - away
        return Result(cause, fixed_by, None, api - away, ended, gaps(watch.api, api), note)

    def without_outage(self, cause: str, fixed_by: str, fix: Callable[[], str]) -> Result:
        """Damage that `fix()` does and fixes; `done` counts from there, `api` is 0 if the API stayed reachable."""
        with self._watch() as watch:
            began = watch.wait_for_api()
            note = fix()
            problem = self._settle()
            done, lost = watch.seconds - began, gaps(watch.api, began)
        note = "; ".join(text for text in (note, problem) if text)
        return Result(cause, fixed_by, None, None if lost else 0.0, None if problem else done, lost, note)

    def wait_done(self) -> None:
        """Wait until nothing is left to fix; raises TimeoutError with what is."""
        found: list[str] = []

        def holds() -> bool:
            found[:] = self.unfinished()
            return not found

        try:
            until("the control plane", holds, timeout_seconds=_DEADLINE_SECONDS)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {'; '.join(found)}") from error

    def _settle(self) -> str:
        """Wait until nothing is left to fix; returns what is left at the deadline."""
        try:
            self.wait_done()
        except TimeoutError as error:
            return str(error)
        return ""

    def standby_active(self) -> bool:
        """Whether a standby pod of kube-apiserver is active on any controller."""
        names = [node.name for node in self.lab.placement.nodes if node.role == "controller"]
        return any(self.lab.run(name, f"ls {_STANDBY} 2>/dev/null || true").strip() for name in names)

    def unfinished(self) -> list[str]:
        """What is left to fix, one line each; raises ApiError."""
        placement = self.lab.placement
        on = {n.name: machine_of(placement, n).switched_on() for n in placement.nodes if n.kubernetes}
        kube = self.cluster.kube
        found = troubles(kube.list(_NODES), kube.list(_PODS, "kube-system"), on)
        found += [
            f"release {n} is {r['status']}" for n, r in self.cluster.releases().items() if r["status"] != "deployed"
        ]
        return found or (["the standby pod of kube-apiserver is active"] if self.standby_active() else [])

    def _watch(self) -> Watch:
        return Watch(self.lab.placement.node("controller-1").address, self.cluster.folder / "kubeconfig")

    def _milestones(self) -> Mapping[str, float]:
        """Of the last boot."""
        since = machine_of(self.lab.placement, self.lab.placement.node("controller-1")).switched_on()
        return boot.milestones(boot.parse(self.lab.run("controller-1", boot.script(since)), since), since)
