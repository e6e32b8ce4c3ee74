"""How OpenSSH would connect to a host: with Ansible's arguments, and everything that its own configuration adds.

`ssh -G` prints the configuration that `ssh` would use. Ansible connects with the same `ssh`, so both go the same way;
reading the files ourselves would get `Include`, `Match` and the order of precedence wrong sooner or later. Options that
upgrader can't follow are refused by their names.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from upgrader.errors import ConfigError
from upgrader.model.cluster import NO_FILE, Host

__all__ = ["check_host_keys", "options_in", "resolve", "with_options"]

_SECONDS = 15.0
_MOST_JUMPS = 8

_DEFAULT_KEYS = frozenset(
    f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "xmss", "dsa")
)
_DEFAULT_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")

_UNSUPPORTED = {
    "addressfamily": ("AddressFamily", ("any",)),
    "bindaddress": ("BindAddress", ()),
    "bindinterface": ("BindInterface", ()),
    "certificatefile": ("CertificateFile", ()),
    "identityagent": ("IdentityAgent", ("SSH_AUTH_SOCK", "$SSH_AUTH_SOCK")),
    "knownhostscommand": ("KnownHostsCommand", ("none",)),
    "nohostauthenticationforlocalhost": ("NoHostAuthenticationForLocalhost", ("no", "false")),
    "pkcs11provider": ("PKCS11Provider", ("none",)),
    "proxyusefdpass": ("ProxyUseFdpass", ("no", "false")),
    "revokedhostkeys": ("RevokedHostKeys", ("none",)),
    "verifyhostkeydns": ("VerifyHostKeyDNS", ("no", "false", "ask")),
}
"""Options that change the target of a connection, or the trusted keys: their names, and the values that change
nothing.
"""


def resolve(where: str, host: Host, arguments: Sequence[str]) -> Host:
    """The host as `ssh ARGUMENTS ADDRESS` would connect to it. Raises ConfigError for what isn't supported.

    The host's own key takes precedence over those in OpenSSH's configuration.
    """
    found = _configuration(where, arguments, host.address)
    return with_options(where, host, found, _jumps(where, found, _file(arguments), _MOST_JUMPS))


def with_options(where: str, host: Host, found: Mapping[str, Sequence[str]], jumps: tuple[Host, ...] = ()) -> Host:
    """The host with what `ssh -G` printed for it: a list of values for each option in lower case."""

    def one(name: str) -> str:
        return found.get(name, [""])[0]

    check_host_keys(where, one("stricthostkeychecking"))
    for option, (name, harmless) in _UNSUPPORTED.items():
        if (value := one(option)) and value not in harmless:
            raise ConfigError(
                f"{where}: SSH option {name} ({value}) is not supported",
                remedy=f"Remove {name} from the inventory's SSH arguments and from ~/.ssh/config for this host.",
            )
    tokens = _tokens(host, found)

    def path_of(option: str, name: str) -> Path:
        return _expanded(_without_tokens(where, option, name, tokens))

    keys = [key for key in found.get("identityfile", ()) if key not in _DEFAULT_KEYS and key != "none"]
    key_paths = [file for key in keys if (file := _identity(path_of("IdentityFile", key))) is not None]
    key_paths = [path for path in key_paths if path != host.key_file]
    first, more = (host.key_file, key_paths) if host.key_file else (None, key_paths)
    if first is None and more:
        first, more = more[0], more[1:]
    known = one("userknownhostsfile").split()
    files = [
        path_of("UserKnownHostsFile", name) for name in known if name != "none"
    ]  # ssh prints the default ones with the home folder
    standard = files == [_expanded(name) for name in _DEFAULT_KNOWN_HOSTS]
    others = (files if standard else files[1:]) + [_expanded(name) for name in one("globalknownhostsfile").split()]
    default = _expanded(_DEFAULT_KNOWN_HOSTS[0])
    proxy_command = one("proxycommand")
    return replace(
        host,
        address=one("hostname") or host.address,
        user=one("user") or host.user,
        port=int(one("port") or host.port),
        key_file=first,
        more_keys=tuple(more),
        identities_only=one("identitiesonly") in ("yes", "true"),
        known_hosts=None if standard or not known else files[0] if files else NO_FILE,
        more_known_hosts=tuple(path for path in others if path != default and path.exists()),
        host_key_alias=one("hostkeyalias"),
        proxy_command="" if proxy_command == "none" else proxy_command,
        jumps=jumps,
    )


def check_host_keys(where: str, value: str) -> None:
    """Raise ConfigError for a value of StrictHostKeyChecking with which an unknown machine is trusted."""
    if value.lower() in ("no", "off", "false", "accept-new"):
        raise ConfigError(
            f"{where}: StrictHostKeyChecking={value} would trust an unverified machine",
            remedy="Remove it (from the inventory's SSH arguments, ansible.cfg or ~/.ssh/config), and add the host's "
            "key to known_hosts.",
        )


def options_in(arguments: Sequence[str]) -> Mapping[str, str]:
    """The `-o NAME=VALUE` options among ssh's arguments, names in lower case. As in ssh, the first of two wins."""
    words = iter(arguments)
    options: dict[str, str] = {}
    for word in words:
        if word.startswith("-o"):
            option = (word[2:] or next(words, "")).strip()
            name, *values = re.split(r"[=\s]+", option, maxsplit=1)
            options.setdefault(name.lower(), values[0].strip("\"'") if values else "")
    return options


