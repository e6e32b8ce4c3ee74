"""Has controllers' kernels hand queued connections on when one of several kube-apiservers stops listening.

While one replaces another, both listen at the same address (SO_REUSEPORT), and the kernel gives each of them a queue of
connections to accept. By default, it resets those that wait in a queue whose listener is closed; with the sysctl
`net.ipv4.tcp_migrate_req` (Linux 5.14), it moves them to the other one. A kubelet refuses such a sysctl for pods in the
host's network, so that it is set on the controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.model.host_sysctls import ORIGINALS, SYSCTLS, live_file
from upgrader.model.release import RestorePoint
from upgrader.onhost.facts.identity_facts import MIGRATE_REQ
from upgrader.ports import Hosts
from upgrader.steps.one_way import OneWay

__all__ = ["ResetQueuesStep", "SetQueuesStep"]

_PATHS = f"""
set -eu
root=${{1:-}}
live=$root{live_file(MIGRATE_REQ)}
file=$root{SYSCTLS}
folder=$root{ORIGINALS}
kept=$folder/{MIGRATE_REQ}
"""

_SET_ALREADY, _UNSUPPORTED, _REFUSED = 10, 11, 12
"""Exit codes; 0: it is set now."""

# What it was before is kept first, and once: what an interrupted step has written is not what it was.
_SET = f"""{_PATHS}
[ -e "$live" ] || exit {_UNSUPPORTED}
if [ ! -e "$kept" ]; then
    [ "$(cat "$live")" != 1 ] || exit {_SET_ALREADY}
    install -d -m 0700 "$folder"
    cat "$live" > "$kept.new"
    mv "$kept.new" "$kept"
fi
if ! (echo 1 > "$live") 2>/dev/null; then
    rm -f "$kept"
    exit {_REFUSED}
fi
mkdir -p "${{file%/*}}"
printf '%s\\n' "# Set by upgrader adopt; removed by upgrader adopt --undo." "{MIGRATE_REQ} = 1" > "$file.new"
chmod 0644 "$file.new"
mv "$file.new" "$file"
"""

_IS_SET = f"""{_PATHS}
[ -e "$kept" ]
"""

# A value that somebody else has set since stays.
_RESET = f"""{_PATHS}
[ -e "$kept" ] || exit 0
rm -f "$file"
if [ -e "$live" ] && [ "$(cat "$live")" = 1 ]; then
    cat "$kept" > "$live"
fi
rm -f "$kept"
"""

_LOST = "when a kube-apiserver stops there, the connections in its accept queue are reset"
_SAID = {
    0: f"{MIGRATE_REQ}=1 is set, and in {SYSCTLS}",
    _SET_ALREADY: f"{MIGRATE_REQ} was 1 already, and stays as it is",
    _UNSUPPORTED: f"the kernel has no {MIGRATE_REQ} (Linux 5.14 and later have it): {_LOST}",
    _REFUSED: f"the kernel refuses to set {MIGRATE_REQ}=1: {_LOST}",
}


@dataclass(frozen=True)
class SetQueuesStep:
    """Sets the sysctl at once and for later boots. A controller that can't have it is noted, and is no failure."""

    hosts: Hosts
    controllers: Sequence[Host]
    name: str = "accept-queues"

    def summary(self) -> str:
        return (
            f"set {MIGRATE_REQ}=1 on the controllers, so that a kube-apiserver drops no queued connection when it stops"
        )

    def capture(self) -> RestorePoint | None:
        """None where an adoption has set it before: it isn't this one's."""
        asked = (self.hosts.run(host, ["sh", "-c", _IS_SET, "sh"], check=False) for host in self.controllers)
        return None if any(each.exit_status == 0 for each in asked) else RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        for host in self.controllers:
            done = self.hosts.run(host, ["sh", "-c", _SET, "sh"], check=False)
            if done.exit_status not in _SAID:
                why = done.stderr.strip() or f"exit code {done.exit_status}"
                raise HostError(
                    f"{host.name}: {MIGRATE_REQ} can't be set: {why}",
                    remedy=f"Check that root can write {SYSCTLS} and {ORIGINALS} on {host.name}.",
                )
            note(f"{host.name}: {_SAID[done.exit_status]}")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """As it was before the first adoption of these controllers."""
        _reset(self.hosts, self.controllers)


@dataclass(frozen=True)
class ResetQueuesStep(OneWay):
    """Returns the sysctl to what it was before the adoption."""

    hosts: Hosts
    controllers: Sequence[Host]
    name: str = "accept-queues"

    def summary(self) -> str:
        return f"restore {MIGRATE_REQ} on the controllers to its value before the adoption"

    def apply(self, note: Callable[[str], None]) -> None:
        _reset(self.hosts, self.controllers)


def _reset(hosts: Hosts, controllers: Sequence[Host]) -> None:
    """On all of them, before it fails for the first that can't be reached."""
    failed: list[HostError] = []
    for host in controllers:
        try:
            hosts.run(host, ["sh", "-c", _RESET, "sh"])
        except HostError as error:
            failed.append(error)
    if failed:
        raise failed[0]
