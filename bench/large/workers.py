"""`python -m bench.large.workers`: what the upgrade of 100 workers, a tenth at a time, costs the process that runs it.

No cluster: the API is served from memory, by this process, and the workers are upgraded by one of its own
(`bench/large/upgrading.py`). What Ansible tells of each task is read by that process, too, which is measured with a
playbook of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.large.page import page
from bench.large.served import cluster_of, kubeconfig_of, served
from bench.places import PAGES, results_file
from testkit.command import REPOSITORY
from upgrader.adapters.playbooks import AnsiblePlaybooks

__all__ = ["main"]

_LIMIT_SECONDS = 0.5
_SECONDS = 3600.0
_HOSTS, _TASKS = 10, 30
_READS_A_BEAT = 4
"""A wait for many nodes reads the Leases every three seconds, and kubelets renew them every ten."""


def main() -> int:
    """0 when the limit is kept."""
    parser = argparse.ArgumentParser(prog="python -m bench.large.workers", description=__doc__)
    parser.add_argument("--workers", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--tries", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the page")
    options = parser.parse_args()
    tries = [_upgraded(options.workers) for _ in range(options.tries)]
    figures: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "cores": os.cpu_count() or 1,
        "limit": _LIMIT_SECONDS,
        "tries": options.tries,
        "workers": options.workers,
        "cpu_seconds": round(statistics.median(each["cpu_seconds"] for each in tries) / options.workers, 3),
        "requests": round(statistics.median(each["requests"] for each in tries) / options.workers),
        "task_seconds": round(statistics.median(_read_of_a_task() for _ in range(options.tries)), 4),
        "load": round(os.getloadavg()[0], 1),
    }
    file = results_file(options.out, "large.json")
    known = {**(json.loads(file.read_text()) if file.exists() else {}), "workers": figures}
    file.write_text(json.dumps(known, indent=1) + "\n")
    (options.out / "large.md").write_text(page(known))
    print(json.dumps(figures), file=sys.stderr)
    return int(figures["cpu_seconds"] > _LIMIT_SECONDS)


def _upgraded(workers: int) -> dict[str, float]:
    cluster = cluster_of(workers, reads_a_beat=_READS_A_BEAT)
    with tempfile.TemporaryDirectory() as folder, served(cluster) as url:
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(json.dumps(kubeconfig_of(url)))
        command = [sys.executable, "-m", "bench.large.upgrading", str(kubeconfig)]
        ended = subprocess.run(command, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True, timeout=_SECONDS)
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def _read_of_a_task() -> float:
    """CPU seconds of this process for a task on one host, without Ansible's own processes."""
    tasks = [{"name": f"task {number}", "ansible.builtin.debug": {"msg": "done"}} for number in range(_TASKS)]
    hosts = {f"host-{number}": {"ansible_connection": "local"} for number in range(_HOSTS)}
    with tempfile.TemporaryDirectory() as folder:
        playbook, inventory = Path(folder) / "playbook.yml", Path(folder) / "hosts.yml"
        playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
        inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
        begun = time.process_time()
        AnsiblePlaybooks().run(playbook, inventory=inventory, variables={}, timeout_seconds=_SECONDS)
        return (time.process_time() - begun) / (_TASKS * _HOSTS)


if __name__ == "__main__":
    sys.exit(main())
