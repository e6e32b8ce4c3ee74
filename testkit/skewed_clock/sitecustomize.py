"""Python starts with this where its clock is skewed: libfaketime refuses the system call of `time.sleep`.

That is clock_nanosleep, with EINVAL, whenever monotonic time is left alone; other waits work.
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
