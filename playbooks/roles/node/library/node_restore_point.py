"""Ansible module: what a node had before its upgrade."""

from __future__ import annotations

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.restore_point import (
    DONE,
    KEPT,
    RESTORED,
    SWAPPING,
    UNDOABLE,
    Unusable,
    differing,
    mark,
    put_back,
    read,
    take,
)

DOCUMENTATION = r"""
module: node_restore_point
short_description: Save files of a node before its upgrade, and restore them
author: [The upgrader authors]
options:
  folder:
    description: The folder of the restore point. Only root may write there.
    type: path
    required: true
  state:
    description:
      - V(kept) saves the files at O(paths), unless an interrupted upgrade has already saved them.
      - V(swapping) records that the files at O(paths) are about to change.
      - V(done) records that the upgrade has succeeded, V(restored) that everything is restored.
      - V(put_back) restores every file that differs from the saved one; with O(paths), only these.
      - V(read) only reads the restore point.
    type: str
    choices: [read, kept, swapping, done, put_back, restored]
    default: read
  target:
    description: The version that the node is upgraded to. V(put_back) and V(restored) undo only that upgrade.
    type: str
    default: ""
  paths:
    description: Files that the upgrade may change. V(put_back) removes a file that didn't exist.
    type: list
    elements: path
    default: []
  more:
    description: Facts to save with the files.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Keep the kubelet
  node_restore_point:
    folder: /var/lib/upgrader/node-restore
    state: kept
    target: v1.37.1
    paths: [/usr/bin/kubelet]
"""

RETURN = r"""
point: {description: "State, target and facts of the restore point; empty if there is none.", type: dict,
  returned: success}
paths: {description: The files that differ from the restore point., type: list, returned: success}
"""


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule(
        {
            "folder": {"type": "path", "required": True},
            "state": {
                "type": "str",
                "default": "read",
                "choices": ["read", KEPT, SWAPPING, DONE, "put_back", RESTORED],
            },
            "target": {"type": "str", "default": ""},
            "paths": {"type": "list", "elements": "path", "default": []},
            "more": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    asked = module.params
    folder, state, target, dry = asked["folder"], asked["state"], asked["target"], module.check_mode
    changed = False
    paths: list[str] = []
    try:
        point = read(folder)
        if state == KEPT:
            changed = take(folder, target, asked["paths"], asked["more"], dry=dry)
        elif point and (not target or point["target"] == target):
            paths = differing(point) if point["state"] in UNDOABLE else []
            if state == "put_back" and point["state"] in UNDOABLE:
                changed = bool(put_back(folder, point, asked["paths"], dry=dry))
            elif state in (SWAPPING, DONE, RESTORED):
                changed = mark(folder, state, dry=dry)
        else:
            point = None
    except (Unusable, OSError, ValueError) as error:
        module.fail_json(msg=str(error))
    shown = {key: value for key, value in (point or {}).items() if key != "files"}
    diff = {"before": "", "after": "".join(f"{path}\n" for path in paths)} if state == "put_back" else {}
    module.exit_json(changed=changed, point=shown, paths=paths, diff=diff)


if __name__ == "__main__":
    main()
