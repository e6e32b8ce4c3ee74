"""Digests of what a campaign was approved with: the program, the built-in charts, each cluster's folder."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import upgrader
from upgrader.app.run_inputs import MOST_BYTES, inputs_digest
from upgrader.built_in_files import charts_folder, playbooks_folder
from upgrader.config.copied_folder import COPIES
from upgrader.config.copied_kubeconfig import UsedKubeconfig, read_used
from upgrader.config.load import load_settings
from upgrader.engine.execution.input_files import digest_of, file_digests
from upgrader.errors import UsageError
from upgrader.fleet.approved_copies import copy_inputs, empty_copies, refuse_absolute_names, remove_copies
from upgrader.fleet.events import Pins
from upgrader.model.settings import Settings

__all__ = [
    "Inputs",
    "approved_settings",
    "copy_approved",
    "folder_digest",
    "folder_place",
    "inputs_and_settings",
    "inputs_of",
    "kubeconfig_of",
    "own_pins",
    "pins_differ",
    "refuse_uncopied",
]

_SHOWN = 32
"""Hexadecimal digits: 128 bits, for which no one finds another folder."""


def own_pins() -> Pins:
    """What a run would be begun with now: the files of this program as they are on disk. Raises UsageError."""
    package = Path(upgrader.__file__).parent
    found = {**file_digests(package, ""), **file_digests(playbooks_folder(), "playbooks")}
    program = {name: digest for name, digest in found.items() if "__pycache__" not in Path(name).parts}
    return Pins(upgrader.__version__, digest_of(file_digests(charts_folder(), "")), digest_of(program))


def pins_differ(then: Pins | None, now: Pins, event: str = "the campaign began") -> str:
    """In which way this isn't the upgrader with which something happened `then`, the `event`; "" if it is."""
    if then is None or then == now:
        return ""
    if then.upgrader != now.upgrader:
        return f"{event} with upgrader {then.upgrader}; this is {now.upgrader}"
    what = "charts" if then.charts != now.charts else "program files"
    return f"the {what} of upgrader {now.upgrader} have changed since {event}"


@dataclass(frozen=True)
class Inputs:
    """What a person approves of a cluster, each as a digest."""

    files: str
    """Of all that a run may read, as `folder_digest`."""
    kubeconfig: str
    """Of what is pinned of the kubeconfig."""
    place: str
    """Of where the cluster folder is, links followed, seen from the fleet's folder."""

    def __str__(self) -> str:
        return f"{self.files}.{self.kubeconfig}.{self.place}"

    @property
    def shown(self) -> str:
        """One digest of all of them, for people."""
        return sha256(str(self).encode()).hexdigest()[:_SHOWN]

    @staticmethod
    def parse(text: str) -> Inputs:
        """As they are in the journal."""
        files, _, rest = text.partition(".")
        kubeconfig, _, place = rest.partition(".")
        return Inputs(files, kubeconfig, place)


def inputs_of(fleet: Path, folder: Path, commands: Collection[str], environ: Mapping[str, str]) -> Inputs:
    """The inputs of a cluster folder as they are now, which a run can have. `commands` as for `kubeconfig_of`. Raises
    UsageError.
    """
    return inputs_and_settings(fleet, folder, commands, environ)[0]


def inputs_and_settings(
    fleet: Path, folder: Path, commands: Collection[str], environ: Mapping[str, str]
) -> tuple[Inputs, Settings]:
    """The same, with the settings that are a part of them: all files are read once, which may be gigabytes."""
    with _read(folder):
        settings = load_settings(Path(os.path.realpath(folder)), {})
        refuse_absolute_names(settings)
        files = inputs_digest(settings)
        pinned = read_used(settings, environ, commands).pinned
        return Inputs(files, pinned, folder_place(fleet, folder)), settings


def refuse_uncopied(folder: Path) -> Settings:
    """The settings of a cluster folder. Raises UsageError, with file and line, for an input of which a campaign's run
    couldn't read a copy.
    """
    with _read(folder):
        settings = load_settings(Path(os.path.realpath(folder)), {})
        refuse_absolute_names(settings)
        return settings


def approved_settings(folder: Path, approved: str) -> Settings:
    """The settings of a cluster folder, which are a part of its `approved` digest. Raises UsageError if it has another
    one by now.
    """
    with _read(folder):
        settings = load_settings(Path(os.path.realpath(folder)), {})
        if inputs_digest(settings) != approved:
            raise UsageError(f"{folder} has changed since it was approved")
        return settings


def folder_place(fleet: Path, folder: Path) -> str:
    """A digest of where a cluster folder is, links followed."""
    place = os.path.relpath(os.path.realpath(folder), os.path.realpath(fleet))
    return sha256(os.fsencode(place)).hexdigest()


def kubeconfig_of(folder: Path, commands: Collection[str], environ: Mapping[str, str]) -> UsedKubeconfig:
    """What is used of a cluster folder's kubeconfig; `commands` are those that it may run. Raises UsageError."""
    with _read(folder):
        return read_used(load_settings(Path(os.path.realpath(folder)), {}), environ, commands)


def copy_approved(folder: Path, copies: Path, approved: str, most_bytes: int = MOST_BYTES) -> Path | None:
    """Copy what a run of a cluster folder may read, as `copy_inputs`, to below `copies`, which is made anew; its path
    without links. None, and nothing is left, if the copy hasn't the `approved` digest. Raises UsageError.
    """
    done, copies = False, empty_copies(copies)
    with _read(folder):
        try:
            copy_inputs(folder, copies, most_bytes)
            done = _folder_digest(Path(os.path.realpath(folder)), copies) == approved
        finally:
            if not done:
                remove_copies(copies)
    return copies if done else None


def folder_digest(folder: Path, copies: Path | None = None) -> str:
    """Of all that a run of a cluster folder may read, with what links lead to and what its upgrader.yaml names
    elsewhere; not of credentials, past runs and backups, which change at any time. Raises UsageError for what can't be
    read, also where upgrader.yaml isn't valid. With `copies`, it is of what was copied to there.
    """
    with _read(folder):
        return _folder_digest(folder, copies)


@contextmanager
def _read(folder: Path) -> Iterator[None]:
    """Whatever its owner has put into a folder, such as links in a circle: it is the folder that is wrong."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        why = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        raise UsageError(
            f"{folder}, or what it names, can't be read: {why}", remedy="Check the folder's files and links."
        ) from error


def _folder_digest(folder: Path, copies: Path | None) -> str:
    return inputs_digest(load_settings(folder, {COPIES: str(copies)} if copies else {}))
