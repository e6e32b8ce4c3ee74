"""How a static pod's kube-apiserver ends, as the chart's `gracefulShutdown`. Pure.

With `--shutdown-delay-duration`, kube-apiserver still serves for that time after its end signal, so that clients find
another one. The chart's `drainSeconds` are for the same, and come before that signal: what moves clients begins with
it (proxy.sh). So the flag goes, and its time becomes `drainSeconds`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import Any

from upgrader.adopt.facts import StaticPod

__all__ = ["SHUTDOWN_DELAY", "graceful_shutdown", "termination_grace"]

SHUTDOWN_DELAY = "shutdown-delay-duration"
_WATCHES = "shutdown-watch-termination-grace-period"

_USUAL_GRACE = 30
"""Seconds that a pod has to end, unless it says otherwise: what the chart's kube-apiserver has after its drain."""
_DRAIN, _WATCH = 15, 10
"""The chart's own `drainSeconds` and `watchSeconds`."""

_UNITS = {"h": Fraction(3600), "m": Fraction(60), "s": Fraction(1), "ms": Fraction(1, 1000)}
"""Others are too short to count."""
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|m|s|us|µs|ns)")


def termination_grace(pod: StaticPod) -> int:
    """Seconds that kube-apiserver has to end. The charts decide for the others."""
    given = pod.pod["spec"].get("terminationGracePeriodSeconds") if pod.component == "kube-apiserver" else None
    return _USUAL_GRACE if given is None else int(given)


def graceful_shutdown(pod: StaticPod) -> dict[str, int]:
    """The values that aren't the chart's own.

    The kubelet kills a static pod whose delay is longer than its time to end, which is 30 s if it says nothing. The
    chart's pod always has 30 s after its drain, and longer if the static pod has, or if it closes watches for longer.
    """
    delay, watches = _seconds(pod, SHUTDOWN_DELAY), _seconds(pod, _WATCHES)
    drain, watch = max(_DRAIN, delay), max(_WATCH, watches)
    ends = drain + max(_USUAL_GRACE + watch - _WATCH, termination_grace(pod) - delay)
    found = {"drainSeconds": (drain, _DRAIN), "watchSeconds": (watch, _WATCH)}
    found["terminationSeconds"] = (ends, _DRAIN + _USUAL_GRACE)
    return {name: wanted for name, (wanted, usual) in found.items() if wanted != usual}


def _seconds(pod: StaticPod, flag: str) -> int:
    """A duration, as Go reads it, as whole seconds; 0 for one with which kube-apiserver can't start."""
    text: Any = pod.flags.get(flag, ("0",))[-1]
    if _PART.sub("", text):
        return 0
    return ceil(sum(Fraction(number) * _UNITS.get(unit, Fraction()) for number, unit in _PART.findall(text)))
