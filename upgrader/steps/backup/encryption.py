"""Whether a controller has the keys of data that is encrypted in etcd: `/etc/kubernetes` isn't part of a restore."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.model.first_few import first_few
from upgrader.model.go_yaml import first_document
from upgrader.ports import Hosts

__all__ = ["EncryptionFiles", "check_keys", "encryption_files"]

# Of an adopted kube-apiserver only the checkpoints are on disk; its manifest is there while a standby pod serves.
_FIND = r"""cd -- "$1" || exit 1
grep -rhoE -e '--encryption-provider-config[= ]"?[^"[:space:],]+' manifests checkpointer/workloads 2>/dev/null |
  sed -E 's/^[^= ]*[= ]"?//' | sort -u | while read -r path; do
    if [ -e "$path" ]; then echo "$path"; else echo "$path" >&2; fi
  done
exit 0
"""


@dataclass(frozen=True)
class EncryptionFiles:
    """The encryption configurations of kube-apiserver on a controller, those of older checkpoints included."""

    there: tuple[str, ...]
    elsewhere: tuple[str, ...]
    """Those that aren't files there: they are mounted from another file system, such as that of a Secret."""


def encryption_files(hosts: Hosts, host: Host) -> EncryptionFiles:
    """Find them. Raises HostError."""
    found = hosts.run(host, ["sh", "-c", _FIND, "sh", "/etc/kubernetes"])
    return EncryptionFiles(tuple(found.stdout.split()), tuple(found.stderr.split()))


def check_keys(hosts: Hosts, host: Host, needed: Collection[str], note: Callable[[str], None]) -> None:
    """Raise HostError if the data has values of a key that no configuration there has: no API server could read them.

    `needed`: provider and name of each key, as in `aescbc key1`. What can't be known is only noted: a controller whose
    disk is new has neither.
    """
    if not needed:
        return
    files = encryption_files(hosts, host)
    known, unread = set[str](), [*files.elsewhere]
    for path in files.there:
        try:
            known |= set(_keys(first_document(hosts.read(host, path) or b"")))
        except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError):
            unread.append(path)
    missing = sorted({*needed} - known)
    if not missing:
        return
    if unread or not files.there:
        where = f"{first_few(unread)} can't be read" if unread else "no encryption configuration was found"
        note(f"{host.name}: it is unknown whether kube-apiserver can decrypt the data ({first_few(missing)}): {where}")
        return
    raise HostError(
        f"{host.name}: the backup has values that are encrypted with {first_few(missing)}, which "
        f"{first_few(files.there)} doesn't have: no kube-apiserver would be able to decrypt them. Nothing was stopped",
        remedy="On every controller, add the key as the last one of its provider; the backup has the configuration "
        "with that key, in controllers/NAME.tar. Then run the same command again.",
    )


def _keys(configuration: Mapping[str, Any]) -> Iterator[str]:
    """As the data names them: up to the first colon, as Kubernetes allows colons in a name, and writes one after it."""
    for resource in configuration["resources"]:
        for one in resource["providers"]:
            for provider, settings in one.items():
                named = [settings] if provider == "kms" else (settings or {}).get("keys") or ()
                yield from (f"{provider} {each['name'].partition(':')[0]}" for each in named)
