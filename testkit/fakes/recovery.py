"""An in-memory recovery: it makes a FakeKube reachable again, or raises the scripted error."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from testkit.fakes.kube import FakeKube
from upgrader.errors import RollbackFailed, UpgraderError

__all__ = ["FakeRecovery"]


class FakeRecovery:
    """`ports.Recovery` for a FakeKube: afterwards `/readyz` holds, or the scripted error was raised."""

    def __init__(self, kube: FakeKube) -> None:
        self._kube = kube
        self.error: UpgraderError | OSError | None = None
        self.calls = 0
        self.replaced: list[datetime] = []
        """The moments since which pods were replaced."""
        self.newer = True
        """Whether there are such pods."""
        self.refused_too = True
        """Whether a standby pod refuses what they refuse."""
        self.credentials = False
        """Whether the kubeconfig's credentials alone are to blame for a refusal."""

    def blames_credentials(self) -> bool:
        return self.credentials

    def bring_api_back(self, note: Callable[[str], None]) -> None:
        self.calls += 1
        note("examining the controllers")
        if self.error is not None:
            raise self.error
        self._kube.unavailable, self._kube.refuses_all = False, None
        self._kube.raw_answers["/readyz"] = "ok"

    def replace_newer(self, since: datetime, why: str, note: Callable[[str], None], *, compared: bool = False) -> bool:
        if compared and self.refused_too:
            raise RollbackFailed("a standby pod of another generation rejects the same requests")
        self.bring_api_back(note)
        self.replaced.append(since)
        return self.newer
