"""Where the files are that a run of a cluster folder may read: all of the folder, and what its settings name elsewhere.

A saved plan, the record of a rehearsal and the approval of a fleet's campaign cover the same files.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from upgrader.built_in_files import charts_folder, playbooks_folder
from upgrader.config.kubeconfig import named_files
from upgrader.engine.execution.input_files import (
    NewDigest,
    Visitor,
    digest_of,
    file_digests,
    identity,
    plain_digest,
    unique,
)
from upgrader.errors import UsageError
from upgrader.model.settings import ReleaseSettings, Settings
from upgrader.steps.backup.store import own_files
from upgrader.steps.playbook.plan import looked_into

__all__ = ["MOST_BYTES", "RUNS", "input_digests", "inputs_digest", "named_inputs", "settings_text"]

RUNS = "runs"
"""What the run writes itself, in the cluster folder."""
MOST_BYTES = 16 * 1024**3
"""More than a bundle of images has; without a limit, a file with a hole of some exabytes would be read for years."""
_YAML = "upgrader.yaml"
_VARIABLES = frozenset({"group_vars", "host_vars"})


def named_inputs(settings: Settings) -> Iterator[tuple[str, Path]]:
    """The files and folders that the settings name, each with its name in messages."""
    yield "the inventory", settings.inventory
    for item in settings.pipeline:
        if isinstance(item, ReleaseSettings):
            yield f"the chart of {item.name}", item.chart or charts_folder() / item.name
            continue
        yield f"the playbook of {item.name}", item.playbook
        if item.undo:
            yield f"the undo of {item.name}", item.undo
    for pool in settings.nodes.pools if settings.nodes else ():
        yield f"the playbooks of {pool.step}", playbooks_folder()
        if pool.surge:
            yield f"the playbook of {pool.surge_steps[0]}", pool.surge.add
            yield f"the undo of {pool.surge_steps[0]}", pool.surge.remove


def input_digests(
    settings: Settings,
    written: Collection[Path] = (),
    *,
    new_digest: NewDigest = plain_digest,
    most_bytes: int | None = None,
    visitor: Visitor | None = None,
) -> dict[str, str]:
    """Name → digest of all that a run may read, as `file_digests`; `written`: what else is no input, such as a saved
    plan. With a `visitor`, files have no digest.

    Raises UsageError for what can't be read, and for an input that is also one of the files that are left out.
    """
    leave_out = _not_inputs(settings, written)
    digests = (
        file_digests(
            root,
            name,
            leave_out=leave_out,
            new_digest=new_digest,
            most_bytes=most_bytes,
            copied_below=_copied_below(settings),
            visitor=visitor,
        ).items()
        for name, root in _input_roots(settings)
    )
    made = set(_folders_of_backups(settings))
    return unique(item for items in digests for item in items if item[0] not in made)


def inputs_digest(settings: Settings) -> str:
    """One digest of all that a run may read. Raises UsageError for what can't be read, and for a folder whose
    upgrader.yaml is none of its inputs.
    """
    digests = input_digests(settings, most_bytes=MOST_BYTES).items()
    found = {name: digest for name, digest in digests if not name.endswith("/")}
    if _YAML not in found:
        raise UsageError(
            f"an approval doesn't cover the kubeconfig and the files that it names, and {settings.folder / _YAML} is "
            "one of them",
            remedy="Use another file for cluster.kubeconfig, and for each file that the kubeconfig names.",
        )
    return digest_of({"files": digest_of(found), "settings": settings_text(settings)})


def _copied_below(settings: Settings) -> str:
    """Where the copies of folders are, if inputs are read there; "": they are not."""
    if settings.copy is None:
        return ""
    return str(settings.copy).removesuffix(os.path.realpath(settings.folder))


def _folders_of_backups(settings: Settings) -> Iterator[str]:
    """The names of the folders that the first backup makes. What is in them counts, unless a backup wrote it."""
    folder, backups = settings.folder.resolve(), settings.backup.folder.resolve()
    if backups.is_relative_to(folder):
        inside = backups.relative_to(folder)
        yield from (f"{each}/" for each in (inside, *inside.parents) if each.parts)


def _input_roots(settings: Settings) -> Iterator[tuple[str, Path]]:
    """What is read with all that is below it: the cluster folder, as "", and roots outside of it by their names.

    All of the folder is included, because a playbook may include any file. Of what is elsewhere, the charts count, and
    the folders of the inventory, of playbooks and of what links to them lead to. Values from elsewhere are in
    `settings_text`.
    """
    folder = settings.inputs.resolve()
    yield "", folder
    for name, root in _elsewhere(settings):
        if not root.resolve().is_relative_to(folder):
            yield f"({name})", root.resolve()


def _elsewhere(settings: Settings) -> Iterator[tuple[str, Path]]:
    """The roots that may lie outside of the cluster folder. Ansible looks beside a file where a link to it leads."""
    for name, path in named_inputs(settings):
        if name.startswith(("the chart", "the playbooks")):
            yield name, path
        else:
            yield f"the folder of {name}", path.parent
            if path.resolve().parent != path.parent.resolve():
                yield f"the folder that {name} links to", path.resolve().parent


def _not_inputs(settings: Settings, written: Collection[Path]) -> Collection[Path]:
    """What changes from machine to machine, or from run to run: what a run writes, backups, credentials, `written`.

    Of the folder of backups, only files that a backup writes: it may have others, even be the cluster folder itself.
    Never what a step names, or Ansible reads by itself: raises UsageError for that.
    """
    credentials = (settings.kubeconfig, *named_files(settings.kubeconfig, settings.context))
    given = (*credentials, *own_files(settings.backup.folder), *written)
    own, folder = settings.inputs / RUNS, settings.folder.resolve()
    if own.is_symlink():
        raise UsageError(
            f"{own} is a link: through it, a run could change files that another run reads",
            remedy="Replace the link with a folder.",
        )
    named = dict(named_inputs(settings))
    for path in given:
        real = path.resolve()
        for name, root in named.items():
            if identity(path) is not None and (identity(path) == identity(root) or _is_chart(name, root, real)):
                raise UsageError(
                    f"{path} is {name}, which an approval must cover, and also a kubeconfig, a backup or an output "
                    "file, which it can't cover",
                    remedy="Move it to another folder.",
                )
        inside = real.relative_to(folder).parts[:-1] if real.is_relative_to(folder) else ()
        if _VARIABLES & set(real.parts) or any(map(looked_into, inside)):
            raise UsageError(
                f"{path} is in a folder that Ansible reads automatically", remedy="Move it to another folder."
            )
    for name, root in named.items():
        if root.resolve().is_relative_to(own.resolve()) or ".git" in root.resolve().parts:
            raise UsageError(
                f"{name} is in {root.parent}, which an approval can't cover", remedy="Move it to another folder."
            )
    return (own, *given)


def _is_chart(name: str, root: Path, path: Path) -> bool:
    """Whether a path is in a chart, all of whose files templates can read."""
    return name.startswith("the chart") and path.is_relative_to(root.resolve())


def settings_text(settings: Settings) -> str:
    """As they were read, with paths in the folder relative to it: upgrader.yaml may have been another one then."""
    folder = settings.folder.resolve()
    inside = settings.kubeconfig.resolve().is_relative_to(folder)
    kubeconfig = settings.kubeconfig.resolve().relative_to(folder) if inside else Path("elsewhere")
    text = repr(replace(settings, folder=Path(), kubeconfig=kubeconfig))
    paths = {str(settings.inputs), str(settings.folder), str(settings.folder.absolute()), str(folder)} - {"."}
    for path in sorted(paths, key=len, reverse=True):  # the folder's path is a part of its copy's
        text = text.replace(path, "")
    return text
