"""Ansible module: whether another kubelet would start with the flags and the configuration of this node."""

from __future__ import annotations

import os
import subprocess
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.executable_label import let_systemd_execute
from ansible.module_utils.kubelet_unit import (
    UnitError,
    complaint,
    read_unit,
    trial_command,
    unknown_fields,
    without_flags,
)

DOCUMENTATION = r"""
module: kubelet_trial
short_description: Check this node's flags and configuration with a new kubelet
description:
  - systemd starts the new kubelet with the node's flags, and with one more flag that makes it exit after it has checked
    its configuration. It never connects to the container runtime or the API. Changes nothing.
author: [The upgrader authors]
options:
  program:
    description: The path of the new kubelet.
    type: path
    required: true
  unit:
    description: The name of the systemd unit of the kubelet that runs now.
    type: str
    default: kubelet.service
  without:
    description: Flags that the new kubelet no longer has, and doesn't need.
    type: list
    elements: str
    default: []
  configuration:
    description: The text of a new configuration file, which the new kubelet reads instead of O(configuration_file).
    type: str
  configuration_file:
    description: The path of the configuration file that O(configuration) replaces.
    type: path
  fields:
    description: Fields of O(configuration), with their values, that the new kubelet must know.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Try the new kubelet
  kubelet_trial:
    program: /var/lib/upgrader/node-stage/v1.37.1/kubelet
    without: [pod-infra-container-image]
  register: tried
"""

RETURN = r"""
rewritten:
  description: The environment files that contain a flag of O(without), each with its text without these flags.
  type: list
  returned: success
"""


def main() -> None:
    """Answer Ansible."""
    arguments = {
        "program": {"type": "path", "required": True},
        "unit": {"type": "str", "default": "kubelet.service"},
        "without": {"type": "list", "elements": "str", "default": []},
        "configuration": {"type": "str", "no_log": True},
        "configuration_file": {"type": "path"},
        "fields": {"type": "dict", "default": {}},
    }
    together = [("configuration", "configuration_file")]
    module = AnsibleModule(arguments, required_together=together, supports_check_mode=True)
    program, without = module.params["program"], module.params["without"]
    try:
        unit = read_unit(module.params["unit"])
        rewritten = {}
        for path, _ in unit.environment_files:
            if os.path.exists(path):
                with open(path, encoding="utf-8") as stream:
                    text = stream.read()
                if without_flags(text, without) != text:
                    rewritten[path] = without_flags(text, without)
        with tempfile.TemporaryDirectory(dir="/run", prefix="kubelet-trial-") as folder:
            replaced = {}
            for number, (path, text) in enumerate(sorted(rewritten.items())):
                replaced[path] = os.path.join(folder, f"{number}.env")
                with open(replaced[path], "w", encoding="utf-8") as stream:
                    stream.write(text)
            over = {}
            if module.params["configuration"] is not None:
                over[module.params["configuration_file"]] = os.path.join(folder, "configuration.yaml")
                with open(os.path.join(folder, "configuration.yaml"), "w", encoding="utf-8") as stream:
                    stream.write(module.params["configuration"])
            let_systemd_execute(program)
            command = trial_command(unit, program, replaced, over)
            ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except (UnitError, OSError, subprocess.TimeoutExpired) as error:
        module.fail_json(msg=f"{program} could not be tried: {error}")
    wrong = complaint(ended)
    if wrong:
        module.fail_json(
            msg=f"{program} would not start on this node: {wrong}. Nothing was changed. Change the flag or the setting"
            f" where the kubelet gets it: {', '.join(unit.files())}"
        )
    unknown = unknown_fields(ended, module.params["fields"])
    if unknown:
        module.fail_json(
            msg=f"{program} doesn't know {', '.join(unknown)} of its configuration, and would ignore that."
            " Nothing was changed. Correct node_kubelet_configuration"
        )
    module.exit_json(changed=False, rewritten=[{"path": path, "text": text} for path, text in rewritten.items()])


if __name__ == "__main__":
    main()
