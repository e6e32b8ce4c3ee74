"""ConfigMap `kubelet-config`: the KubeletConfiguration that `kubeadm join` and `kubeadm upgrade node` give to nodes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import yaml

from upgrader.model.config_text import read_config

__all__ = ["BEFORE", "KUBELET", "KUBELET_CONFIG_MAP", "KubeletConfig", "merged"]

KUBELET_CONFIG_MAP = "kubelet-config"
KUBELET = "kubelet"
"""Its key in the ConfigMap."""
BEFORE = "upgrader.io/kubelet-before"
"""The annotation with a JSON value: the text from before the last run that changed it (`text`), and the digest of the
text which that run wrote (`written`).
"""


@dataclass(frozen=True)
class KubeletConfig:
    """The text of its KubeletConfiguration; "" if the ConfigMap has none."""

    text: str
    immutable: bool = False
    """Whether the ConfigMap is immutable."""

    @classmethod
    def of(cls, config_map: Mapping[str, Any]) -> Self:
        """From the API's ConfigMap."""
        text = str((config_map.get("data") or {}).get(KUBELET) or "")
        return cls(text, immutable=bool(config_map.get("immutable")))

    @property
    def digest(self) -> str:
        """The digest of the text. Journals contain it instead of the text, which others wrote and which may contain
        secrets.
        """
        return hashlib.sha256(self.text.encode()).hexdigest()

    def as_before(self, after: KubeletConfig) -> str:
        """The annotation of a change from this to `after`."""
        return json.dumps({"text": self.text, "written": after.digest})

    def before(self, annotation: str, digest: str) -> KubeletConfig | None:
        """The text with that digest, by the annotation. None if the annotation has another one, or if another client
        has changed the present text since.
        """
        try:
            kept = json.loads(annotation)
            earlier = KubeletConfig(str(kept["text"]))
            return earlier if earlier.digest == digest and kept["written"] == self.digest else None
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def lacks(self, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Those of the fields, as `a.b`, that it lacks or has with another value. Raises ValueError if it can't be
        read.
        """
        return tuple(_differing(self._read(), fields))

    def having(self, fields: Mapping[str, Any]) -> KubeletConfig:
        """The same text with these fields; unchanged if it has them. Raises ValueError if it can't be changed."""
        if not self.lacks(fields):
            return self
        if self.immutable:
            raise ValueError("the ConfigMap is immutable: to change it, delete and recreate it")
        text = yaml.safe_dump(merged(self._read(), fields), sort_keys=False, width=1000, allow_unicode=True)
        return replace(self, text=text)

    def _read(self) -> dict[str, Any]:
        read = read_config(self.text) if self.text else {}
        if read.get("kind") != "KubeletConfiguration":
            raise ValueError("it has no KubeletConfiguration")
        return read


def merged(before: Any, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Mappings are merged, everything else is replaced, as the role `node` does with a node's own file."""
    here = before if isinstance(before, Mapping) else {}
    changed = {
        name: merged(here.get(name), value) if isinstance(value, Mapping) and name in here else value
        for name, value in fields.items()
    }
    return {**here, **changed}


def _differing(before: Mapping[str, Any], fields: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, value in fields.items():
        here = before.get(name)
        if isinstance(value, Mapping) and isinstance(here, Mapping):
            yield from _differing(here, value, f"{path}{name}.")
        elif name not in before or here != value:
            yield f"{path}{name}"
