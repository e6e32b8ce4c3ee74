"""ConfigMap `kubeadm-config`: kubeadm's record of a cluster that it made, and of the version that runs there.

`kubeadm join`, `kubeadm upgrade` and `kubeadm certs renew` read it, so it has to be true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Self

import yaml

from upgrader.errors import UsageError
from upgrader.model.config_text import read_config
from upgrader.model.version import KubernetesVersion

__all__ = ["CLUSTER_CONFIGURATION", "KUBEADM_CONFIG_MAP", "VERSION", "KubeadmConfig", "certificates_folder"]

KUBEADM_CONFIG_MAP = "kubeadm-config"
CLUSTER_CONFIGURATION = "ClusterConfiguration"
"""Its key in the ConfigMap."""
VERSION = "kubernetesVersion"
_CERTIFICATES = "/etc/kubernetes/pki"


def certificates_folder(configuration: Mapping[str, Any]) -> str:
    """kubeadm's folder of certificates, by its ClusterConfiguration: as kubeadm writes it in flags, where a path has no
    slash at its end.
    """
    return str(PurePosixPath(str(configuration.get("certificatesDir") or _CERTIFICATES)))


@dataclass(frozen=True)
class KubeadmConfig:
    """The text of its ClusterConfiguration; "" if the ConfigMap has none."""

    text: str
    immutable: bool = False
    """Whether the ConfigMap is immutable."""

    @classmethod
    def of(cls, config_map: Mapping[str, Any]) -> Self:
        """From the API's ConfigMap."""
        text = str((config_map.get("data") or {}).get(CLUSTER_CONFIGURATION) or "")
        return cls(text, immutable=bool(config_map.get("immutable")))

    @property
    def api_version(self) -> str:
        """The API version of the text, such as `kubeadm.k8s.io/v1beta4`. Raises ValueError."""
        return str(self._read().get("apiVersion", ""))

    @property
    def version(self) -> KubernetesVersion:
        """The version that kubeadm records as running. Raises ValueError if the text has no version that can be
        changed.
        """
        return self._place()[0]

    @property
    def certificates_folder(self) -> str:
        """kubeadm's folder of certificates on the controllers. Raises ValueError."""
        return certificates_folder(self._read())

    def fields(self, names: Sequence[str]) -> dict[str, Any]:
        """Those of these fields that the text has. Raises ValueError."""
        return {name: value for name, value in self._read().items() if name in names}

    def at(self, version: KubernetesVersion) -> KubeadmConfig:
        """The same text with another version; everything else stays, including comments. Raises ValueError."""
        now, begin, end, style = self._place()
        if now == version:
            return self
        if self.immutable:
            raise ValueError("the ConfigMap is immutable: to change it, delete and recreate it")
        quote = style if style in ("'", '"') else ""  # kubeadm reads a text that begins with `{` as JSON
        changed = replace(self, text=f"{self.text[:begin]}{quote}{version}{quote}{self.text[end:]}")
        # The value may be elsewhere, as with an alias: the result is read again and decides.
        with suppress(ValueError):
            if changed._read() == {**self._read(), VERSION: str(version)}:
                return changed
        raise ValueError(f"`{VERSION}` can't be changed in place, because of how its YAML is written")

    def _place(self) -> tuple[KubernetesVersion, int, int, str | None]:
        """The version, where it begins and ends in the text, and how it is quoted."""
        self._read()
        root = yaml.compose(self.text)
        pairs = root.value if isinstance(root, yaml.MappingNode) else ()
        found = [node for key, node in pairs if key.value == VERSION]
        if len(found) != 1 or not isinstance(found[0], yaml.ScalarNode):
            raise ValueError(f"it has no `{VERSION}`" if not found else f"`{VERSION}` isn't a single plain value")
        try:
            version = KubernetesVersion.parse(found[0].value)
        except UsageError as error:
            raise ValueError(f"`{VERSION}`: {error.message}") from error
        if found[0].value.strip().removeprefix("v") != str(version).removeprefix("v"):
            # A pre-release isn't its release, and a rollback couldn't restore a vendor's build.
            raise ValueError(f"`{VERSION}`: {found[0].value!r} isn't a plain release such as {version}")
        return version, found[0].start_mark.index, found[0].end_mark.index, found[0].style

    def _read(self) -> dict[str, Any]:
        if not self.text:
            raise ValueError(f"it has no {CLUSTER_CONFIGURATION}")
        return read_config(self.text)
