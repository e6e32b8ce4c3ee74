"""Ansible module: which programs are in a folder, and what they say of their version."""

from __future__ import annotations

import os
import subprocess

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_files import sha256_of

DOCUMENTATION = r"""
module: program_info
short_description: Read the SHA-256 and the version of programs
description:
  - All programs of a folder in one task, because a task for each takes as long as the reading. Changes nothing.
author: [The upgrader authors]
options:
  folder:
    description: The folder of the programs.
    type: path
    required: true
  names:
    description: The names of the programs. A missing one is no error.
    type: list
    elements: str
    required: true
  arguments:
    description: The arguments with which each program prints its version; a program without an entry isn't started.
    type: dict
    default: {}
  sha256:
    description: The SHA-256 that each program must have to be started, if it is known.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Read the versions of the staged programs
  program_info:
    folder: /var/lib/upgrader/node-stage/v1.37.1
    names: [kubelet]
    arguments: {kubelet: [--version]}
    sha256: "{{ node_source.sha256 }}"
  register: found
"""

RETURN = r"""
programs:
  description:
    - Each program, in the order of O(names). C(executable) is false for a file that can't be started, as Ansible leaves
      one whose copying was interrupted before it set the mode.
    - C(rc) is present only if the program was started, and has ended.
  type: list
  returned: success
  sample:
    - {name: kubelet, path: /usr/bin/kubelet, sha256: 6e79…, executable: true, rc: 0, stdout: Kubernetes v1.37.1}
"""

_SECONDS = 120


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule(
        {
            "folder": {"type": "path", "required": True},
            "names": {"type": "list", "elements": "str", "required": True},
            "arguments": {"type": "dict", "default": {}},
            "sha256": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    programs = []
    for name in module.params["names"]:
        path = os.path.join(module.params["folder"], name)
        try:
            found = sha256_of(path)
        except OSError as error:
            module.fail_json(msg=f"{path} could not be read: {error}")
        said = {}
        # With another SHA-256, it is not known what it would do.
        if found and name in module.params["arguments"] and module.params["sha256"].get(name, found) == found:
            said = _said([path, *module.params["arguments"][name]])
        programs.append({"name": name, "path": path, "sha256": found, "executable": os.access(path, os.X_OK), **said})
    module.exit_json(changed=False, programs=programs)


def _said(command: list[str]) -> dict[str, object]:
    """What a program answers. One for another architecture can't be started."""
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"stdout": "", "stderr": str(error)}
    return {"rc": ended.returncode, "stdout": ended.stdout, "stderr": ended.stderr}


if __name__ == "__main__":
    main()
