"""Ansible module: let static pods keep their UIDs, so that another kubelet doesn't start them anew."""

from __future__ import annotations

import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_files import Owner, owner_of, replace, text_writer
from ansible.module_utils.static_pods import identity, live_uids, pinned, running_uid

DOCUMENTATION = r"""
module: static_pods_kept
short_description: Write the UIDs of static pods into their manifests
description:
  - Writes the UID of each running static pod into its manifest. This changes nothing for the running kubelet, and a
    kubelet of another minor doesn't take the static pod for a new one. Without the UID, it would restart etcd.
  - A manifest that already has a UID is not changed, nor are the manifests that the pod-checkpointer writes.
author: [The upgrader authors]
options:
  folder:
    description: The kubelet's C(staticPodPath).
    type: path
    default: /etc/kubernetes/manifests
  logs:
    description: The kubelet's folder of pod logs.
    type: path
    default: /var/log/pods
"""

EXAMPLES = r"""
- name: Let etcd run on
  static_pods_kept:
"""

RETURN = r"""
restarted: {description: Manifests whose pods a kubelet of another minor will restart., type: list, returned: success}
"""


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule(
        {
            "folder": {"type": "path", "default": "/etc/kubernetes/manifests"},
            "logs": {"type": "path", "default": "/var/log/pods"},
        },
        supports_check_mode=True,
    )
    folder, live = module.params["folder"], live_uids()
    changed: list[str] = []
    unknown: list[str] = []
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith((".", "checkpoint-")) or not os.path.isfile(path):
            continue
        # Bytes that are no UTF-8 may be in a comment, and stay.
        with open(path, encoding="utf-8", errors="surrogateescape") as stream:
            text = stream.read()
        found = identity(text)
        if found and found[2]:
            continue
        uid = running_uid(found[0], found[1], module.params["logs"], live) if found else ""
        if not uid:
            unknown.append(path)
            continue
        changed.append(path)
        if not module.check_mode:
            try:
                replace(path, text_writer(pinned(text, uid)), owner_of(path) or Owner(0o600, 0, 0))
            except (OSError, ValueError) as error:
                module.fail_json(msg=f"{path} could not be written, and is as it was: {error}")
    for path in unknown:
        module.warn(f"{path}: the UID of its pod is unknown, so another kubelet will restart it")
    diff = {"before": "", "after": "".join(f"{path}: uid\n" for path in changed)}
    module.exit_json(changed=bool(changed), restarted=unknown, diff=diff)


if __name__ == "__main__":
    main()
