"""Ansible module: wait until containerd serves the kubelet."""

from __future__ import annotations

import os
import subprocess
import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.containerd_config import configuration_of, cri_problem
from ansible.module_utils.containerd_messages import without_values
from ansible.module_utils.kubelet_unit import UnitError, read_unit

DOCUMENTATION = r"""
module: containerd_health
short_description: Wait until containerd serves the kubelet
description:
  - Waits until systemd has started the installed containerd with its current unit and configuration files, and
    containerd reports its plugin cri as ok.
  - Changes nothing.
author: [The upgrader authors]
options:
  unit:
    description: The name of containerd's systemd unit.
    type: str
    default: containerd.service
  seconds:
    description: How long to wait, in seconds.
    type: int
    default: 60
  address:
    description: The path of containerd's socket.
    type: path
    default: /run/containerd/containerd.sock
"""

EXAMPLES = r"""
- name: Wait until containerd serves the kubelet
  containerd_health:
"""

RETURN = r"""
seconds: {description: How long the module waited., type: float, returned: success}
"""


def main() -> None:
    """Answer Ansible."""
    arguments = {
        "unit": {"type": "str", "default": "containerd.service"},
        "seconds": {"type": "int", "default": 60},
        "address": {"type": "path", "default": "/run/containerd/containerd.sock"},
    }
    module = AnsibleModule(arguments, supports_check_mode=True)
    begun = time.monotonic()
    while True:
        wrong = _wrong(module.params["unit"], module.params["address"])
        waited = time.monotonic() - begun
        if not wrong:
            module.exit_json(changed=False, seconds=round(waited, 1))
        if waited > module.params["seconds"]:
            break
        time.sleep(0.5)
    said = _said(module.params["unit"])
    module.fail_json(msg=f"waited {waited:.0f} s for containerd: {wrong}. Its last log lines: {said}")


def _wrong(unit_name: str, address: str) -> str:
    try:
        unit = read_unit(unit_name, "containerd")
        unit = unit._replace(arguments=(f"--config={configuration_of(list(unit.arguments))}",))
        if not unit.current():
            return f"{unit_name} isn't running, or wasn't restarted after its program or files changed"
        ctr = os.path.join(os.path.dirname(unit.program), "ctr")
        command = [ctr, "--address", address, "plugins", "ls"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (UnitError, OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return cri_problem(done.stdout) if done.returncode == 0 else done.stderr.strip()[-400:]


def _said(unit: str) -> str:
    command = ["journalctl", "--unit", unit, "--lines=60", "--no-pager", "--output=cat"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"its log can't be read: {error}"
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    errors = [
        line for line in lines if "level=error" in line or "level=fatal" in line or line.startswith("containerd:")
    ]
    return " / ".join(without_values(line)[:400] for line in (errors or lines)[-2:]) or "nothing"


if __name__ == "__main__":
    main()
