"""What a rehearsal on another host needs of this one: etcd's restored data, and the files that flags name."""

from __future__ import annotations

import json
import os
import stat
import sys
from typing import Any

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.common.sudo_log import require_no_log
from upgrader.onhost.rehearsal.yaml_keys import key_pattern

__all__ = ["names_files"]

_NAMES_A_FILE = key_pattern("path", "kubeConfigFile", "staticManifestsDir")
"""In an admission configuration: a plugin's configuration, a webhook's credentials, or a folder of policies."""


def main(given: str) -> None:
    """`given` is JSON: `data`, a folder; `files` that flags name; `admission`, those of them that configure admission;
    `sudo`: whether all of it will pass through sudo.

    Prints which of the `files` there are (the others are missing on both hosts), how many there are with those of the
    data (`file_count`), and their `byte_count`; or why it `failed`.
    """
    try:
        answer = _measured(**json.loads(given))
    except Failed as error:
        answer = {"failed": str(error)}
    except OSError as error:
        answer = {"failed": f"{error.filename or 'a file'}: {error.strerror or error}"}
    sys.stdout.write(json.dumps(answer) + "\n")


def _measured(data: str, files: list[str], admission: list[str], *, sudo: bool) -> dict[str, Any]:
    if sudo:
        require_no_log("output")
    there = [path for path in files if os.path.isfile(path)]
    for path in there:
        if path in admission and names_files(_text(path)):
            raise Failed(f"{path} names other files, which only a rehearsal on this host can read. Nothing was sent")
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(data) for name in names]
    sizes = [os.stat(path) for path in (*paths, *there)]
    if not all(stat.S_ISREG(each.st_mode) for each in sizes):
        raise Failed(f"{data} has an entry that is not a file. Nothing was sent")
    return {"files": there, "file_count": len(sizes), "byte_count": sum(each.st_size for each in sizes)}


def names_files(admission: str) -> bool:
    """Whether an admission configuration names other files."""
    return bool(_NAMES_A_FILE.search(admission))


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
