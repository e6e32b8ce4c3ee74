"""etcd answers, on each controller, at the addresses and with the certificates of the planned kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.etcd_client import EtcdClient
from upgrader.model.finding import Finding
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.planned_commands import PlannedCommand, planned_commands

__all__ = ["check_planned_etcd"]


def check_planned_etcd(context: PreflightContext) -> Iterator[Finding]:
    """Asked over SSH; a kube-apiserver that can't reach etcd ends again and again."""
    for command in planned_commands(context):
        client = _client(command) if command.component == "kube-apiserver" else None
        for host in context.cluster.controllers if client else ():
            if host.name not in context.facts or client is None:
                continue  # why it can't be examined is another finding
            answers = context.ask_etcd(host, client)
            if answers is None:
                yield Finding(
                    "planned-etcd.unread",
                    "info",
                    f"{host.name}: whether etcd answers the planned kube-apiserver was not tried",
                    f"Its certificates are not on the controller ({client.certificate}).",
                )
                continue
            silent = {url: why for url, why in answers.items() if why}
            if silent:
                yield Finding(
                    "planned-etcd.unanswered",
                    "warning" if len(silent) < len(answers) else "error",
                    f"{host.name}: no etcd answers the planned kube-apiserver at {', '.join(silent)}",
                    "\n".join(f"{url}: {why}" for url, why in silent.items()),
                    f"Correct etcd.servers, or what extraArgs sets of etcd, in the values of release "
                    f"{command.release.name}.",
                )


def _client(command: PlannedCommand) -> EtcdClient | None:
    """All addresses of its flags, those of single resources, too; None where there are none."""
    servers = (command.value("etcd-servers") or "").split(",")
    for override in (command.value("etcd-servers-overrides") or "").split(","):
        servers += override.partition("#")[2].split(";")
    named = tuple(dict.fromkeys(each.strip() for each in servers if each.strip()))
    files = (command.value(flag) or "" for flag in ("etcd-cafile", "etcd-certfile", "etcd-keyfile"))
    return EtcdClient(named, *files) if named else None
