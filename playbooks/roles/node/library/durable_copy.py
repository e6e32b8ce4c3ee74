"""Ansible module: put a file in place whole, and onto the disk."""

from __future__ import annotations

import os
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_files import Owner, copier, owner_of, replace, sha256_of, text_writer

DOCUMENTATION = r"""
module: durable_copy
short_description: Replace files atomically, and flush them to the disk
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
  files:
    description: Several files of the folder O(src), by their names, each with the SHA-256 that it must have. They are
      put into the folder O(dest) in one task, in the order of their names, up to the first that can't be.
    type: dict
"""

EXAMPLES = r"""
- name: Put the kubelet in place
  durable_copy:
    src: /var/lib/upgrader/node-stage/v1.37.1/kubelet
    dest: /usr/bin/kubelet
    sha256: "{{ node_source.sha256.kubelet }}"
"""

RETURN = r"""
diff: {description: What changes in each file., type: list, returned: success}
"""


def _text(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def main() -> None:
    """Answer Ansible."""
    arguments = {
        name: {"type": kind}
        for name, kind in (("src", "path"), ("sha256", "str"), ("content", "str"), ("mode", "str"), ("files", "dict"))
    }
    module = AnsibleModule(
        {"dest": {"type": "path", "required": True}, **arguments},
        required_one_of=[("src", "content")],
        mutually_exclusive=[("src", "content"), ("sha256", "files")],
        required_if=[("content", None, ("sha256", "files"), True)],
        required_by={"files": ("src",)},
        supports_check_mode=True,
    )
    changed, diff = False, []
    for wanted in _each(module.params):
        differs, shown = _put(module, wanted)
        changed = changed or differs
        diff.append(shown)
    module.exit_json(changed=changed, diff=diff)


def _each(wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """What is wanted of each file."""
    if wanted["files"] is None:
        return [wanted]
    folders = {name: wanted[name] for name in ("src", "dest")}
    return [
        {**wanted, "sha256": sha256, **{key: os.path.join(folder, name) for key, folder in folders.items()}}
        for name, sha256 in sorted(wanted["files"].items())
    ]


def _put(module: AnsibleModule, wanted: dict[str, Any]) -> tuple[bool, dict[str, str]]:
    """Put one file in place, unless it is there. Returns whether it wasn't, and the difference."""
    src, dest, content, sha256 = (wanted[name] for name in ("src", "dest", "content", "sha256"))
    before = sha256_of(dest)
    if content is not None:
        changed = before == "" or _text(dest) != content
        diff = {"before": _text(dest), "after": content}
    else:
        changed = before != sha256
        diff = {"before": f"SHA-256 {before or '-'}\n", "after": f"SHA-256 {sha256}\n"}
    mode = int(wanted["mode"] or ("644" if src is None else "755"), 8)
    owner = there = owner_of(dest)
    if owner is None:
        owner = Owner(mode, 0, 0)
    elif wanted["mode"]:
        owner = owner._replace(mode=owner.mode & mode)
    changed = changed or owner != there
    if changed and not module.check_mode:
        try:
            write = text_writer(content) if src is None else copier(src)
            replace(dest, write, owner, sha256=sha256 or "")
        except (OSError, ValueError) as error:
            module.fail_json(msg=f"{dest} could not be written, and is as it was: {error}")
    return changed, {"before_header": dest, "after_header": dest, **diff}


if __name__ == "__main__":
    main()
