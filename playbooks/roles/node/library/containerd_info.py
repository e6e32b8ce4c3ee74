"""Ansible module: what systemd and containerd itself know of containerd."""

from __future__ import annotations

import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.containerd_config import configuration_of
from ansible.module_utils.containerd_dump import socket_in
from ansible.module_utils.containerd_versions import step_problem, version_in
from ansible.module_utils.kubelet_unit import UnitError, read_unit

DOCUMENTATION = r"""
module: containerd_info
short_description: Read which containerd runs, and how systemd starts it
description: [Which program, version and files. Changes nothing.]
author: [The upgrader authors]
options:
  unit:
    description: The name of the unit.
    type: str
    default: containerd.service
  wanted:
    description: The version to upgrade to.
    type: str
"""

EXAMPLES = r"""
- name: Read which containerd runs
  containerd_info:
  register: found
"""

RETURN = r"""
program: {description: containerd's path., type: str, returned: success}
version: {description: The version that the program in place prints., type: str, returned: success}
configuration: {description: Its configuration file., type: str, returned: success}
socket: {description: Where it listens., type: str, returned: success}
files: {description: "Unit, drop-ins, environment and configuration files.", type: list, returned: success}
current: {description: "Whether that, as its files are now, is what runs.", type: bool, returned: success}
step_problem: {description: Why it can't become O(wanted) under its containers., type: str, returned: success}
kill_mode: {description: What systemd ends with the unit., type: str, returned: success}
"""


def main() -> None:
    """Answer Ansible."""
    arguments = {"unit": {"type": "str", "default": "containerd.service"}, "wanted": {"type": "str"}}
    module = AnsibleModule(arguments, supports_check_mode=True)
    try:
        unit = read_unit(module.params["unit"], "containerd")
        configuration = configuration_of(list(unit.arguments))
        asked = ([unit.program, "--version"], [unit.program, "--config", configuration, "config", "dump"])
        said, dump = (
            subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout for command in asked
        )
    except (UnitError, OSError, subprocess.TimeoutExpired) as error:
        module.fail_json(msg=str(error))
    version, wanted = version_in(said), module.params["wanted"]
    unit = unit._replace(arguments=(*unit.arguments, f"--config={configuration}"))
    module.exit_json(
        changed=False,
        program=unit.program,
        version=version,
        step_problem="" if wanted is None else step_problem(version, wanted),
        configuration=configuration,
        socket=socket_in(dump),
        files=unit.files(),
        current=unit.current(),
        kill_mode=unit.kill_mode,
    )


if __name__ == "__main__":
    main()
