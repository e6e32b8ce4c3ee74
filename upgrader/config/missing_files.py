"""Reports all files that a cluster's folder lacks at once, instead of one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from upgrader.config.yaml_document import shown
from upgrader.errors import ConfigError
from upgrader.model.settings import Settings

__all__ = ["no_cluster_folder", "refuse_missing"]

_FOLDERS = 100
"""So many are compared at most."""
_EXAMPLE = "If you write upgrader.yaml yourself, one line is enough: `kubernetesVersion: v1.36.3`."


def no_cluster_folder(folder: Path, environ: Mapping[str, str]) -> ConfigError:
    """Of a folder without `upgrader.yaml`."""
    others = [] if (folder / "hosts.yml").exists() else [_inventory(folder / "hosts.yml")]
    if not environ.get("UPGRADER_KUBECONFIG") and not (folder / "kubeconfig").exists():
        others.append(_kubeconfig(folder / "kubeconfig"))
    path = shown(folder / "upgrader.yaml")
    error = _error("\n".join([f"{path}: no such file", *(others and ["missing, too:", *others])]), folder, _EXAMPLE)
    if not folder.exists() and (meant := _meant(folder)):
        error.remedy = f"Did you mean `-C {shown(meant)}`? If not: {error.remedy}"
    return error


def _meant(folder: Path) -> Path | None:
    """A cluster's folder beside it with a similar name."""
    beside = {path.parent.name: path.parent for path in islice(folder.parent.glob("*/upgrader.yaml"), _FOLDERS)}
    closest = get_close_matches(folder.name, beside, n=1)
    return beside[closest[0]] if closest else None


def refuse_missing(settings: Settings, environ: Mapping[str, str]) -> None:
    """Raise ConfigError if both the inventory and the kubeconfig are missing; if only one is, its reader gives more
    details.
    """
    anywhere = settings.kubeconfig.exists() or (environ.get("KUBECONFIG") and not settings.kubeconfig_named)
    if not settings.inventory.exists() and not anywhere:
        missing = [_inventory(settings.inventory), _kubeconfig(settings.kubeconfig)]
        raise _error("\n".join(["the cluster's folder is incomplete:", *missing]), settings.folder)


def _error(message: str, folder: Path, last: str = "") -> ConfigError:
    here = "" if folder == Path.cwd() else f"-C {shown(folder)} "
    return ConfigError(
        message,
        remedy=f"Create it: `upgrader {here}init` (reads the cluster of your kubeconfig). Or give the cluster's folder "
        f"with `-C DIR` (a lab's is .lab/NAME). {last}".rstrip(),
    )


def _inventory(path: Path) -> str:
    return f"{shown(path)}, the Ansible inventory"


def _kubeconfig(path: Path) -> str:
    return f"{shown(path)}, or another one that --kubeconfig names (or KUBECONFIG, with --context)"
