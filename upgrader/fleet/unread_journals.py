"""Why journals in a cluster can't be read, so that how runs ended isn't known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Unread"]


@dataclass(frozen=True)
class Unread:
    """Empty where all were read."""

    place: str = ""
    """Why none is known: such as that the cluster doesn't answer."""
    runs: Mapping[str, str] = field(default_factory=dict)
    """Why single ones aren't valid, by the run's name; without those whose end is known in the cluster folder."""

    def since(self, run: str) -> str:
        """Why what has happened since this run has begun isn't known; "" if it is. With "", since any.

        An older journal says nothing of it. The times in their names tell, as the journals don't.
        """
        return "; ".join((*filter(None, [self.place]), *(why for name, why in self.runs.items() if name >= run)))
