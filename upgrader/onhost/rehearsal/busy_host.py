"""Whether this host's processors were busy, as the kernel has measured it, for errors of what had no time to answer."""

from __future__ import annotations

import os
import re

__all__ = ["LESS_BUSY", "busy_host"]

_LOAD, _PRESSURE = "/proc/loadavg", "/proc/pressure/cpu"
_WAITED = re.compile(r"(?m)^some .*\bavg60=(\d+(?:\.\d+)?)")
_MOST_WAITED = 50.0
"""Percent of a minute in which something waits for a processor, on a host that is not busy."""
_MOST_LOAD = 2.0
"""For each processor, where the kernel doesn't measure how long is waited."""
LESS_BUSY = "Rehearse when it is less busy, or on another machine: --on HOST"


def busy_host() -> str:
    """What to say after an error: what was measured, and what to do; "" where the processors were not busy."""
    load, waited = float((_read(_LOAD).split() or ["0"])[0]), _WAITED.search(_read(_PRESSURE))
    processors = os.cpu_count() or 1
    if float(waited[1]) < _MOST_WAITED if waited else load <= _MOST_LOAD * processors:
        return ""
    said = f"load {load:.1f} on {processors} processor{'s' if processors > 1 else ''}"
    if waited:
        said += f", and for {float(waited[1]):.0f} % of the last minute, processes waited for one"
    return f". The host's processors were busy: {said}. {LESS_BUSY}"


def _read(path: str) -> str:
    """A file of the kernel's; "" where it has none: `/proc/pressure` may be switched off."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
