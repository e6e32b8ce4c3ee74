"""A digest of each input of a plan: every file that a run may read, and what each chart renders to.

They are keyed: values and inventories contain secrets, and a reader of a saved plan must not be able to guess these.
The key is derived from Helm's own records in the cluster. A reader of those knows the secrets already, every machine
that can run the plan can read them, and a plan is bound to them anyway, so that none has to be kept anywhere. A salt
for each plan and the input's name keep digests of equal contents apart: a user who may add a file to the folder can't
compare it with one that the user may not read.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from upgrader.app.run_inputs import input_digests, settings_text
from upgrader.engine.execution.input_files import canonical, unique
from upgrader.errors import UsageError
from upgrader.gates.kubernetes_kinds import SECRETS
from upgrader.model.bundle_index import BundleIndex
from upgrader.model.json_values import to_json
from upgrader.model.saved_plan import BoundInput, BoundRelease
from upgrader.model.settings import Settings
from upgrader.ports import Kube
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["PlanKey", "plan_inputs", "records_key"]

_CONFIGURATIONS = (Path("~/.ansible.cfg"), Path("/etc/ansible/ansible.cfg"))
"""Where Ansible looks for its configuration; it runs in a folder of its own, without one."""


@dataclass(frozen=True)
class PlanKey:
    """What the digests and the seal of one plan are keyed with. `salt` is in the file, `secret` nowhere."""

    secret: bytes
    salt: str

    def of(self, purpose: str, content: bytes = b"") -> hmac.HMAC:
        """A digest for one purpose only, such as `input values/web.yaml`."""
        made = hmac.new(self.secret, digestmod="sha256")
        made.update(b"%d\0%s\0%d\0%s\0" % (len(self.salt), self.salt.encode(), len(purpose), _bytes(purpose)))
        made.update(content)
        return made


def records_key(kube: Kube, namespaces: Iterable[tuple[BoundRelease, str]]) -> bytes:
    """The secret: a digest of Helm's newest record of each release that is installed, and of the record's UID.

    Raises UsageError where there is none, ApiUnavailable or ApiError where they can't be read.
    """
    parts = []
    for release, namespace in namespaces:
        if release.revision:
            record = kube.get(SECRETS, f"sh.helm.release.v1.{release.name}.v{release.revision}", namespace)
            if record is not None:
                parts.append([release.name, record["metadata"]["uid"], record.get("data")])
    if not parts:
        raise UsageError(
            "a plan can't be saved: its key is derived from the Secrets of Helm's releases, and this cluster has none",
            remedy="Adopt the cluster first (upgrader adopt); with another HELM_DRIVER, plans can't be saved.",
        )
    return hashlib.sha256(canonical(parts).encode()).digest()


def plan_inputs(
    settings: Settings, plan: Plan, key: PlanKey, file: Path, tools: Mapping[str, str], bundle: BundleIndex | None
) -> tuple[BoundInput, ...]:
    """Each input by its name in messages. `file` is the plan's own; `tools`: the version of each program that is used;
    `bundle`: what the bundle has, whose checksums stand for its content.

    Raises UsageError for what can't be read.
    """
    found = unique(_inputs(settings, plan, key, file, tools))
    if bundle is not None:
        name = "(the content of the bundle)"
        found[name] = key.of(f"text {name}", canonical(to_json(bundle, mask=False)).encode()).hexdigest()
    return tuple(BoundInput(name, digest) for name, digest in found.items())


def _inputs(
    settings: Settings, plan: Plan, key: PlanKey, file: Path, tools: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    yield from input_digests(settings, (file,), new_digest=lambda each: key.of(f"file {each}")).items()
    for name, text in _texts(settings, plan, tools):
        yield name, key.of(f"text {name}", _bytes(text)).hexdigest()


def _texts(settings: Settings, plan: Plan, tools: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for step in planned_of(plan, PlannedRelease):
        yield f"(the values of {step.name})", canonical([step.spec.namespace, step.spec.values])
        yield f"(the rendered manifest of {step.name})", step.after
    yield "(the settings)", settings_text(settings)
    for name, value in _ansibles_environment():
        yield f"({name})", value
    for name, version in tools.items():
        yield f"(the version of {name})", version


def _ansibles_environment() -> Iterator[tuple[str, str]]:
    """What else tells Ansible what to do, and where to look for code."""
    for name, value in sorted(os.environ.items()):
        if name.startswith("ANSIBLE_"):
            yield name, value
    given = os.environ.get("ANSIBLE_CONFIG")
    for path in [Path(given)] if given else [path.expanduser() for path in _CONFIGURATIONS]:
        if path.is_file():
            yield str(path.name if given else path), path.read_text(errors="replace")


def _bytes(text: str) -> bytes:
    """Also of names that are no UTF-8."""
    return text.encode(errors="surrogateescape")
