"""Ansible module: unpack a program on a node, and keep it only if it is the wanted one."""

from __future__ import annotations

import gzip
import os
import zlib

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.durable_files import TEMPORARY, Owner, copier, remove, replace

DOCUMENTATION = r"""
module: staged_program
short_description: Send a program to a node in compressed form
description:
  - The action of the same name compresses the program, once for all nodes, and sends it. It is unpacked beside its
    destination, flushed to the disk, and renamed once it has the SHA-256. It belongs to root, with mode 0700.
  - If the machine that runs Ansible has no room for the compressed program, M(ansible.builtin.copy) sends it as it is.
author: [The upgrader authors]
options:
  src:
    description: The program on the machine that runs Ansible.
    type: path
    required: true
  dest:
    description: The path of the program on the node.
    type: path
    required: true
  sha256:
    description: The SHA-256 that the program must have.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Copy the kubelet to the node
  staged_program:
    src: /srv/kubernetes/v1.37.1/kubelet
    dest: /var/lib/upgrader/node-stage/v1.37.1/kubelet
    sha256: "{{ node_source.sha256.kubelet }}"
"""

RETURN = r"""
sha256: {description: The SHA-256 of O(dest)., type: str, returned: success}
"""


def main() -> None:
    """Answer Ansible."""
    module = AnsibleModule(
        {
            "src": {"type": "path", "required": True},
            "dest": {"type": "path", "required": True},
            "sha256": {"type": "str", "required": True},
        }
    )
    src, dest, sha256 = (module.params[name] for name in ("src", "dest", "sha256"))
    folder, name = os.path.split(dest)
    # A task whose Ansible was killed may still unpack, beside the one of the next run.
    beside = os.path.join(folder, f"{TEMPORARY}{name}.{os.getpid()}")
    try:
        replace(dest, copier(src, gzip.open), Owner(0o700, 0, 0), sha256=sha256, beside=beside)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        module.fail_json(msg=f"{dest} could not be written, and is as it was: {error}")
    finally:
        remove(src)
    module.exit_json(changed=True, sha256=sha256)


if __name__ == "__main__":
    main()