def _jumps(where: str, found: Mapping[str, Sequence[str]], file: Sequence[str], left: int) -> tuple[Host, ...]:
    """The bastions of ProxyJump, the first one first; each has its own options, and its host key is verified."""
    text = found.get("proxyjump", ["none"])[0]
    if text == "none":
        return ()
    if left == 0:
        raise ConfigError(f"{where}: ProxyJump loops: its bastions refer to each other")
    jumps: tuple[Host, ...] = ()
    for item in text.split(","):
        user, address, port = _destination(where, item)
        arguments = [*file, *(["-l", user] if user else []), *(["-p", port] if port else [])]
        named = f"{where}: bastion '{address}'"
        configuration = _configuration(named, arguments, address)
        before = jumps or _jumps(named, configuration, file, left - 1)
        if jumps:
            configuration = {**configuration, "proxycommand": ["none"]}
        jumps = (*before, with_options(named, Host(address, address), configuration))
    return jumps


def _destination(where: str, text: str) -> tuple[str, str, str]:
    """User, address and port of `[USER@]HOST[:PORT]` or `ssh://…`; "" where there is none."""
    pattern = r"(?:ssh://)?(?:(?P<user>.+)@)?(?:\[(?P<v6>[^]]+)\]|(?P<host>[^:]+|[0-9a-fA-F:]+))(?::(?P<port>\d+))?/?"
    match = re.fullmatch(pattern, text.strip())
    if match is None:
        raise ConfigError(f"{where}: ProxyJump '{text}' is not [USER@]HOST[:PORT]")
    return match["user"] or "", match["v6"] or match["host"], match["port"] or ""


def _file(arguments: Sequence[str]) -> list[str]:
    """`-F FILE`, which ssh passes on to its jumps, as it does no other argument."""
    for index, word in enumerate(arguments):
        if word.startswith("-F"):
            return ["-F", word[2:] or (arguments[index + 1] if index + 1 < len(arguments) else "none")]
    return []


def _configuration(where: str, arguments: Sequence[str], address: str) -> Mapping[str, list[str]]:
    try:
        done = subprocess.run(
            ["ssh", "-G", *arguments, "--", address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise ConfigError(
            f"{where}: the program `ssh`, which Ansible uses, was not found",
            remedy="Install the OpenSSH client.",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            f"{where}: `ssh -G` timed out after {_SECONDS:.0f} s",
            remedy="Check the `Match exec` lines of the SSH configuration.",
        ) from error
    if done.returncode:
        raise ConfigError(
            f"{where}: ssh refuses its options: {done.stderr.strip()}", remedy=f"Try it manually: ssh -G {address}"
        )
    found: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        found.setdefault(name.lower(), []).append(value.strip())
    return found


def _tokens(host: Host, found: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    """OpenSSH's tokens in file names (TOKENS in ssh_config(5)); `host` is as it was given to `ssh -G`."""
    address, port, user, alias, jump = (
        found.get(name, [""])[0] for name in ("hostname", "port", "user", "hostkeyalias", "proxyjump")
    )
    return {
        "%": "%",
        "d": os.path.expanduser("~"),
        "h": address or host.address,
        "i": str(os.getuid()),
        "j": "" if jump == "none" else jump,
        "k": alias or host.address,
        "L": socket.gethostname().partition(".")[0],
        "l": socket.gethostname(),
        "n": host.address,
        "p": port or str(host.port),
        "r": user or host.user,
        "u": getpass.getuser(),
    }


def _without_tokens(where: str, option: str, name: str, tokens: Mapping[str, str]) -> str:
    """`ssh -G` prints the tokens of some options as they are written. Raises ConfigError for an unknown one: it may
    lead to another file.
    """

    def replaced(match: re.Match[str]) -> str:
        if match[1] not in tokens:
            raise ConfigError(
                f"{where}: token %{match[1]} of SSH option {option} ({name}) is not supported",
                remedy=f"Remove it from the file's name, or use one of %{', %'.join(tokens)}.",
            )
        return tokens[match[1]]

    return re.sub(r"%(.?)", replaced, name)


def _identity(path: Path) -> Path | None:
    """The file of a key; its public half if only that exists, and an agent has the other; None for none."""
    return next((file for file in (path, path.with_name(f"{path.name}.pub")) if file.exists()), None)


def _expanded(name: str) -> Path:
    return Path(os.path.expandvars(name)).expanduser()
