"""Ansible module: put a file in place whole, and onto the disk."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_files import Owner, copier, owner_of, replace, sha256_of, text_writer

DOCUMENTATION = r"""
module: durable_copy
short_description: Replace a file atomically, and flush it to the disk
description:
  - Writes a temporary file beside the destination, flushes it to the disk, then renames it. After a power cut, either
    the old file or the new one is there. M(ansible.builtin.copy) doesn't flush.
author: [The upgrader authors]
options:
  dest:
    description: The path of the file. An existing file keeps its owner and its mode, which O(mode) can only narrow. A
      new file belongs to root, with mode 0755 if it comes from O(src), otherwise 0644.
    type: path
    required: true
  src:
    description: The file on the node that is copied.
    type: path
  sha256:
    description: The SHA-256 that O(src) must have. Required in check mode, where O(src) need not exist yet.
    type: str
  content:
    description: The text of the file, instead of O(src).
    type: str
  mode:
    description: The mode of a new file, in octal digits, instead of the default. An existing file loses the permissions
      that this mode doesn't have, even if its content doesn't change.
    type: str
"""

EXAMPLES = r"""
- name: Put the kubelet in place
  durable_copy:
    src: /var/lib/upgrader/node-stage/v1.37.1/kubelet
    dest: /usr/bin/kubelet
    sha256: "{{ node_source.sha256.kubelet }}"
"""

RETURN = r"""
sha256: {description: "The SHA-256 of O(dest), or in check mode the one that it would have.", type: str,
  returned: success}
"""


def _text(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def main() -> None:
    """Answer Ansible."""
    arguments = {
        name: {"type": kind} for name, kind in (("src", "path"), ("sha256", "str"), ("content", "str"), ("mode", "str"))
    }
    module = AnsibleModule(
        {"dest": {"type": "path", "required": True}, **arguments},
        required_one_of=[("src", "content")],
        mutually_exclusive=[("src", "content")],
        required_by={"src": ("sha256",)},
        supports_check_mode=True,
    )
    src, dest, content = (module.params[name] for name in ("src", "dest", "content"))
    before = sha256_of(dest)
    if content is not None:
        changed = before == "" or _text(dest) != content
        diff = {"before": _text(dest), "after": content}
    else:
        changed = before != module.params["sha256"]
        diff = {"before": f"SHA-256 {before or '-'}\n", "after": f"SHA-256 {module.params['sha256']}\n"}
    mode = int(module.params["mode"] or ("644" if src is None else "755"), 8)
    owner = there = owner_of(dest)
    if owner is None:
        owner = Owner(mode, 0, 0)
    elif module.params["mode"]:
        owner = owner._replace(mode=owner.mode & mode)
    changed = changed or owner != there
    if changed and not module.check_mode:
        try:
            write = text_writer(content) if src is None else copier(src)
            replace(dest, write, owner, sha256=module.params["sha256"] or "")
        except (OSError, ValueError) as error:
            module.fail_json(msg=f"{dest} could not be written, and is as it was: {error}")
    module.exit_json(changed=changed, diff={"before_header": dest, "after_header": dest, **diff})


if __name__ == "__main__":
    main()
