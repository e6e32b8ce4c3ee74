"""A cluster as its folder describes it: its machines, and how to reach them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Cluster", "Host"]


NO_FILE = Path("/dev/null")
"""As `known_hosts`: none, which `UserKnownHostsFile none` says, too."""
KEEP_KEYS = (
    "Remove UserKnownHostsFile (from the inventory's SSH arguments, ansible.cfg or ~/.ssh/config), so that keys are "
    "kept in ~/.ssh/known_hosts, or name a file there."
)
"""The remedy for that."""


@dataclass(frozen=True)
class Host:
    """One machine of the inventory. `name` is also its Kubernetes node name."""

    name: str
    address: str
    user: str = "root"
    port: int = 22
    key_file: Path | None = None
    known_hosts: Path | None = None
    become: bool = False
    """Whether commands need sudo (Ansible's `ansible_become`)."""
    become_password: str = field(default="", repr=False)
    """The password for sudo; "" if sudo needs none."""
    more_keys: tuple[Path, ...] = ()
    identities_only: bool = False
    """Whether SSH offers only the keys above, and none of the agent's."""
    more_known_hosts: tuple[Path, ...] = ()
    host_key_alias: str = ""
    """The name under which known_hosts has its key; "" for its address."""
    proxy_command: str = ""
    """A program whose stdin and stdout are the connection, with OpenSSH's tokens such as `%h`."""
    jumps: tuple[Host, ...] = ()
    """The bastions to go through, the first one first."""
    python: str = "python3"
    """What runs Python there (Ansible's `ansible_python_interpreter`), for the programs that are sent to it."""

    @property
    def forgets_keys(self) -> bool:
        """Whether SSH is to keep no machine's key, so that one in another file is needed."""
        return self.known_hosts == NO_FILE


@dataclass(frozen=True)
class Cluster:
    """The machines of a cluster and the files that describe it. All paths are absolute."""

    folder: Path
    kubeconfig: Path
    context: str
    inventory: Path
    controllers: tuple[Host, ...]
    workers: tuple[Host, ...] = ()
    load_balancers: tuple[Host, ...] = ()

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Every machine, controllers first."""
        return self.controllers + self.workers + self.load_balancers
