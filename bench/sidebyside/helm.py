"""Bare Helm as a patient operator uses it: when it gives up, they check, and try again."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Sequence
from typing import Any

from bench.recovery.measure import Site
from testkit.lab_cluster import until
from upgrader.errors import ApiError
from upgrader.ports import Kind

__all__ = ["PATIENCE_SECONDS", "api_answers", "deployed_revision", "roll_back", "rolled_out", "message_of", "upgrade"]

PATIENCE_SECONDS = 600.0
_WAIT = ("--wait", "--timeout", "3m")


def upgrade(site: Site, release: str, words: Sequence[str], *, wait: bool = True) -> list[str]:
    """Repeat `helm upgrade RELEASE WORDS` until it succeeds; returns the errors before that.

    A pending release is rolled back first, as Helm allows nothing else. Raises TimeoutError.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    good = deployed_revision(site, release)
    wrong: list[str] = []
    while True:
        try:
            site.cluster.helm("upgrade", release, *words, *(_WAIT if wait else ()), timeout_seconds=200)
            return wrong
        except ApiError as error:
            wrong.append(message_of(error))
        if time.monotonic() > end:
            raise TimeoutError(f"helm upgrade {release}: {wrong[-1]}")
        if _pending(site, release):
            roll_back(site, release, good, end - time.monotonic())
        time.sleep(1)


def message_of(error: ApiError) -> str:
    """Helm's error message: its last line, without the command."""
    return textwrap.shorten(error.message.splitlines()[-1].rpartition("Error: ")[2], 160, placeholder=" …")


def roll_back(site: Site, release: str, revision: int, patience_seconds: float) -> int:
    """Repeat `helm rollback --wait` until it succeeds; returns the number of tries. Raises TimeoutError."""
    end = time.monotonic() + patience_seconds
    tries = 1
    while True:
        try:
            site.cluster.helm("rollback", release, str(revision), *_WAIT, timeout_seconds=200)
            return tries
        except ApiError as error:
            if time.monotonic() > end:
                raise TimeoutError(f"helm rollback {release}: {error.message}") from error
        tries += 1
        time.sleep(1)


def deployed_revision(site: Site, release: str) -> int:
    """The present revision; waits for an API that is unreachable for a moment."""
    found: list[int] = []

    def looked() -> bool:
        found[:] = [int(site.cluster.releases()[release]["revision"])]
        return True

    until(f"release {release}", looked, timeout_seconds=120)
    return found[0]


def rolled_out(site: Site, plural: str, name: str) -> bool:
    """What `kubectl rollout status` waits for, of a DaemonSet or a Deployment."""
    found: Any = site.cluster.kube.get(Kind("apps/v1", plural), name, "kube-system")
    status = found["status"]
    wanted = status.get("desiredNumberScheduled", found["spec"].get("replicas"))
    updated = status.get("updatedNumberScheduled", status.get("updatedReplicas", 0))
    available = status.get("numberAvailable", status.get("availableReplicas", 0))
    return bool(
        status.get("observedGeneration") == found["metadata"]["generation"]
        and updated == wanted
        and available == wanted
    )


def api_answers(site: Site) -> bool:
    """Whether the API is ready."""
    try:
        site.cluster.kube.raw("/readyz")
    except ApiError:
        return False
    return True


def _pending(site: Site, release: str) -> bool:
    try:
        return str(site.cluster.releases()[release]["status"]).startswith("pending")
    except (ApiError, KeyError):
        return False
