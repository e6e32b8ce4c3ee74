"""etcd answers, on each controller, at the addresses and with the certificates of the planned kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from upgrader.model.cluster import Host
from upgrader.model.etcd_client import EtcdClient, etcd_servers
from upgrader.model.finding import Finding
from upgrader.preflight.context import PreflightContext
from upgrader.steps.release.planned_commands import PlannedCommand, planned_commands

__all__ = ["check_planned_etcd"]


def check_planned_etcd(context: PreflightContext) -> Iterator[Finding]:
    """Asked over SSH; a kube-apiserver that can't reach etcd ends again and again."""
    for command in planned_commands(context.changing, context.target):
        groups = etcd_servers(command.arguments or ()) if command.component == "kube-apiserver" else ()
        # Why a controller can't be examined is another finding.
        for host in context.cluster.controllers if groups else ():
            if host.name in context.facts:
                yield from _asked(context, host, command, groups)


def _asked(
    context: PreflightContext, host: Host, command: PlannedCommand, groups: Sequence[Sequence[str]]
) -> Iterator[Finding]:
    files = (command.value(flag) or "" for flag in ("etcd-cafile", "etcd-certfile", "etcd-keyfile"))
    client = EtcdClient(tuple(dict.fromkeys(url for group in groups for url in group)), *files)
    answers = context.ask_etcd(host, client)
    if answers is None:
        yield Finding(
            "planned-etcd.unread",
            "info",
            f"{host.name}: etcd's answer to the planned kube-apiserver was not tested",
            f"Its certificates are not on the controller ({client.certificate}).",
        )
        return
    silent = {url: why for url, why in answers.items() if why}
    if silent:
        lost = any(all(url in silent for url in group) for group in groups)
        yield Finding(
            "planned-etcd.unanswered",
            "error" if lost else "warning",
            f"{host.name}: etcd doesn't answer the planned kube-apiserver at {', '.join(silent)}",
            "\n".join(f"{url}: {why}" for url, why in silent.items()),
            f"Correct etcd.servers, or etcd's flags in extraArgs, in the values of release {command.release.name}.",
        )
