"""Programs of a controller that use its API at a loopback address, and that no certificate or kubeconfig shows.

kube-vip's static pod knows the API as `kubernetes`, which its `hostAliases` lead to 127.0.0.1, or a file of the
controller that it has at /etc/hosts. keepalived asks localhost whether this controller is healthy. If nothing listens
there any more, both release the virtual IP.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from upgrader.adopt.hosts_file import HOSTS_FILE, read_hosts_file
from upgrader.model import limited_yaml
from upgrader.model.cluster import Host
from upgrader.model.host_path import on_node
from upgrader.ports import Hosts

__all__ = ["local_names"]

_MANIFESTS = """
for file in /etc/kubernetes/manifests/*.yaml /etc/kubernetes/manifests/*.yml; do
  [ ! -f "$file" ] || { echo; echo ---; cat "$file"; }
done
"""
# keepalived's configuration names its scripts, which may be anywhere.
_SCRIPTS = r"""
named='s/^[[:space:]]*script[[:space:]]*["'\'']*\(\/[^[:space:]"'\'']*\).*/\1/p'
set -- /etc/keepalived /etc/haproxy /etc/kubernetes/manifests
for file in $(sed -n "$named" /etc/keepalived/*.conf 2>/dev/null); do set -- "$@" "$file"; done
grep -rhE '(localhost|ip6-loopback|127\.0\.0\.1|::1)' "$@" 2>/dev/null || true
"""


def local_names(hosts: Hosts, host: Host, port: int, known: frozenset[str]) -> Iterator[str]:
    """Loopback addresses, or names of them, at which such programs ask for the API. `known`: the certificate's names.

    Raises HostError.
    """
    for spec in _pods(hosts.run(host, ["sh", "-c", _MANIFESTS]).stdout):
        for alias in spec.get("hostAliases") or ():
            if known.intersection(map(str, alias.get("hostnames") or ())):
                yield str(alias["ip"])
        for path in _hosts_files(spec):
            for name, addresses in read_hosts_file(hosts, host, path).items():
                yield from sorted(addresses) if name in known else ()
    asked = hosts.run(host, ["sh", "-c", _SCRIPTS]).stdout
    # https://localhost:6443, /dev/tcp/127.0.0.1/6443, `nc -z localhost 6443`, or a port that is a variable of a shell.
    # Debian's and Red Hat's names of ::1 come first: `localhost` in them isn't localhost, which is 127.0.0.1, too.
    own_names = r"ip6-localhost|ip6-loopback|localhost6(?:\.localdomain6)?|localhost"
    pattern = rf"({own_names}|127\.0\.0\.1|(?<![0-9a-f:])::1)\]?[:/ ]+(?:{port}\b|\$)"
    yield from sorted(set(re.findall(pattern, asked)))


def _pods(manifests: str) -> Iterator[Mapping[str, Any]]:
    """The spec of each."""
    for text in re.split(r"(?m)^---\s*$", manifests):
        try:
            pod = limited_yaml.load(text)
        except yaml.YAMLError:
            continue  # the kubelet can't read it either
        if isinstance(pod, dict) and isinstance(pod.get("spec"), dict):
            yield pod["spec"]


def _hosts_files(spec: Mapping[str, Any]) -> Iterator[str]:
    """Files of the controller that a pod's containers have in place of its /etc/hosts.

    Only those that are mounted just there: in a folder at /etc, the kubelet puts a file of its own in their place.
    """
    for container in spec.get("containers") or ():
        mounts = container.get("volumeMounts") or ()
        if not any(str(mount.get("mountPath")).rstrip("/") == HOSTS_FILE for mount in mounts):
            continue
        try:
            path = on_node(spec, container, HOSTS_FILE)
        except KeyError:
            continue  # it isn't a file of the controller, or only the kubelet knows which
        if path:
            yield path
