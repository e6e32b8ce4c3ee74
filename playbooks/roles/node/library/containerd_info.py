"""Ansible module: what systemd and containerd itself know of containerd."""

from __future__ import annotations

import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.containerd_config import configuration_of
from ansible.module_utils.containerd_dump import socket_in
from ansible.module_utils.containerd_versions import step_problem, step_warning, version_in
from ansible.module_utils.kubelet_unit import UnitError, read_unit

DOCUMENTATION = r"""
module: containerd_info
short_description: Read which containerd runs, and how systemd starts it
description: ["Returns containerd's program, version and files. Changes nothing."]
author: [The upgrader authors]
options:
  unit:
    description: The name of containerd's systemd unit.
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
program: {description: The path of the installed containerd., type: str, returned: success}
version: {description: The version that the installed containerd prints., type: str, returned: success}
configuration: {description: The path of its configuration file., type: str, returned: success}
socket: {description: The path of its socket., type: str, returned: success}
files: {description: "The unit, drop-ins, environment files and configuration files.", type: list, returned: success}
current: {description: "Whether the running process was started from these files as they are now.", type: bool,
  returned: success}
step_problem: {description: "Why running containers would not survive an upgrade to O(wanted); empty if they would.",
  type: str, returned: success}
kill_mode: {description: The unit's C(KillMode)., type: str, returned: success}
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
    if wanted is not None and (warning := step_warning(version, wanted)):
        module.warn(warning)
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
