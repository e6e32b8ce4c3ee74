"""Ansible module: what systemd knows of the kubelet."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.kubelet_unit import UnitError, read_unit

DOCUMENTATION = r"""
module: kubelet_unit_info
short_description: Read how systemd starts the kubelet
description: ["Returns the kubelet's program and files. Changes nothing."]
author: [The upgrader authors]
options:
  unit:
    description: The name of the kubelet's systemd unit.
    type: str
    default: kubelet.service
"""

EXAMPLES = r"""
- name: Read how systemd starts the kubelet
  kubelet_unit_info:
  register: found
"""

RETURN = r"""
program: {description: The path of the installed kubelet., type: str, returned: success}
configuration: {description: "The files that its flag --config names.", type: list, returned: success}
files: {description: "The unit, drop-ins, environment files and configuration files.", type: list, returned: success}
current: {description: "Whether the running process was started from these files as they are now.", type: bool,
  returned: success}
"""


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule({"unit": {"type": "str", "default": "kubelet.service"}}, supports_check_mode=True)
    try:
        unit = read_unit(module.params["unit"])
    except UnitError as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=False,
        program=unit.program,
        configuration=unit.configuration_files(),
        files=unit.files(),
        current=unit.current(),
    )


if __name__ == "__main__":
    main()
