"""Ansible module: whether a containerd would start with a configuration, and which running pods that would break."""

from __future__ import annotations

import os
import subprocess
import tempfile

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.containerd_config import ignored_keys, lost
from ansible.module_utils.containerd_dump import cri_off, sandbox_image
from ansible.module_utils.containerd_messages import reading_problem

DOCUMENTATION = r"""
module: containerd_trial
short_description: Check a configuration with a version of containerd
description:
  - Runs C(containerd config dump), which reads the configuration as the daemon does, with the settings of all plugins.
  - Fails if a setting would break running pods. Changes nothing.
author: [The upgrader authors]
options:
  program:
    description: The path of the containerd that reads the configuration.
    type: path
    required: true
  running:
    description: The path of the installed containerd.
    type: path
    required: true
  configuration_file:
    description: The path of the current configuration file.
    type: path
    required: true
  configuration:
    description: The text of the new configuration. O(program) must be able to read both this text and the current file.
    type: str
"""

EXAMPLES = r"""
- name: Let the new containerd read the new configuration
  containerd_trial:
    program: /var/lib/upgrader/node-stage/containerd/bin/containerd
    running: /usr/bin/containerd
    configuration_file: /etc/containerd/config.toml
    configuration: "version = 2"
  register: tried
"""

RETURN = r"""
sandbox_image: {description: The sandbox image in the new configuration., type: str, returned: success}
sandbox_changes: {description: Whether it differs from the current sandbox image., type: bool, returned: success}
"""


def main() -> None:
    """Answer Ansible."""
    needed = {name: {"type": "path", "required": True} for name in ("program", "running", "configuration_file")}
    module = AnsibleModule({**needed, "configuration": {"type": "str", "no_log": True}}, supports_check_mode=True)
    program, running, path = (module.params[name] for name in needed)
    before, complaint, _ = _dump(running, path)
    if complaint:
        module.fail_json(msg=f"{running} can't read its own {path}: {complaint}. Nothing was changed")
    text = module.params["configuration"]
    after, complaint, ignored = _dump(program, path)
    if text is not None:
        # The programs are swapped first. A node that loses its power then boots with the new one and the old file.
        wrong = complaint or "; ".join(lost(before, after))
        if wrong:
            module.fail_json(
                msg=f"{program} can't use the present {path}, which it must until the new configuration is in place:"
                f" {wrong}. Nothing was changed. Change the configuration in a separate upgrade before this one"
            )
        after, complaint, ignored = _dump_of_text(program, path, text)
    if complaint:
        module.fail_json(msg=f"{program} would not start with this configuration: {complaint}. Nothing was changed")
    image, off = sandbox_image(after), cri_off(after)
    if off or not image:
        why = f" ({', '.join(off)} in disabled_plugins)" if off else ""
        module.fail_json(msg=f"{program} would start without CRI, which the kubelet needs{why}. Nothing was changed")
    wrong = lost(before, after)
    if wrong:
        module.fail_json(msg=f"this configuration would break running pods: {'; '.join(wrong)}. Nothing was changed")
    if ignored:
        module.warn(f"{program} doesn't know these keys of the configuration, and ignores them: {', '.join(ignored)}")
    module.exit_json(changed=False, sandbox_image=image, sandbox_changes=image != sandbox_image(before))


def _dump_of_text(program: str, path: str, text: str) -> tuple[str, str, list[str]]:
    # Beside the one in place: relative imports are relative to that.
    folder = os.path.dirname(path) if os.path.isdir(os.path.dirname(path)) else None
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".upgrader-trial-", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        return _dump(program, stream.name)


def _dump(program: str, path: str) -> tuple[str, str, list[str]]:
    """The whole configuration, what is wrong with it ("": nothing), and the keys that are ignored."""
    command = [program, "--config", path, "config", "dump"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error), []
    if done.returncode == 0 and done.stdout:
        return done.stdout, "", ignored_keys(done.stderr)
    said = done.stderr.strip()
    return "", reading_problem(said) if said else f"exit code {done.returncode} without output", []


if __name__ == "__main__":
    main()
