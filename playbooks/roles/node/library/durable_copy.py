"""Ansible module: put a file in place whole, and onto the disk."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_files import Owner, copier, owner_of, replace, sha256_of, text_writer

DOCUMENTATION = r"""
module: durable_copy
short_description: Put a file in place whole, and onto the disk
description:
  - Writes beside the destination, flushes to the disk, then renames. After a power cut there is the old file or the new
    one. ansible.builtin.copy doesn't flush.
author: [The upgrader authors]
options:
  dest:
    description: Where the file goes. Owner and mode stay, narrowed by `mode`; a new file is root's, with mode 0755 from
      `src`, else 0644.
    type: path
    required: true
  src:
    description: A file on the node.
    type: path
  sha256:
    description: What the content of `src` must be. Needed in check mode, where `src` need not exist yet.
    type: str
  content:
    description: The text, instead of `src`.
    type: str
  mode:
    description: The mode of a new file, in octal digits, instead of the one above. A file that is there loses
      what this doesn't allow, also where its content stays.
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
sha256: {description: What is, or would be, at `dest`., type: str, returned: success}
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
