"""Asks the etcd member on this host whether it is part of the quorum, and for the revision of its own data."""

from __future__ import annotations

import json
import sys

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import etcd_facts


def main() -> None:
    """Print `healthy`, its `revision` (0: unknown), and what it `said`."""
    try:
        found = etcd_facts.server("", [])
        answer = {"healthy": found["healthy"], "revision": found["revision"], "said": found["said"]}
    except (Failed, OSError, ValueError) as error:
        answer = {"healthy": False, "revision": 0, "said": str(error)}
    sys.stdout.write(json.dumps(answer) + "\n")
