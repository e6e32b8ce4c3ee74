"""Writes fields into ConfigMap `kubelet-config`, so that nodes which join later get what the others have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.errors import ApiError, ApiUnavailable, StepFailed
from upgrader.model.kubelet_config import BEFORE, KUBELET, KUBELET_CONFIG_MAP, KubeletConfig
from upgrader.model.own_steps import KUBELET_CONFIG
from upgrader.model.release import RestorePoint
from upgrader.ports import Clock, Kind, Kube, KubeObject
from upgrader.wait_and_retry import may_be_repeated, retry

__all__ = ["KubeletConfigStep"]

_CONFIG_MAPS = Kind("v1", "configmaps")
_SYSTEM = "kube-system"
_ATTEMPTS = 6
_PAUSE_SECONDS = 5.0
_NAME = f"ConfigMap {_SYSTEM}/{KUBELET_CONFIG_MAP}"
_REMEDY = f"Check its content: kubectl -n {_SYSTEM} get configmap {KUBELET_CONFIG_MAP} -o yaml"


@dataclass(frozen=True)
class KubeletConfigStep:
    """The text from before is kept in an annotation, written in the same request; the journal has only its digest.
    Safe to repeat: it writes nothing where the fields are there.
    """

    kube: Kube
    clock: Clock
    fields: Mapping[str, Any]
    name: str = KUBELET_CONFIG

    def summary(self) -> str:
        return f"{', '.join(self.fields)}, for nodes that join later"

    def capture(self) -> RestorePoint:
        """Of the text that is there. Raises StepFailed where it can't be changed."""
        try:
            found = KubeletConfig.of(self._read())
            found.having(self.fields)
        except ValueError as error:
            raise _unchangeable(error) from error
        return RestorePoint(kubelet=found.digest)

    def apply(self, note: Callable[[str], None]) -> None:
        """Raises StepFailed where it can't be written."""
        try:
            self._patiently(lambda: self._write(note), note)
        except ApiError as error:
            raise StepFailed(f"{_NAME}: {error.message}", remedy=error.remedy) from error

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises ApiUnavailable where nothing answers. One that is gone, that somebody else has changed, or a change
        that is refused, is no reason to leave the rest as it is.
        """
        assert point.kubelet, "this step can only undo its own restore point"
        digest = point.kubelet
        try:
            self._patiently(lambda: self._write_back(digest, note), note)
        except ApiUnavailable:
            raise
        except (StepFailed, ApiError) as error:
            note(f"it is not restored: {error.message}")

    def _write(self, note: Callable[[str], None]) -> None:
        found = self._read()
        now = KubeletConfig.of(found)
        try:
            wanted = now.having(self.fields)
            lacking = ", ".join(now.lacks(self.fields))
        except ValueError as error:
            raise _unchangeable(error) from error
        if wanted == now:
            note("it has all fields")
            return
        self._patch(found, wanted.text, now.as_before(wanted))
        note(f"changed: {lacking}")

    def _write_back(self, digest: str, note: Callable[[str], None]) -> None:
        found = self._read()
        now = KubeletConfig.of(found)
        if now.digest == digest:
            note("it is unchanged")
            return
        before = now.before(str((found["metadata"].get("annotations") or {}).get(BEFORE)), digest)
        if before is None:
            raise StepFailed(f"{_NAME} was changed by another client since", remedy=_REMEDY)
        self._patch(found, before.text, None)
        note("the previous text is restored")

    def _patch(self, found: KubeObject, text: str, annotation: str | None) -> None:
        changes = {
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"], "annotations": {BEFORE: annotation}},
            "data": {KUBELET: text},
        }
        self.kube.patch(_CONFIG_MAPS, KUBELET_CONFIG_MAP, changes, _SYSTEM)

    def _patiently(self, work: Callable[[], None], note: Callable[[str], None]) -> None:
        """Where somebody writes it at the same moment, what they wrote is read, and changed in turn."""
        what = f"the API to accept a change of {_NAME}"
        retry(self.clock, work, pause=_pause, attempts=_ATTEMPTS, what=what, note=note)

    def _read(self) -> KubeObject:
        found = self.kube.get(_CONFIG_MAPS, KUBELET_CONFIG_MAP, _SYSTEM)
        if found is None:
            raise StepFailed(
                f"{_NAME} was deleted after the run was planned",
                remedy="Have kubeadm write it again (kubeadm init phase upload-config kubelet --config FILE); or run "
                "`upgrader rollback`, then start a new run, which skips this step.",
            )
        return found


def _pause(error: Exception) -> float | None:
    return _PAUSE_SECONDS if may_be_repeated(error) else None


def _unchangeable(error: ValueError) -> StepFailed:
    return StepFailed(f"{_NAME} can't be changed: {error}", remedy=_REMEDY)
