"""Only the owner can read the private keys in the inventory, because OpenSSH ignores other keys."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.preflight.context import PreflightContext
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import planned_of
from upgrader.steps.playbook.plan import PlannedPlaybook

__all__ = ["check_key_files"]


def check_key_files(context: PreflightContext) -> Iterator[Finding]:
    """Each key file of the machines and of their bastions. upgrader itself accepts any mode, so its own SSH works, but
    Ansible would fail in the middle of a run.
    """
    refuses = cache(context.ssh_refuses)
    found: dict[Path, list[str]] = {}
    for host in context.cluster.hosts:
        for machine in (*host.jumps, host):
            keys = [key for key in (machine.key_file, *machine.more_keys) if key is not None]
            refused = [key for key in keys if refuses(key)]
            for key in refused:
                left = found.setdefault(key, [])
                spare = len(refused) < len(keys) or (context.ssh_agent and not machine.identities_only)
                if not spare and host.name not in left:
                    left.append(host.name)
    for key, hosts in found.items():
        needed = (
            f"{first_few(hosts)}: no other key is available."
            if hosts
            else "Each machine might accept other keys, or those of the agent."
        )
        yield Finding(
            "ssh-keys.open",
            "error" if hosts and _runs_ansible(context) else "warning",
            f"other users can read {key}: ssh ignores such a private key",
            f"Ansible logs in with ssh, which reports UNPROTECTED PRIVATE KEY FILE. {needed}",
            f"chmod 600 {shlex.quote(str(key))}",
        )


def _runs_ansible(context: PreflightContext) -> bool:
    upgraded = any(step.nodes for step in planned_of(context.plan, PlannedNodes))
    return upgraded or bool(planned_of(context.plan, PlannedPlaybook))
