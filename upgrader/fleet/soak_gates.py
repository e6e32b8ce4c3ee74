"""Asks the metric gates that a soak names: as the approved folder of each cluster defines them, of its own Prometheus.

A folder may be another team's. Its settings are those that the approved digest covers, and files with credentials are
read as plain files, not through links: what is put in their place later isn't sent to a server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from upgrader.app.wiring import prometheus_at
from upgrader.config.plain_file import read_plain
from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import UpgraderError, UsageError
from upgrader.fleet.clusters import private_folder
from upgrader.fleet.inputs import approved_settings
from upgrader.gates.metric_gate import asked_after
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.observability import HttpEndpoint
from upgrader.model.outcome import VerdictKind
from upgrader.model.settings import Settings
from upgrader.ports import Prometheus

__all__ = ["GateAnswer", "SoakGates", "refuse_missing_gates"]

_FILE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class GateAnswer:
    """What the gates of a cluster say."""

    gate: str = ""
    """The first one that doesn't pass; "": all do, or it is `unknown` which ones do."""
    reason: str = ""
    deadline_seconds: float = GatePolicy().deadline_seconds
    """How long it may take to pass, as after a step of a run."""
    unknown: bool = False
    """Whether not even the first one was asked."""

    @property
    def passes(self) -> bool:
        """Whether all of them do."""
        return not self.gate and not self.unknown

    def unasked(self, why: str) -> GateAnswer:
        """That this gate can't be asked, or none of them can."""
        return replace(self, reason=f"{'they' if self.unknown else 'it'} can't be queried: {why}")


@dataclass
class SoakGates:
    """Asks the gates of clusters, and remembers what was approved of each."""

    prometheus: Callable[[HttpEndpoint], Prometheus] = prometheus_at
    _approved: dict[tuple[Path, str], Settings] = field(default_factory=dict)

    def ask(
        self, folder: Path, files: str, names: Sequence[str], seconds: float, about: Callable[[GateAnswer], object]
    ) -> GateAnswer:
        """What the gates with these names say, so many seconds after the cluster's run; `files` is the approved digest
        of its folder. One that can't be asked doesn't pass. `about` gets each one before it is asked, without a reason:
        who waits for the answer no longer knows then which one has none.
        """
        asked = GateAnswer(unknown=True)
        try:
            settings = self._settings(folder, files)
            refuse_missing_gates(settings, names)
            with self._server(settings) as server:
                for gate in (each for each in settings.all_metric_gates if each.name in names):
                    asked = GateAnswer(gate.name, deadline_seconds=gate.policy.deadline_seconds)
                    about(asked)
                    verdict = asked_after(server, gate, seconds)
                    if verdict.kind is not VerdictKind.HOLDS:
                        return replace(asked, reason=verdict.reason)
        except (UpgraderError, OSError) as error:
            return asked.unasked(
                error.message if isinstance(error, UpgraderError) else f"{error.filename}: {error.strerror}"
            )
        return GateAnswer()

    def _settings(self, folder: Path, files: str) -> Settings:
        """As approved, whatever becomes of the folder later."""
        known = self._approved.get((folder, files))
        if known is None:
            known = self._approved[folder, files] = approved_settings(folder, files)
        return known

    @contextmanager
    def _server(self, settings: Settings) -> Iterator[Prometheus]:
        """With private copies of its files. Raises OSError for one that can't be read."""
        endpoint = settings.observability.prometheus
        assert endpoint is not None, "metric gates need one"
        with private_folder() as private:

            def copy(path: Path | None, name: str) -> Path | None:
                if path is None:
                    return None
                inside = path.is_relative_to(settings.folder)
                write_atomic(private / name, read_plain(path, _FILE_BYTES, links=not inside))
                return private / name

            yield self.prometheus(
                replace(
                    endpoint,
                    password_file=copy(endpoint.password_file, "password"),
                    token_file=copy(endpoint.token_file, "token"),
                    ca_file=copy(endpoint.ca_file, "ca"),
                )
            )


def refuse_missing_gates(settings: Settings, names: Sequence[str]) -> None:
    """Raise UsageError where a cluster's settings lack a gate that its stage's soak names."""
    if missing := [name for name in names if name not in {each.name for each in settings.all_metric_gates}]:
        raise UsageError(
            f"upgrader.yaml has no metric gate {', '.join(missing)}, which the soak of its stage needs",
            remedy="Define it in `gates.metrics` of that file, or remove it from `soak.gates` in fleet.yaml.",
        )
