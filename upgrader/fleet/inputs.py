"""Digests of what a campaign was approved with: the program, the built-in charts, each cluster's folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import upgrader
from upgrader.config.charts import charts_folder
from upgrader.config.playbooks import playbooks_folder
from upgrader.config.yaml_document import read_mapping
from upgrader.engine.execution.input_files import canonical, file_digests
from upgrader.errors import ConfigError
from upgrader.fleet.events import Pins

__all__ = ["NOT_INPUTS", "folder_digest", "own_pins", "pins_differ"]

NOT_INPUTS = ("runs", "backups", "kubeconfig", "known_hosts")
"""What a run writes into the top of a cluster folder, and credentials, which are replaced at any time."""

_OWN = frozenset({"backup.folder", "cluster.kubeconfig"})
_FILES = frozenset({"values", "chart", "config", "path", "bundle"})
_PLAYBOOKS = frozenset({"playbook", "undo", "add", "remove"})
"""Keys of upgrader.yaml whose values are paths: as above, of files and charts, of playbooks."""


def own_pins() -> Pins:
    """What a run would be begun with now: the files of this program as they are on disk. Raises UsageError."""
    package = Path(upgrader.__file__).parent
    found = {**file_digests(package, ""), **file_digests(playbooks_folder(), "playbooks")}
    program = {name: digest for name, digest in found.items() if "__pycache__" not in Path(name).parts}
    return Pins(upgrader.__version__, _digest(file_digests(charts_folder(), "")), _digest(program))


def pins_differ(begun: Pins | None, now: Pins) -> str:
    """In which way this isn't the upgrader that a campaign was begun with; "" if it is."""
    if begun is None or begun == now:
        return ""
    if begun.upgrader != now.upgrader:
        return f"the campaign was begun with upgrader {begun.upgrader}; this is {now.upgrader}"
    what = "charts" if begun.charts != now.charts else "program files"
    return f"the {what} of upgrader {now.upgrader} have changed since the campaign began"


def folder_digest(folder: Path) -> str:
    """Of every file of a cluster folder but those of NOT_INPUTS and hidden ones, with what links lead to; and of what
    its upgrader.yaml names elsewhere. Raises UsageError for what can't be read.
    """
    texts = tuple(_texts(folder))
    own = [text for key, text in texts if key in _OWN]
    inside = file_digests(folder, "", leave_out=[*folder.glob(".*"), *(folder / name for name in (*NOT_INPUTS, *own))])
    found = {name: digest for name, digest in inside.items() if not _left_out(name)}
    for path in _named_elsewhere(folder, texts):
        found |= file_digests(path, f"({path})")
    return _digest(found)


def _left_out(name: str) -> bool:
    """Of a name as `file_digests` gives it: `link a/b`, `a/b`; or `a/`, a folder, which is nothing without files."""
    parts = Path(name.removeprefix("link ")).parts
    passing = any(part.startswith(".") or part == "__pycache__" for part in parts)
    return name.endswith("/") or parts[0] in NOT_INPUTS or passing


def _named_elsewhere(folder: Path, texts: Iterable[tuple[str, str]]) -> Iterator[Path]:
    """What upgrader.yaml names outside of the folder: files, charts, and the folders of playbooks."""
    inside = folder.resolve()
    for key, text in texts:
        path = folder / text
        if not text or path.resolve().is_relative_to(inside):
            continue
        name = key.rpartition(".")[2]
        if name in _PLAYBOOKS:
            yield path.parent
        elif key == "cluster.inventory":
            yield from (path, path.parent / "group_vars", path.parent / "host_vars")
        elif name in _FILES:
            yield path


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Each text of upgrader.yaml, with its key, such as `steps.values`."""
    try:
        yield from _texts_of("", read_mapping(folder / "upgrader.yaml").data)
    except ConfigError:  # `upgrader run` refuses it, and says why
        return


def _texts_of(key: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from _texts_of(f"{key}.{name}" if key else str(name), each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts_of(key, each)
    elif isinstance(value, str):
        yield key, value


def _digest(files: Mapping[str, str]) -> str:
    return sha256(canonical(files).encode(errors="surrogateescape")).hexdigest()
