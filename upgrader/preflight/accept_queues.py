"""When a kube-apiserver stops listening, the controller's kernel passes its queued connections to another one."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.model.host_sysctls import ORIGINALS, SYSCTLS
from upgrader.onhost.facts.identity_facts import MIGRATE_REQ
from upgrader.onhost.sending.host_facts import Unknown
from upgrader.preflight.context import PreflightContext

__all__ = ["check_accept_queues"]

_RELEASE = "kube-apiserver"
_KEPT = f"{ORIGINALS}/{MIGRATE_REQ}"
_SET = (
    f"install -d -m 0700 {ORIGINALS} && {{ [ -e {_KEPT} ] || sysctl -n {MIGRATE_REQ} > {_KEPT}; }} && "
    f"echo {MIGRATE_REQ}=1 > {SYSCTLS} && sysctl -p {SYSCTLS}"
)
"""As an adoption does it, whose undo returns the sysctl to what it was."""


def check_accept_queues(context: PreflightContext) -> Iterator[Finding]:
    """The kernel of each controller moves queued connections to the next kube-apiserver, where it is able to."""
    release = context.observed.releases.get(_RELEASE)
    if release is None or not release.history:
        return  # no two kube-apiservers share an address before the adoption, which sets it
    for name, facts in context.facts.items():
        if isinstance(facts.identity, Unknown):
            yield Finding(
                "accept-queues.unread",
                "warning",
                f"{name}: {MIGRATE_REQ} can't be read",
                facts.identity.why,
                f"Read it on {name}: sysctl {MIGRATE_REQ}",
            )
        elif facts.identity.migrate_req not in (None, 1):
            yield Finding(
                "accept-queues.dropped",
                "warning",
                f"{name}: {MIGRATE_REQ} is {facts.identity.migrate_req}, not 1",
                "When a kube-apiserver is replaced there, the kernel resets connections that the old one has not "
                "accepted yet, although the new one already listens at the same address.",
                f"On {name}, as root: {_SET} (`upgrader adopt --undo` reverts it)",
            )
