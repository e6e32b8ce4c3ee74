"""`upgrader fleet init`: the two files of a fleet folder, for the cluster folders that are in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from upgrader.config.fleet_yaml import is_name
from upgrader.config.yaml_document import typed
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import Blocked, UpgraderError, UsageError
from upgrader.fleet.clusters import Answer, ask_cluster, private_kubeconfig
from upgrader.fleet.inputs import kubeconfig_of
from upgrader.model.first_few import first_few
from upgrader.model.natural_order import natural
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.version import KubernetesVersion
from upgrader.rendering import Templates

__all__ = ["ProposedFleet", "propose_fleet"]

_CLUSTERS = "clusters"
_FILES = ("fleet-inventory.yaml", "fleet.yaml")


@dataclass(frozen=True)
class ProposedFleet:
    """Both files. Nothing was written."""

    folder: Path
    texts: Mapping[Path, str]

    def write(self) -> None:
        """Write both, or none. Raises OSError."""
        written = list[Path]()
        try:
            for path, text in self.texts.items():
                write_atomic(path, text.encode())
                written.append(path)
        except OSError:
            for path in written:
                path.unlink()
            raise


def propose_fleet(
    folder: Path,
    target: KubernetesVersion,
    commands: Collection[str],
    doing: Callable[[str], None],
    ask: Callable[[Path], Answer] = ask_cluster,
) -> ProposedFleet:
    """A campaign to `target` of the clusters in `clusters/`: first one as the canary; after an approval, the others.

    Each cluster is asked for its UID; `commands` are those that kubeconfigs may run for credentials. Raises UsageError
    where there are no cluster folders, one's name can't be a cluster's, or one of the files is there already, and
    Blocked where a cluster's UID isn't known, or two folders lead to one cluster.
    """
    for name in _FILES:
        if (folder / name).exists():
            raise UsageError(
                f"{folder / name} exists already; nothing was written",
                remedy="Add further clusters to fleet-inventory.yaml by hand; docs/fleet.md has its format.",
            )
    found = [path.parent for path in (folder / _CLUSTERS).glob("*/upgrader.yaml")]
    found.sort(key=lambda each: natural(each.name))
    if not found:
        raise UsageError(
            f"{folder / _CLUSTERS} has no cluster folder",
            remedy=f"Write one for each cluster: upgrader -C {typed(folder / _CLUSTERS)}/NAME init",
        )
    if odd := [repr(each.name) for each in found if not is_name(each.name)]:
        raise UsageError(
            f"no cluster of a fleet can have the name {first_few(odd)} of its folder; nothing was written",
            remedy="Rename the folder: at most 63 lower-case letters, digits, '-' and '.'.",
        )
    uids, unknown = dict[str, str](), list[str]()
    for number, each in enumerate(found, 1):
        doing(f"asking {each.name} ({number} of {len(found)})…")
        try:
            uids[each.name] = _uid(each, commands, ask)
        except UpgraderError as error:
            unknown.append(f"{each.name}: {error.message}")
    doing("")
    if unknown:
        raise Blocked(
            f"it is unknown which clusters these folders are for: {first_few(unknown)}; nothing was written",
            remedy="Fix their kubeconfigs, or move their folders away. To allow a kubeconfig's command: --exec COMMAND",
        )
    for name, uid in uids.items():
        if twins := [other for other in uids if other != name and uids[other] == uid]:
            raise Blocked(
                f"{name} and {first_few(twins)} are folders of the same cluster; nothing was written",
                remedy="Give each cluster one folder.",
            )
    templates, values = Templates.of_user(os.environ), {"uids": uids, "target": str(target), "commands": commands}
    return ProposedFleet(folder, {folder / name: templates.render(f"fleet/{name}.j2", **values) for name in _FILES})


def _uid(folder: Path, commands: Collection[str], ask: Callable[[Path], Answer]) -> str:
    with KNOWN.apart():
        try:
            with private_kubeconfig(kubeconfig_of(folder, commands, os.environ)) as kubeconfig:
                return ask(kubeconfig).uid
        except UpgraderError as error:
            error.message = KNOWN.mask(error.message)
            raise
