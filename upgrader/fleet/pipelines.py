"""`upgrader fleet render`: a campaign as a pipeline of GitHub, GitLab or Argo Workflows, which then runs it.

A pipeline has the campaign's stages in their order, with their approvals, the time of their soaks, failure domains,
and batches of `maxConcurrency` clusters. It ends after the batch in which a cluster fails; `left_out` names the rules
of a campaign that it lacks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upgrader.app.ci_jobs import is_plain, refuse_odd_path, repository_of
from upgrader.errors import UsageError
from upgrader.fleet.model import Fleet, FleetCluster
from upgrader.model.time_text import duration
from upgrader.rendering import Templates

__all__ = ["PipelineForm", "left_out", "pipeline"]

PipelineForm = Literal["github", "gitlab", "argo"]
_LONGEST_SOAK_SECONDS = 7 * 86400
"""Of one stage on GitLab: what a delayed job can wait for."""
_LONGEST_SOAKS_SECONDS = 30 * 86400
"""Of all stages on GitHub, with five days left for the runs."""
_MOST_AT_ONCE = {"github": 256, "gitlab": 200}
"""Jobs of one matrix."""
_LONGEST_NAME = 255
"""Of a job of GitLab; with a longer one, it creates no pipeline, and doesn't say why."""
_MOST_BYTES = {"github": 500_000}
"""Of a workflow's file; GitHub starts nothing of a longer one."""
_FILES = {"github": "github.yml.j2", "gitlab": "gitlab.yml.j2", "argo": "argo.yaml.j2"}


@dataclass(frozen=True)
class _Cluster:
    name: str
    folder: str
    """In the repository."""


@dataclass(frozen=True)
class _Part:
    """Clusters of one stage and one failure domain; the parts run one after the other."""

    number: int
    stage: str
    """As no cluster has an underscore in its name, `fleet_STAGE` is no cluster's environment."""
    name: str
    clusters: tuple[_Cluster, ...]
    at_once: int
    approval: bool
    """Whether a person approves it first."""
    soak_seconds: int
    """How long the stage before it soaks."""

    @property
    def batches(self) -> tuple[tuple[_Cluster, ...], ...]:
        """The clusters in groups that may run at once."""
        begins = range(0, len(self.clusters), self.at_once)
        return tuple(self.clusters[begin : begin + self.at_once] for begin in begins)


def pipeline(fleet: Fleet, form: PipelineForm, folder: Path) -> str:
    """The pipeline's file; `folder` is the fleet's, in a git repository with all folders of its clusters.

    Raises UsageError for a cluster folder that the repository can't have, for soaks that are too long and for more
    batches than its program takes, and ConfigError for a template of the user's that can't be rendered.
    """
    for stage in fleet.stages[:-1] if form == "gitlab" else ():
        if stage.soak_seconds > _LONGEST_SOAK_SECONDS:
            raise UsageError(
                f"stage {stage.name} soaks for {duration(stage.soak_seconds)}, but a delayed job of GitLab can wait "
                f"for {duration(_LONGEST_SOAK_SECONDS)} at most",
                remedy="Use `upgrader fleet run`, or a shorter soak.",
            )
    waits = sum(stage.soak_seconds for stage in fleet.stages[:-1])
    if form == "github" and waits > _LONGEST_SOAKS_SECONDS:
        raise UsageError(
            f"the soaks take {duration(waits)}, but GitHub cancels a workflow after 35 days, with the runs in it",
            remedy="Use `upgrader fleet run`, or shorter soaks.",
        )
    home = folder.absolute()
    root = repository_of(home) or home
    parts = tuple(_parts(fleet, root, _MOST_AT_ONCE.get(form, len(fleet.clusters))))
    for part in parts if form == "gitlab" else ():
        for each in part.clusters:
            if len(f"part-{part.number}-{len(part.batches)}: [{each.name}, {each.folder}]") > _LONGEST_NAME:
                raise UsageError(
                    f"GitLab can't have a job for {each.name}: its name, with {each.folder}, would have more than "
                    f"{_LONGEST_NAME} characters",
                    remedy="Move the folder to a shorter path.",
                )
    text = Templates.of_user(os.environ).render(
        f"pipelines/{_FILES[form]}",
        goal=str(fleet.goal),
        parts=parts,
        command=" ".join(fleet.goal.command),
        left_out=left_out(fleet),
        image=fleet.jobs.image if fleet.jobs else "",
    )
    if (size := len(text.encode())) > _MOST_BYTES.get(form, size):
        raise UsageError(
            f"the pipeline would have {size} bytes, but GitHub starts no workflow of more than {_MOST_BYTES[form]}",
            remedy="Use `upgrader fleet run`, or a larger `maxConcurrency`: each batch is a job of its own.",
        )
    return text


def left_out(fleet: Fleet) -> tuple[str, ...]:
    """The rules of a campaign that its pipeline doesn't have."""
    stages = fleet.stages
    lacks = {
        "windows": bool(fleet.windows),
        "exclusions": bool(fleet.exclusions),
        "soak.minRequests": any(stage.soak_requests for stage in stages),
        "soak.gates": any(stage.soak_gates for stage in stages),
        "soak.restart": any(stage.soak_restart for stage in stages),
        "the last stage's soak": bool(stages[-1].soak_seconds),
    }
    return (*(name for name, lacking in lacks.items() if lacking), "maxFailures", "onUnreachable", "uid")


def _parts(fleet: Fleet, root: Path, most: int) -> Iterator[_Part]:
    number, soak = 0, 0.0
    for stage in fleet.stages:
        members = fleet.members[stage.name]
        at_once = min(stage.max_concurrency.at_once(len(members)), most)
        for place, domain in enumerate(dict.fromkeys(fleet.domain_of(each.name) for each in members)):
            mine = tuple(_cluster(each, root) for each in members if fleet.domain_of(each.name) == domain)
            number += 1
            first = (stage.approval, round(soak)) if not place else (False, 0)
            shown = domain if is_plain(domain) else ""  # a label's value may be an expression, or two lines
            name = f"{stage.name} {shown}".strip()
            yield _Part(number, stage.name, name, mine, min(at_once, len(mine)), *first)
        soak = stage.soak_seconds


def _cluster(cluster: FleetCluster, root: Path) -> _Cluster:
    try:
        inside = cluster.folder.resolve().relative_to(root.resolve())
    except ValueError:
        raise UsageError(
            f"{cluster.folder}, the folder of cluster {cluster.name}, is not in the repository {root}: its job would "
            "not have it",
            remedy="Move it there, or name the cluster in `exclude`.",
        ) from None
    refuse_odd_path(inside)
    return _Cluster(cluster.name, inside.as_posix())
