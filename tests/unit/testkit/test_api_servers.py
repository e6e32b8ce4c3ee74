"""What a test or a bench leaves behind that is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from testkit.waiting import stretched

_PARENT = """
from testkit.api_servers import _process
with _process(["sh", "-c", "echo started; exec sleep 120"], 1) as process:
    process.wait()
"""


def test_servers_end_with_a_process_that_is_killed() -> None:
    """Nothing is asked to stop them then. Whatever holds the pipe is alive: its end is theirs."""
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", _PARENT], cwd=root, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "started\n"
        parent.kill()
        left, _ = parent.communicate(timeout=stretched(30))
        assert left == ""
