"""Offline: each release's chart renders with its values, and its schema accepts them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from upgrader.config.refused_chart import with_files
from upgrader.config.untrusted_folder import NotOpened
from upgrader.config.yaml_document import shown
from upgrader.errors import ChartRefused, UpgraderError
from upgrader.model.finding import Finding
from upgrader.model.release import ReleaseSpec
from upgrader.preflight.folder_context import FolderContext
from upgrader.preflight.folder_files import as_finding

__all__ = ["check_charts"]

_NOT_THERE = "missing in charts/ directory"


def check_charts(context: FolderContext, rendered: dict[str, str]) -> Iterator[Finding]:
    """Render every release; `rendered` gets the manifests (by name) of those that can be."""
    target = context.reading.settings.target if context.reading.settings else None
    for spec in context.releases:
        try:
            if spec.chart.is_relative_to(context.guard.root):  # the built-in charts are not
                context.guard.check_tree(spec.chart)
            rendered[spec.name] = context.helm.render(spec, target=target, offline=True)
        except NotOpened as error:
            yield as_finding(error)
        except ChartRefused as error:
            file = context.values_file(spec.name)
            yield _refused(spec, with_files(error, spec.name, spec.chart, file), file)
        except UpgraderError as error:
            yield _refused(spec, error, context.values_file(spec.name))


def _refused(spec: ReleaseSpec, error: UpgraderError, file: Path | None) -> Finding:
    if _NOT_THERE in error.message:
        return Finding(
            "charts.dependency",
            "unknown",
            f"release {spec.name}: dependencies of chart {shown(spec.chart)} are missing",
            f"{error.message}\nThe chart can't be rendered: upgrader doesn't download chart dependencies.",
            "Put them into its charts/ folder: commit them, or run `helm dependency build` first.",
        )
    return Finding(
        "charts.refused",
        "error",
        f"release {spec.name}: {shown(spec.chart)} doesn't render with its values",
        error.message,
        f"See: helm template {spec.name} {shown(spec.chart)}{_values(file)}",
    )


def _values(file: Path | None) -> str:
    """Helm's option for a release's values; nothing where it has none, or a file that isn't there."""
    return f" --values {shown(file)}" if file is not None and file.is_file() else ""
