"""What a test or a bench leaves behind that is killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from testkit.waiting import stretched

_PARENTS = {
    "api servers": """
from testkit.api_servers import _process
with _process([str(program)], 1) as process:
    process.wait()
""",
    "etcd": """
from testkit.etcd_members import Etcd
etcd = Etcd(program.parent, program.parent, commands={"a": []})
etcd.launch("a", program.parent)
etcd.members["a"].wait()
""",
    "guard": """
from testkit.guard_process import guard_process
sys.executable = str(program)
with guard_process(program.parent, program) as guard:
    guard._process.wait()
""",
    "haproxy": """
from testkit import haproxy_process
haproxy_process.haproxy_program = lambda: (str(program),)
haproxy_process.HAProxyProcess(program.parent, []).start()
""",
}
_PROGRAM = """#!/bin/sh
exec >{told}
echo $$
exec sleep 3600
"""


@pytest.mark.parametrize("kind", _PARENTS)
def test_what_is_started_ends_with_a_process_that_is_killed(kind: str, tmp_path: Path) -> None:
    """Nothing is asked to stop it then. Whatever holds the pipe is alive: its end is the program's."""
    told, program, root = tmp_path / "told", tmp_path / "etcd", Path(__file__).parents[3]
    os.mkfifo(told)
    program.write_text(_PROGRAM.format(told=told))
    program.chmod(0o755)
    code = f"import sys\nfrom pathlib import Path\nprogram = Path({str(program)!r})\n{_PARENTS[kind]}"
    pipe = os.open(told, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with subprocess.Popen([sys.executable, "-c", code], cwd=root) as parent:
            assert select.select([pipe], [], [], stretched(30))[0]
            started = int(os.read(pipe, 100))
            parent.kill()
        has_ended = bool(select.select([pipe], [], [], stretched(10))[0])
        if not has_ended:
            os.kill(started, signal.SIGKILL)
        assert has_ended and os.read(pipe, 100) == b""
    finally:
        os.close(pipe)
