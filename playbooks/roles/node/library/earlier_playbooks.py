"""Ansible module: wait until no earlier run of these playbooks works on the node any more."""

from __future__ import annotations

import time

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.playbook_processes import playbook_processes

DOCUMENTATION = r"""
module: earlier_playbooks
short_description: Wait for tasks of an earlier, killed run of these playbooks on the node
description:
  - If Ansible is killed, its processes on the node keep running, and might replace a file after another run has
    restored it. The module finds these processes by a variable in their environment. Changes nothing.
author: [The upgrader authors]
options:
  seconds:
    description: How long to wait, in seconds.
    type: int
    default: 300
"""

EXAMPLES = r"""
- name: Wait until no earlier run works on the node
  earlier_playbooks:
    seconds: 300
"""

RETURN = r"""
seconds: {description: How long the module waited., type: float, returned: success}
"""


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule({"seconds": {"type": "int", "default": 300}}, supports_check_mode=True)
    begun = time.monotonic()
    while True:
        others = playbook_processes()
        waited = time.monotonic() - begun
        if not others:
            module.exit_json(changed=False, seconds=round(waited, 1))
        if waited > module.params["seconds"]:
            break
        time.sleep(0.5)
    shown = "; ".join(f"{pid}: {command}" for pid, command in sorted(others.items()))
    module.fail_json(
        msg=f"an earlier run of these playbooks still works on this node after {waited:.0f} s: process {shown}."
        " Nothing was changed. Wait until it ends, or end it, then run the playbook again"
    )


if __name__ == "__main__":
    main()
