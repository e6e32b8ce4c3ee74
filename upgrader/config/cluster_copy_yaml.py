"""The file of a copy of a cluster, as `upgrader rehearse copy` writes it, and people read it."""

from __future__ import annotations

from pathlib import Path

import yaml

from upgrader.config.yaml_document import read_mapping
from upgrader.model.cluster_copy.copy import ClusterCopy, DamagedCopy
from upgrader.yaml_limits import DUMPER, check_limits

__all__ = ["copy_text", "read_copy"]

_HEAD = """\
# A copy of a cluster for a lab like it (`upgrader lab up --like FILE`), made by `upgrader rehearse copy`.
# It has names, labels, selectors, counts, schemas and policies. Read it before you use it, or hand it on.
# `notCopied` names what was left out.
"""


def copy_text(copied: ClusterCopy) -> str:
    """The file's text. Raises yaml.YAMLError for a copy that is too large to be read again."""
    text = _HEAD + yaml.dump(copied.plain(), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    check_limits(text)
    return text


def read_copy(path: Path) -> ClusterCopy:
    """Read it. Raises ConfigError, with the line, for a file that is none, or that has anything that no copy has: it
    may come from others, and a lab's nodes run as root of this machine.
    """
    document = read_mapping(path)
    try:
        return ClusterCopy.parse(document.data)
    except DamagedCopy as error:
        named = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.where).lstrip(".")
        raise document.error(
            error.where,
            f"{named}: {error.why}",
            remedy="Make the file again, with this version: upgrader rehearse copy --out FILE",
        ) from error


class _Dumper(DUMPER):  # type: ignore[misc]  # one of two, chosen when it is imported
    """Without anchors: equal parts are written out, for people."""

    def ignore_aliases(self, data: object) -> bool:  # PyYAML's
        return True
