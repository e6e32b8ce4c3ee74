"""kube-apiserver processes about as many requests at once as before the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upgrader.model.finding import Finding
from upgrader.model.manifest import objects_in
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.context import PreflightContext
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.release.planned_commands import commands_of

__all__ = ["check_request_limits"]

_DEFAULTS = {"max-requests-inflight": 400, "max-mutating-requests-inflight": 200}
"""kube-apiserver's own. Their sum is what API Priority and Fairness shares out; without it, each is a limit by itself.
"""
_MUCH_LESS = 0.5


def check_request_limits(context: PreflightContext) -> Iterator[Finding]:
    """Where too few seats are left, clients wait for one, or are rejected with HTTP 429. How many they need in their
    busiest hour is not known here.
    """
    for release in context.changing:
        before, after = (_limits(release, text, context.target) for text in (release.before, release.after))
        if before and after and sum(after.values()) < _MUCH_LESS * sum(before.values()):
            yield Finding(
                "flags.fewer-requests",
                "warning",
                f"release {release.name}: kube-apiserver would process at most {sum(after.values())} requests at a "
                f"time, instead of {sum(before.values())}",
                f"{_listed(before, after)}\n"
                "When the cluster is busy, requests may have to wait, or are rejected (HTTP 429).",
                f"Keep the previous values in release {release.name}, unless the new limit is enough for your busiest "
                "hour: see the metric apiserver_flowcontrol_current_executing_seats.",
            )


def _limits(release: PlannedRelease, manifest: str, target: KubernetesVersion) -> Mapping[str, int]:
    """Flag → value of its kube-apiserver; nothing where it has none, or its flags can't be read."""
    for command in (each for item in objects_in(manifest).items() for each in commands_of(release, *item, target)):
        if command.component == "kube-apiserver" and command.flags is not None:
            given = {flag: command.value(flag) or "" for flag in _DEFAULTS}
            return {flag: int(value) if value.isdecimal() else _DEFAULTS[flag] for flag, value in given.items()}
    return {}


def _listed(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    return "\n".join(f"--{flag}: {before[flag]} → {after[flag]}" for flag in before if before[flag] != after[flag])
