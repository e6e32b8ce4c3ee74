"""`lab up --bastion`: one machine through which all logins go, and the SSH configuration for it. Pure.

Its port, key and known_hosts line differ from the nodes', so that settings for a node never work for it.
"""

from __future__ import annotations

from pathlib import Path

from upgrader.lab.spec import Node, Placement

__all__ = ["bastion_files", "bastion_of", "firewall_files", "ssh_config"]


def bastion_of(placement: Placement) -> Node | None:
    """The lab's bastion, if it has one."""
    return next((node for node in placement.nodes if node.role == "bastion"), None)


def bastion_files(keys: Path) -> dict[str, tuple[str, int]]:
    """Files of the bastion: the operator's key for it may forward connections and run nothing.

    The lab's own key logs in as on every machine, for `lab shell`.
    """
    operator = (keys / "id_bastion.pub").read_text()
    allowed = f'restrict,port-forwarding,command="/bin/false" {operator}'
    return {"/root/.ssh/authorized_keys": ((keys / "id_ed25519.pub").read_text() + allowed, 0o600)}


def firewall_files(bastion: Node) -> dict[str, tuple[str, int]]:
    """Files of every other machine: its sshd gets no packets except from the bastion, as behind a firewall."""
    family = "ip6" if ":" in bastion.ssh_address else "ip"
    rules = f"""table inet bastion {{
    chain input {{
        type filter hook input priority filter; policy accept;
        iifname "lo" accept
        {family} saddr {bastion.ssh_address} tcp dport 22 accept
        tcp dport 22 drop
    }}
}}
"""
    return {"/etc/lab/firewall.nft": (rules, 0o644)}


def ssh_config(placement: Placement, bastion: Node) -> str:
    """OpenSSH's configuration for all machines, by name and by address; OpenSSH wants absolute paths in it."""
    folder = placement.folder / "ssh"
    hosts = [_host(bastion, folder / "id_bastion")]
    hosts += [_host(node, folder / "id_ed25519", bastion.name) for node in placement.nodes if node != bastion]
    common = {
        "User": "root",
        "IdentitiesOnly": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": _quoted(folder / "known_hosts"),
        "GlobalKnownHostsFile": "none",
    }
    return "\n".join([*hosts, _block("*", common)])


def _host(node: Node, key: Path, jump: str = "") -> str:
    options = {"HostName": node.ssh_address, "Port": str(node.ssh_port), "IdentityFile": _quoted(key)}
    return _block(f"{node.name} {node.ssh_address}", options | ({"ProxyJump": jump} if jump else {}))


def _block(patterns: str, options: dict[str, str]) -> str:
    return "".join([f"Host {patterns}\n", *(f"    {name} {value}\n" for name, value in options.items())])


def _quoted(path: Path) -> str:
    return '"' + str(path).replace("%", "%%") + '"'
