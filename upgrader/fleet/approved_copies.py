"""A private copy of what a cluster was approved with, from which its run works.

What a playbook includes is known only once it runs. So a run gets a folder that has all that the digest covers, and
nothing else: not the past runs, `.git`, backups and tokens that the digest leaves out, and nothing that is put into the
cluster folder later. The run makes the copy itself, however long that takes, and compares it with the approval, when
only its owner can still change it. A resumed run has its copy at the same path.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from upgrader.app.run_inputs import input_digests, named_inputs
from upgrader.built_in_files import charts_folder, playbooks_folder
from upgrader.config.load import load_settings
from upgrader.config.plain_file import open_plain
from upgrader.config.yaml_document import KeyPath, all_in_one, read_mapping
from upgrader.errors import UsageError
from upgrader.model.settings import ReleaseSettings, Settings

__all__ = ["copy_inputs", "empty_copies", "refuse_absolute_names", "remove_copies"]

_PIECE = 1024 * 1024


def copy_inputs(folder: Path, copies: Path, most_bytes: int) -> None:
    """Copy all that a run of a cluster folder may read to below `copies`, an empty folder, each file with its path on
    this machine.

    Raises UsageError for an input that can't be copied, and OSError for one that can't be read.
    """
    real = Path(os.path.realpath(folder))
    settings = load_settings(real, {})
    refuse_absolute_names(settings)
    copy = _Copy(copies, most_bytes)
    input_digests(settings, most_bytes=most_bytes, visitor=copy)
    for path in _named(settings):
        if path.is_relative_to(real):
            copy.way(real, path.relative_to(real).parts)
    for path in _single_files(settings):
        if path.is_file():
            copy.link(path)
            copy.content(path)


def refuse_absolute_names(settings: Settings) -> None:
    """Raise ConfigError, with file and line, for an input that upgrader.yaml names by an absolute path: a campaign's
    run would read it, and not its copy.
    """
    document, named = read_mapping(settings.folder / "upgrader.yaml"), set(_named(settings))
    problems = [
        document.error(
            where,
            f"{text} is an absolute path, but the runs of a campaign read a copy of the cluster folder",
            remedy="Use a path relative to the folder, or a link in the folder.",
        )
        for where, text in _texts(document.data, ())
        if text.startswith(os.sep) and Path(text) in named
    ]
    if problems:
        raise all_in_one(problems)


def _texts(tree: object, where: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """The texts in a file, each with its place."""
    if isinstance(tree, str):
        yield where, tree
    elif isinstance(tree, Mapping):
        for key, item in tree.items():
            yield from _texts(item, (*where, key))
    elif isinstance(tree, list):
        for index, item in enumerate(tree):
            yield from _texts(item, (*where, index))


def empty_copies(folder: Path) -> Path:
    """Make that folder anew, without what was in it; only this user can read or write it. Its path without links.

    Raises UsageError.
    """
    try:
        remove_copies(folder)
        folder.mkdir(mode=0o700, parents=True)
        return Path(os.path.realpath(folder))
    except OSError as error:
        raise _unwritten(folder, error) from error


def remove_copies(folder: Path) -> None:
    """Remove copies, if they are there. Raises OSError."""
    if folder.is_dir():
        shutil.rmtree(folder)


def _named(settings: Settings) -> Iterator[Path]:
    """What the file names, and the program doesn't bring with it."""
    for path in (*(path for _, path in named_inputs(settings)), *_single_files(settings)):
        if not _built_in(path):
            yield path


def _single_files(settings: Settings) -> Iterator[Path]:
    """Files whose content is in the digest as a part of the settings, wherever they are."""
    for item in settings.pipeline:
        if isinstance(item, ReleaseSettings) and item.values_file:
            yield item.values_file
    runtime = settings.nodes.configuration.runtime if settings.nodes else None
    if runtime and runtime.config:
        yield runtime.config


def _built_in(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in (charts_folder(), playbooks_folder()))


def _unwritten(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} can't be written: {error.strerror}", remedy="Free disk space, or make the folder writable."
    )


@dataclass
class _Copy:
    """Files and links, as they are copied."""

    copies: Path
    bytes_left: int

    def link(self, path: Path) -> None:
        """Copy a link and the folders that lead to where it leads, if it is one."""
        if path.is_symlink():
            self._link(path)

    def content(self, path: Path) -> None:
        """Copy a folder, without what is in it, or a file."""
        real = Path(os.path.realpath(path))
        if _built_in(real):
            return
        if real.is_relative_to(self.copies):
            raise UsageError(
                f"{path}, an input of the run, can't be copied: it contains the campaign's own folder",
                remedy="Move what the run needs into a folder that doesn't contain the fleet's runs.",
            )
        if real.is_dir():
            self._folder(real)
        elif real.is_file() and not self._at(real).exists():
            self._file(real)

    def way(self, start: Path, parts: tuple[str, ...]) -> None:
        """Copy the links and folders by which a path leads on from `start`, which has no links.

        Raises UsageError for one that climbs above the root: it would lead out of the copies.
        """
        here = start
        for part in parts:
            if part == ".." and here == here.parent:
                raise UsageError(
                    f"{start / Path(*parts)} can't be copied: it has more `..` than there are folders above it",
                    remedy="Use a path without `..`.",
                )
            path = Path(part) if part == os.sep else here.parent if part == ".." else here / part
            if path.is_symlink():
                self._link(path)
            here = Path(os.path.realpath(path))
            if here.is_dir():
                self._folder(here)

    def _at(self, path: Path) -> Path:
        """Where a path that has no links but at its end is copied to."""
        return Path(f"{self.copies}{path}")

    def _folder(self, path: Path) -> None:
        try:
            self._at(path).mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritten(self._at(path), error) from error

    def _link(self, path: Path) -> None:
        parent = Path(os.path.realpath(path.parent))
        at, leads = self._at(parent / path.name), os.readlink(path)
        if at.is_symlink():
            return
        self._folder(parent)
        try:
            at.symlink_to(f"{self.copies}{leads}" if leads.startswith(os.sep) else leads)
        except OSError as error:
            raise _unwritten(at, error) from error
        self.way(parent, Path(leads).parts)

    def _file(self, path: Path) -> None:
        self._folder(path.parent)
        with open_plain(path) as original:
            program = os.fstat(original.fileno()).st_mode & 0o100
            try:
                made = os.open(self._at(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 | program)
            except OSError as error:
                raise _unwritten(self._at(path), error) from error
            with os.fdopen(made, "wb") as copy:
                while piece := original.read(_PIECE):
                    self.bytes_left -= len(piece)
                    if self.bytes_left < 0:
                        raise UsageError(
                            f"the files of the cluster are too large to be copied; the limit was reached at {path}",
                            remedy="Move large files out of the folder.",
                        )
                    self._write(copy, piece)

    def _write(self, copy: BinaryIO, piece: bytes) -> None:
        try:
            copy.write(piece)
        except OSError as error:
            raise _unwritten(self.copies, error) from error
