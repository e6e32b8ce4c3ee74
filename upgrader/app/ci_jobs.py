"""`upgrader init --ci`: writes the jobs that check, plan and upgrade a cluster when its folder changes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upgrader.engine.journal.atomic import write_atomic
from upgrader.errors import UsageError
from upgrader.rendering import Templates

__all__ = ["CiSystem", "ProposedJobs", "is_plain", "propose_jobs", "refuse_odd_path", "repository_of"]

CiSystem = Literal["github", "gitlab"]

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
"""What a folder in the repository may be called: its name is in expressions and shell scripts of the CI system."""


@dataclass(frozen=True)
class ProposedJobs:
    """The files of the CI system, and what is left for a person to do. Nothing was written."""

    system: CiSystem
    name: str
    """The cluster's, in the names of jobs and environments."""
    texts: Mapping[Path, str]
    include: str = ""
    """GitLab: the file that a `.gitlab-ci.yml` of one's own has to include; "" where nothing is to be done."""

    @property
    def kept(self) -> tuple[Path, ...]:
        """Files that are there already, and stay as they are."""
        return tuple(path for path in self.texts if path.exists())

    @property
    def files(self) -> Mapping[Path, str]:
        """New files, with their text."""
        return {path: text for path, text in self.texts.items() if not path.exists()}

    def write(self) -> None:
        """Write what isn't there yet. Raises OSError."""
        for path, text in self.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text.encode())


def propose_jobs(folder: Path, system: CiSystem) -> ProposedJobs:
    """For a cluster folder in a git repository, which may not exist yet. Raises UsageError for any other."""
    real = folder.resolve()
    root = repository_of(real)
    if root is None:
        raise UsageError(
            f"{folder} is not in a git repository, which CI jobs need",
            remedy="Run `git init` in it, or in the parent of all cluster folders.",
        )
    inside = real.relative_to(root)
    refuse_odd_path(inside if inside.parts else Path(root.name))
    name = (inside.name or root.name).replace(".", "-")
    jobs = Path(".github/workflows" if system == "github" else ".gitlab") / f"upgrader-{name}.yml"
    values = {
        "name": name,
        "folder": inside.as_posix(),
        "paths": f"{inside.as_posix()}/**" if inside.parts else "**",
        "file": jobs.as_posix(),
    }
    templates = Templates.of_user(os.environ)
    texts = {root / jobs: templates.render(f"ci/{system}.yml.j2", **values)}
    include = ""
    if system == "gitlab":
        main = root / ".gitlab-ci.yml"
        texts[main] = templates.render("ci/gitlab-root.yml.j2", file=f"/{jobs.as_posix()}")
        known = main.read_text(encoding="utf-8", errors="replace") if main.exists() else texts[main]
        include = "" if jobs.as_posix() in known else f"/{jobs.as_posix()}"
    return ProposedJobs(system, name, texts, include)


def repository_of(folder: Path) -> Path | None:
    """The git repository that an absolute path is in; None where there is none."""
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), None)


def is_plain(name: str) -> bool:
    """Whether expressions and shell scripts of a CI system can have this name as it is."""
    return _PLAIN.fullmatch(name) is not None


def refuse_odd_path(inside: Path) -> None:
    """Raise UsageError for the path of a cluster folder in its repository that CI jobs can't have."""
    if odd := next((part for part in inside.parts if not is_plain(part)), ""):
        raise UsageError(
            f"{odd!r} can't be in the path of a cluster folder that has CI jobs",
            remedy="Rename it: only letters, digits, '.', '_' and '-' are safe in shells and CI systems.",
        )
