"""etcd's member on a controller, as kubeadm's static pod manifest describes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import yaml

from upgrader.contract.flags import command_line, last_values
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.model.go_yaml import first_document
from upgrader.model.host_path import on_node
from upgrader.ports import Hosts

__all__ = ["ASIDE", "MANIFEST", "EtcdMember", "initial_cluster", "read_member"]

MANIFEST = "/etc/kubernetes/manifests/etcd.yaml"
ASIDE = "/etc/kubernetes/upgrader/restore/etcd.yaml"
"""Where a restore keeps the manifest while etcd must not start: a reboot meanwhile must not start it either."""

_FOLDER = re.compile(r"/[A-Za-z0-9._/-]+")


@dataclass(frozen=True)
class EtcdMember:
    """What is needed to talk to a member, and to make its data anew."""

    host: Host
    image: str
    name: str
    peer_url: str
    client_url: str
    data_dir: str
    """On the host."""
    cluster_token: str
    """"" where the manifest has none: etcd's own default."""
    wal_dir: str = ""
    """Where it writes ahead, if that is elsewhere than in its data."""
    flags: tuple[str, ...] = ()
    """The names of all its flags, without dashes."""
    use: str = ""
    """What a backup or a rehearsal names its own folder and pods by; "" for all of them, which a restore takes over."""

    @property
    def work_place(self) -> str:
        """The folder of backups, rehearsals and restores: root's alone, on etcd's own disk."""
        return f"{self.data_dir}/upgrader"

    @property
    def work(self) -> str:
        """The folder of this use."""
        return f"{self.work_place}/{self.use}" if self.use else self.work_place


def read_member(hosts: Hosts, host: Host) -> EtcdMember:
    """Read it over SSH. Raises HostError where there is none, or it can't be understood."""
    content = hosts.read(host, MANIFEST)
    if content is None:
        content = hosts.read(host, ASIDE)  # a restore was interrupted
    if content is None:
        raise HostError(
            f"{host.name}: etcd is not a static pod here: {MANIFEST} doesn't exist",
            remedy="upgrader backs up only etcd that kubeadm runs as static pods. Back up an external etcd with "
            "etcdctl.",
        )
    try:
        spec = first_document(content)["spec"]
        container = spec["containers"][0]
        flags = last_values(command_line(container))
        return _member(host, str(container["image"]), flags, lambda path: on_node(spec, container, path) or path)
    except (yaml.YAMLError, AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise HostError(
            f"{host.name}: {MANIFEST} can't be parsed: {error}", remedy="Compare it with another controller's."
        ) from error


def initial_cluster(members: Sequence[EtcdMember]) -> str:
    """All members, as etcd's flag names them. A manifest names only those that were there when its member joined."""
    return ",".join(f"{member.name}={member.peer_url}" for member in members)


def _member(host: Host, image: str, flags: Mapping[str, str], on_host: Callable[[str], str]) -> EtcdMember:
    data_dir = on_host(flags.get("data-dir", "/var/lib/etcd").rstrip("/"))
    if not _FOLDER.fullmatch(data_dir) or ".." in data_dir:
        raise ValueError(f"--data-dir={data_dir}")
    urls = flags.get("listen-client-urls", "https://127.0.0.1:2379").split(",")
    return EtcdMember(
        host=host,
        image=image,
        name=flags.get("name", host.name),
        peer_url=flags["initial-advertise-peer-urls"],
        client_url=_reachable(next((url for url in urls if "127.0.0.1" in url), urls[0])),
        data_dir=data_dir,
        cluster_token=flags.get("initial-cluster-token", ""),
        wal_dir=flags.get("wal-dir", ""),
        flags=tuple(sorted(flags)),
    )


def _reachable(url: str) -> str:
    """An address that its certificate has, for one that means all."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//127.0.0.1:")
