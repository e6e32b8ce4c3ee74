"""`upgrader init`: writes the folder of a cluster that runs already."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from upgrader.app.cluster_survey import FoundCluster, survey
from upgrader.app.wiring import open_stranger
from upgrader.config.kubeconfig_context import kubectl_context
from upgrader.config.yaml_document import shown
from upgrader.config.yaml_schema import schema_text
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import ApiUnavailable, HostUnreachable
from upgrader.model.host_key import HostKey
from upgrader.ports import HostKeys, Kube
from upgrader.rendering import Templates

__all__ = ["Login", "ProposedFolder", "look_at_cluster", "propose_folder"]

_KUBECONFIG = "kubeconfig"


@dataclass(frozen=True)
class Login:
    """How machines are logged in to: `key` is a private key's file; None: the agent's, or ssh's usual ones."""

    user: str = "root"
    key: Path | None = None


@dataclass(frozen=True)
class ProposedFolder:
    """What was found, and what can be written. Nothing was."""

    folder: Path
    login: Login
    context: str
    kubeconfig: Path
    cluster: FoundCluster
    keys: Mapping[str, HostKey]
    """Controller → the key that it shows, which a person has to compare."""
    silent: Mapping[str, str]
    """Controller → why it showed none."""

    @property
    def links_kubeconfig(self) -> bool:
        """Whether the folder gets a link to the kubeconfig: it has none of its own."""
        return not (self.folder / _KUBECONFIG).exists()

    @property
    def kept(self) -> tuple[Path, ...]:
        """Files that are there already, and stay as they are."""
        return tuple(path for path in self._texts(trust=True) if path.exists())

    def files(self, *, trust: bool) -> Mapping[Path, str]:
        """New files, with their text; with the host keys only if the operator has compared them (`trust`)."""
        return {path: text for path, text in self._texts(trust=trust).items() if not path.exists()}

    def write(self, *, trust: bool) -> None:
        """Write what isn't there yet. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for path, text in self.files(trust=trust).items():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_atomic(path, text.encode())
        if self.links_kubeconfig:
            (self.folder / _KUBECONFIG).symlink_to(self.kubeconfig)

    def _texts(self, *, trust: bool) -> Mapping[Path, str]:
        known_hosts, cluster = self.folder / "ssh" / "known_hosts", self.cluster
        trusted, templates = trust and bool(self.keys), Templates.of_user(os.environ)
        texts = {
            self.folder / "upgrader.yaml": templates.render(
                "folder/upgrader.yaml.j2", version=str(cluster.version), context=self.context
            ),
            self.folder / "upgrader.schema.json": schema_text(),
            self.folder / "hosts.yml": templates.render(
                "folder/hosts.yml.j2",
                user=self.login.user,
                key=str(self.login.key or ""),
                known_hosts=trusted or known_hosts.exists(),
                groups=(("controllers", cluster.controllers), ("workers", cluster.workers)),
            ),
            self.folder / ".gitignore": templates.render("folder/gitignore.j2"),
        }
        lines = (self.keys[node.name].line(node.address) for node in cluster.controllers if node.name in self.keys)
        return {**texts, known_hosts: "".join(lines)} if trusted else texts


def look_at_cluster(folder: Path, login: Login) -> ProposedFolder:
    """Ask the cluster to which the environment's kubeconfig leads. Changes nothing. Raises UpgraderError."""
    kubeconfig, context = kubectl_context(os.environ)
    try:
        with open_stranger(kubeconfig, context) as (kube, host_keys):
            return propose_folder(folder, kube, host_keys, login, kubeconfig=kubeconfig, context=context)
    except ApiUnavailable as error:
        # No `recover` without a folder: what asks controllers over SSH has to know them.
        asked = f"kubectl --kubeconfig {shown(kubeconfig)} --context {context} get nodes"
        raise ApiUnavailable(
            error.message,
            remedy=f"Check the kubeconfig's address and the connection to it: {asked}. `init` needs a cluster that "
            "answers; otherwise, write the folder by hand (docs/getting-started.md#the-cluster-folder).",
        ) from error


def propose_folder(
    folder: Path, kube: Kube, host_keys: HostKeys, login: Login, *, kubeconfig: Path, context: str
) -> ProposedFolder:
    """The same of any API and any machines."""
    cluster = survey(kube)
    keys: dict[str, HostKey] = {}
    silent: dict[str, str] = {}
    for node in cluster.controllers:
        try:
            keys[node.name] = host_keys.read(node.address)
        except HostUnreachable as error:
            silent[node.name] = error.message
    return ProposedFolder(folder, login, context, kubeconfig, cluster, keys, silent)
