"""Has a process end with the test or the bench that starts it."""

from __future__ import annotations

__all__ = ["ENDS_WITH_US"]

ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")
"""Before a command: has the kernel kill what is started when the thread that starts it ends. A test or a bench that is
killed stops nothing any more.
"""
