"""A process is ended with everything that it started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from testkit.waiting import stretched
from upgrader.adapters.process_tree import end_tree

PARENT = """
import subprocess, sys, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"],
    start_new_session=True)
print(child.pid, flush=True)
signal.pause()
"""


def test_descendants_in_other_sessions_end_too() -> None:
    """Ansible's workers have process groups of their own, and what ignores SIGTERM is killed."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        end_tree(parent.pid)
        assert parent.wait(timeout=stretched(10)) == -9
    stat = Path(f"/proc/{child}/stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


def test_process_that_has_ended_is_fine() -> None:
    """Nothing is signalled that another process may be now."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    end_tree(gone.pid)
