"""SHA-256 of each input of a plan. Charts and playbooks count to the byte; of values, of what charts render to, and of
inventories, the values of secrets don't, so that nobody who reads a digest can try guesses of one.

A keyed digest would need a key that outlives the process and that no reader of the file has; there is no such place
that every machine which may run the plan can read. So a secret counts as a placeholder, whatever its value: that its
value alone changed is not noticed. What is secret follows from the inputs themselves, never from this process (its
environment, its kubeconfig), so that the same inputs have the same digests everywhere.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.masked_manifest import masked_text
from upgrader.model.plan import Plan, PlannedPlaybook, PlannedRelease
from upgrader.model.saved_plan import BoundInput
from upgrader.model.settings import Settings
from upgrader.redaction.known_secrets import secrets_in
from upgrader.redaction.patterns import MASK, is_secret_name, mask_patterns

__all__ = ["plan_inputs"]

_LEAST_CHARACTERS = 4
"""A shorter secret is not looked for in a text: its characters are everywhere."""
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


def plan_inputs(settings: Settings, plan: Plan) -> tuple[BoundInput, ...]:
    """Each input by its name in messages. Reads the files that the settings name; raises OSError."""
    inputs = [
        BoundInput("upgrader.yaml", _exact_digest(settings.folder / "upgrader.yaml")),
        BoundInput("the inventory", _masked_digest(settings.inventory, *_variables(settings.inventory.parent))),
    ]
    for step in plan.steps:
        inputs += _of_playbook(step) if isinstance(step, PlannedPlaybook) else _of_release(step)
    return tuple(inputs)


def _of_release(step: PlannedRelease) -> Iterator[BoundInput]:
    rendered = tuple(_texts_of_secrets(objects_in(step.after).values()))
    values = json.dumps(_masked_values(step.spec.values, rendered), sort_keys=True, default=str)
    yield BoundInput(f"the chart of {step.name}", _exact_digest(step.spec.chart))
    yield BoundInput(f"the values of {step.name}", _digest([values]))
    yield BoundInput(f"what {step.name} renders to", _digest([step.spec.namespace, masked_text(step.after)]))


def _of_playbook(step: PlannedPlaybook) -> Iterator[BoundInput]:
    yield BoundInput(f"the playbook of {step.name}", _playbook_digest(step.playbook))
    if step.undo is not None:
        yield BoundInput(f"the undo of {step.name}", _playbook_digest(step.undo))


def _playbook_digest(playbook: Path) -> str:
    """Of the playbook and what Ansible reads beside it; what it includes from elsewhere is not seen."""
    folder = playbook.parent
    return _digest([_exact_digest(playbook, folder / "roles"), _masked_digest(*_variables(folder))])


def _variables(folder: Path) -> tuple[Path, ...]:
    """What Ansible reads beside an inventory or a playbook."""
    return (folder / "group_vars", folder / "host_vars")


def _exact_digest(*roots: Path) -> str:
    """Of code, every byte of which counts: what looks like a password in a script may be a command."""
    return _digest(part for name, content in _files(*roots) for part in (name, content))


def _masked_digest(*roots: Path) -> str:
    """Of variables, without those that are secret."""
    return _digest(part for name, content in _files(*roots) for part in (name, *_masked_file(name, content)))


def _files(*roots: Path) -> Iterator[tuple[str, bytes]]:
    """Files themselves, and the files of folders in their order, by their names there; nothing where there is none."""
    for root in roots:
        found = [root] if root.is_file() else sorted(path for path in root.rglob("*") if path.is_file())
        for path in found:
            yield path.relative_to(root.parent).as_posix(), path.read_bytes()


def _masked_file(name: str, content: bytes) -> Iterator[str | bytes]:
    """A text with its secrets masked, and each template in it as it is: Ansible runs what that says."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        yield content
        return
    yield from _TEMPLATE.findall(text)
    secrets = {text for text in _in_yaml(name, text) if len(text) >= _LEAST_CHARACTERS}
    # The longest first: a secret may contain another one. Then by their text, as a set has no order.
    for secret in sorted(secrets, key=lambda each: (-len(each), each)):
        text = text.replace(secret, MASK)
    yield mask_patterns(text)


def _in_yaml(name: str, text: str) -> Iterator[str]:
    """What is secret by its name in a YAML file; one with tags of its own tells nothing."""
    if not name.endswith((".yml", ".yaml")):
        return
    try:
        documents = list(yaml.load_all(text, Loader=_LOADER))
    except yaml.YAMLError:
        return
    for secret in secrets_in(documents):
        yield secret
        yield from _lines(secret)


def _texts_of_secrets(objects: Iterable[Manifest]) -> Iterator[str]:
    """Every text that a rendered Secret holds, whatever its key: as written, decoded, and line by line."""
    for item in objects:
        if item.get("kind") == "Secret":
            for value in ((item.get("data") or {}) | (item.get("stringData") or {})).values():
                for text in (str(value), _decoded(str(value))):
                    yield text
                    yield from _lines(text)
        yield from secrets_in(item)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()]


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return value


def _masked_values(part: Any, rendered: tuple[str, ...], *, secret: bool = False) -> Any:
    """Values without those that a name tells to be secret, and without what ends up in a Secret."""
    if isinstance(part, Mapping):
        by_name = is_secret_name(str(part.get("name")))
        return {
            key: _masked_values(
                item, rendered, secret=secret or is_secret_name(str(key)) or (by_name and key == "value")
            )
            for key, item in part.items()
        }
    if isinstance(part, list | tuple):
        return [_masked_values(item, rendered, secret=secret) for item in part]
    text = str(part)
    return MASK if secret or _is_in(text.strip(), rendered) else mask_patterns(text)


def _is_in(text: str, rendered: tuple[str, ...]) -> bool:
    """Whether a value ends up in a Secret. A short one must be a whole line there: its characters are everywhere."""
    return text in rendered or (len(text) >= _LEAST_CHARACTERS and any(text in each for each in rendered))


def _digest(parts: Iterable[str | bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        total.update(len(content).to_bytes(8, "big") + content)
    return total.hexdigest()


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
