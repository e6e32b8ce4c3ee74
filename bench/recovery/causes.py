"""What makes a control plane unreachable, and what restores it: each cause is one function."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bench.recovery.cuts import BAD, cut, good
from bench.recovery.measure import Result, Site
from testkit import pushed_changes
from testkit.lab_cluster import OLD, TARGET
from upgrader.errors import ApiError

__all__ = ["CAUSES", "Cause"]

_CRASHING_SECONDS = 20.0
"""How long a bad change takes effect before the power is cut."""


@dataclass(frozen=True)
class Cause:
    """`measure` measures it once, on a healthy lab at the old version, and may leave the lab in any state."""

    name: str
    measure: Callable[[Site], Result]


def _healthy(site: Site) -> Result:
    return site.power_cut("power cut, healthy", "checkpoint")


def _mid_upgrade(site: Site) -> Result:
    return _as(cut(site, 62.0, good(), TARGET), "power cut in an upgrade")


def _mid_roll_out(site: Site) -> Result:
    return _as(cut(site, 12.0, good(), OLD), "power cut in the checkpointer's rollout")


def _mid_failing_roll_out(site: Site) -> Result:
    return _as(
        cut(site, 16.0, BAD["image that does not exist"], OLD), "power cut in the checkpointer's failing rollout"
    )


def _as(result: Result, cause: str) -> Result:
    return replace(result, cause=cause, note=f"{result.cause}; {result.note}")


def _bad_flag_by_helm(site: Site) -> Result:
    pushed_changes.upgrade(site.cluster)
    return _recovered(site, "bad flag by `helm upgrade`, power cut")


def _bad_flag_by_edit(site: Site) -> Result:
    pushed_changes.edit(site.cluster)
    return _recovered(site, "bad flag by `kubectl edit`, power cut")


def _bad_flag_in_a_daemonset(site: Site) -> Result:
    try:
        with tempfile.TemporaryDirectory() as folder:
            pushed_changes.install_old_style(site.cluster, Path(folder) / "values.yaml")
            pushed_changes.upgrade_old_style(site.cluster)
        return _recovered(site, "bad flag in an old-style DaemonSet, power cut")
    finally:
        site.cluster.restore()  # it recovers as a DaemonSet: healthy, but not the start of the other causes


def _recovered(site: Site, cause: str) -> Result:
    time.sleep(_CRASHING_SECONDS)
    return site.power_cut(cause, "`upgrader recover`", fix=lambda: _recover(site))


def _recover(site: Site) -> str:
    ended = site.cluster.upgrader("recover", "--yes")
    return f"recover: exit {ended.exit_code} after {ended.seconds:.0f} s"


def _bad_flag_by_run(site: Site) -> Result:
    site.cluster.change_values("kube-apiserver", {"extraArgs": {pushed_changes.BAD_FLAG: "true"}})
    return site.without_outage("bad flag through `upgrader run`", "the run's rollback", lambda: _run(site))


def _run(site: Site) -> str:
    ended = site.cluster.run(OLD, skip="trial.refused")
    return f"run: exit {ended.exit_code} after {ended.seconds:.0f} s"


def _kubelet_down(site: Site) -> Result:
    return _stopped(site, "kubelet and kube-apiserver stopped", "kubelet")


def _containerd_down(site: Site) -> Result:
    return _stopped(site, "containerd, kubelet and kube-apiserver stopped", "kubelet containerd")


def _stopped(site: Site, cause: str, units: str) -> Result:
    script = f"systemctl stop {units}\npkill -KILL -x kube-apiserver"
    return site.damage(
        cause, "`upgrader recover`", lambda: site.lab.run("controller-1", script), fix=lambda: _recover(site)
    )


def _uninstalled(site: Site) -> Result:
    """The standby pod restores the API; the release itself has to be installed again."""
    return site.damage(
        "release kube-apiserver uninstalled",
        "checkpoint, then `upgrader run`",
        lambda: _uninstall(site),
        finish=lambda: _run(site),
    )


def _uninstall(site: Site) -> None:
    """Helm fails, as it can't delete its own record once the API is gone."""
    with contextlib.suppress(ApiError):
        site.cluster.helm("uninstall", "kube-apiserver")


CAUSES = (
    Cause("power-cut", _healthy),
    Cause("mid-upgrade", _mid_upgrade),
    Cause("mid-roll-out", _mid_roll_out),
    Cause("mid-failing-roll-out", _mid_failing_roll_out),
    Cause("helm-upgrade", _bad_flag_by_helm),
    Cause("kubectl-edit", _bad_flag_by_edit),
    Cause("daemonset", _bad_flag_in_a_daemonset),
    Cause("run", _bad_flag_by_run),
    Cause("kubelet", _kubelet_down),
    Cause("containerd", _containerd_down),
    Cause("uninstalled", _uninstalled),
)
