"""How long Helm may take for a change before it is ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from upgrader.errors import ApiUnavailable, HelmError
from upgrader.model.manifest import objects_in

__all__ = ["PENDING", "ROLLBACKS", "UNDONE_UPGRADES", "UPGRADES", "HelmLimit", "awaited_hooks"]

UPGRADES = ({"pre-install", "post-install"}, {"pre-upgrade", "post-upgrade"})
"""The events of hooks that an upgrade waits for, which may be an installation."""
UNDONE_UPGRADES = (
    {"pre-install", "post-install", "pre-delete", "post-delete"},
    {"pre-upgrade", "post-upgrade", "pre-rollback", "post-rollback"},
)
"""The same for one that Helm itself undoes if it fails."""
ROLLBACKS = ({"pre-rollback", "post-rollback"},)
PENDING: Mapping[str, Collection[Collection[str]]] = {
    "pending-install": ({"pre-install", "post-install"},),
    "pending-upgrade": ({"pre-upgrade", "post-upgrade"},),
    "pending-rollback": ROLLBACKS,
    "uninstalling": ({"pre-delete", "post-delete"},),
}
"""Status of a revision → the events of the hooks that Helm waits for as long as it has that status."""

_HOOK = "helm.sh/hook"
_MOST_HOOKS = 20
"""That a change is waited for: a chart's author decides how many it has."""
_UNKNOWN_HOOKS = 1
"""Where they can't be read: Helm gets the time of another wait, after which they are read again."""


@dataclass(frozen=True)
class HelmLimit:
    """Helm's timeout is that of each wait, and it waits for each hook, one after the other, and for the workloads; once
    more for those of before, where it undoes an upgrade that has failed. That it doesn't interrupt for a SIGTERM: it
    would be killed, and the release would stay `pending-rollback`.

    Hooks are read only once Helm has taken longer than without any: most changes end sooner, and an API that doesn't
    answer just before Helm is run, or is slow, would end or delay it for nothing.
    """

    timeout_seconds: float
    spare_seconds: float
    """How much longer Helm may take, beside its waits."""
    events: Collection[Collection[str]]
    """Of the hooks that are waited for: those of one of these."""
    read: Callable[[], str]
    """The YAML in which the hooks are; raises HelmError or ApiUnavailable."""
    waits: int = 1
    """How often the workloads are waited for."""

    @property
    def seconds(self) -> float:
        """Without hooks."""
        return self._with(0)

    def extended(self) -> float:
        """Seconds with the hooks that there are."""
        return self._with(awaited_hooks(self.read, self.events))

    def _with(self, hooks: int) -> float:
        return self.timeout_seconds * (self.waits + hooks) + self.spare_seconds


def awaited_hooks(read: Callable[[], str], events: Collection[Collection[str]]) -> int:
    """How many hooks Helm waits for, one after the other. `read` and `events` as of a HelmLimit."""
    try:
        items = objects_in(read()).values()
    except (ApiUnavailable, HelmError):
        return _UNKNOWN_HOOKS
    values = (((item.get("metadata") or {}).get("annotations") or {}).get(_HOOK) for item in items)
    found = [{each.strip() for each in str(value or "").split(",")} for value in values]
    return min(_MOST_HOOKS, sum(max(len(each.intersection(kind)) for kind in events) for each in found))
