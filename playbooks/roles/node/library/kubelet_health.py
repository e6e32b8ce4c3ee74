"""Ansible module: wait until the kubelet is healthy."""

from __future__ import annotations

import http.client
import subprocess
import time
import urllib.error
import urllib.request

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.kubelet_healthz import healthz_url
from ansible.module_utils.kubelet_unit import UnitError, read_unit

DOCUMENTATION = r"""
module: kubelet_health
short_description: Wait until the kubelet is healthy
description:
  - Waits until the installed kubelet runs, and its health endpoint answers that it is healthy. Changes nothing.
author: [The upgrader authors]
options:
  url:
    description: The URL of the kubelet's health endpoint. By default, it is read from the kubelet's flags and
      configuration.
    type: str
    default: ""
  seconds:
    description: How long to wait, in seconds.
    type: int
    default: 120
  unit:
    description: The name of the kubelet's systemd unit.
    type: str
    default: kubelet.service
"""

EXAMPLES = r"""
- name: Wait until the kubelet is healthy
  kubelet_health:
"""

RETURN = r"""
seconds: {description: How long the module waited., type: float, returned: success}
"""


def main() -> None:
    """Answer Ansible."""
    arguments = {
        "url": {"type": "str", "default": ""},
        "seconds": {"type": "int", "default": 120},
        "unit": {"type": "str", "default": "kubelet.service"},
    }
    module = AnsibleModule(arguments, supports_check_mode=True)
    url, unit, begun = module.params["url"], module.params["unit"], time.monotonic()
    while True:
        wrong = _wrong(url, unit)
        waited = time.monotonic() - begun
        if not wrong:
            module.exit_json(changed=False, seconds=round(waited, 1))
        if waited > module.params["seconds"]:
            break
        time.sleep(0.5)
    module.fail_json(msg=f"waited {waited:.0f} s for a healthy kubelet: {wrong}. Its last log lines: {_said(unit)}")


def _wrong(url: str, unit: str) -> str:
    try:
        found = read_unit(unit)
        if not found.current():
            return f"{unit} isn't running, or wasn't restarted after its program or files changed"
        url = url or healthz_url(found)
        if not url:
            return ""  # it says nothing of itself, by its own configuration
        # Not by a proxy: this is the node's own address.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=5) as answer:
            return "" if answer.status == 200 else f"{url} answers {answer.status}"
    except urllib.error.HTTPError as error:
        return f"{url} answers {error.code}"
    except (UnitError, OSError, ValueError, http.client.HTTPException) as error:
        return f"{url}: {error}" if url else str(error)


def _said(unit: str) -> str:
    """The kubelet's last lines that are errors, or its last lines."""
    command = ["journalctl", "--unit", unit, "--lines=60", "--no-pager", "--output=cat"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"its log can't be read: {error}"
    lines = [line[:400] for line in done.stdout.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E", "F", "panic:")) and not line.startswith("Flag ")]
    return " / ".join((errors or lines)[-2:]) or "nothing"


if __name__ == "__main__":
    main()
