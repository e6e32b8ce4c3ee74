"""A program that starts another one as `systemd-run --pipe --wait` does, for machines without systemd.

The unit has a network, a process namespace and a mount namespace of its own, ends after `RuntimeMaxSec`, and is
followed by `ExecStopPost`. Limits, weights and a file system that can't be written are not imitated. While a unit runs,
the folder `$UNITS` has a file of its name with two process ids: this program's, and the unit's.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

_ISOLATED = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def main() -> int:
    """Start it, and wait for its end; returns its exit code."""
    words, name, properties = sys.argv[1:], "", dict[str, str]()
    while words[0].startswith("--"):
        option, _, value = words.pop(0).partition("=")
        if option == "--unit":
            name = value
        elif option == "--property":
            key, _, properties[key] = value.partition("=")
    unit = subprocess.Popen([*_ISOLATED, *words], start_new_session=True)
    file = Path(os.environ["UNITS"], name)
    file.write_text(f"{os.getpid()} {unit.pid}")
    try:
        unit.wait(timeout=float(properties["RuntimeMaxSec"]))
    except subprocess.TimeoutExpired:
        unit.kill()
    code = unit.wait()
    subprocess.run(shlex.split(properties["ExecStopPost"]), check=False)
    file.unlink()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
