"""Python loads this if its clock is skewed: libfaketime refuses the system call of `time.sleep`.

The call is clock_nanosleep, which fails with EINVAL when monotonic time is left alone; other waits work.
"""

from __future__ import annotations

import select
import time
from typing import Any


def _sleep(seconds: Any, /) -> None:
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    select.select((), (), (), seconds)


time.sleep = _sleep
