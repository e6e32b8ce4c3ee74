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
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from upgrader.config.kubeconfig import named_files
from upgrader.engine.execution.input_files import canonical, file_digests, identity, unique
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

_OWN = "runs"
"""What the run writes itself, in the cluster folder."""
_VARIABLES = frozenset({"group_vars", "host_vars"})
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
            "a plan can't be saved: its key is derived from Helm's Secrets of releases, and this cluster has none",
            remedy="Adopt the cluster first (upgrader adopt); with another HELM_DRIVER, plans can't be saved.",
        )
    return hashlib.sha256(canonical(parts).encode()).digest()


def plan_inputs(
    settings: Settings, plan: Plan, key: PlanKey, file: Path, tools: Mapping[str, str], bundle: BundleIndex | None
) -> tuple[BoundInput, ...]:
    """Each input by its name in messages. `file` is the plan's own; `tools`: the version of each program that is used;
    `bundle`: what the bundle has, whose checksums stand for its content.

    All of the cluster folder is included, because a playbook may include any file. Of what is elsewhere, the charts
    count, and the folders of the inventory, of playbooks and of what links to them lead to. Raises UsageError for what
    can't be read.
    """
    found = unique(_inputs(settings, plan, key, _left_out(settings, plan, file), tools))
    if bundle is not None:
        name = "(what the bundle has)"
        found[name] = key.of(f"text {name}", canonical(to_json(bundle, mask=False)).encode()).hexdigest()
    return tuple(BoundInput(name, digest) for name, digest in found.items())


def _inputs(
    settings: Settings, plan: Plan, key: PlanKey, left_out: Collection[Path], tools: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    def files(root: Path, name: str) -> Iterable[tuple[str, str]]:
        return file_digests(root, name, leave_out=left_out, new_digest=lambda each: key.of(f"file {each}")).items()

    folder = settings.folder.resolve()
    yield from files(folder, "")
    for name, root in _elsewhere(settings, plan):
        if not root.resolve().is_relative_to(folder):
            yield from files(root.resolve(), f"({name})")
    for name, text in _texts(settings, plan, folder, tools):
        yield name, key.of(f"text {name}", _bytes(text)).hexdigest()


def _texts(settings: Settings, plan: Plan, folder: Path, tools: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for step in planned_of(plan, PlannedRelease):
        yield f"(the values of {step.name})", canonical([step.spec.namespace, step.spec.values])
        yield f"(what {step.name} renders to)", step.after
    yield "(the settings)", _settings(settings, folder)
    for name, value in _ansibles_environment():
        yield f"({name})", value
    for name, version in tools.items():
        yield f"(the version of {name})", version


def _left_out(settings: Settings, plan: Plan, file: Path) -> Collection[Path]:
    """What changes from machine to machine, or from run to run; never what a step names, or Ansible reads by itself."""
    own = settings.folder / _OWN
    given = (settings.kubeconfig, *named_files(settings.kubeconfig), file)
    named = dict(_named(settings, plan))
    for path in given:
        for name, root in named.items():
            if identity(path) is not None and identity(path) == identity(root):
                raise UsageError(
                    f"{path} is also {name}, which a saved plan has to include", remedy="Move it to another folder."
                )
        if _VARIABLES & set(path.resolve().parts):
            raise UsageError(
                f"{path} is in a folder from which Ansible reads variables", remedy="Move it to another folder."
            )
    for name, root in named.items():
        if root.resolve().is_relative_to(own.resolve()) or ".git" in root.resolve().parts:
            raise UsageError(f"{name} is in {root.parent}, which a saved plan can't cover", remedy="Move it elsewhere.")
    return (own, *given)


def _named(settings: Settings, plan: Plan) -> Iterator[tuple[str, Path]]:
    yield "the inventory", settings.inventory
    for step in plan.steps:
        yield from step.files


def _elsewhere(settings: Settings, plan: Plan) -> Iterator[tuple[str, Path]]:
    """The roots that may lie outside of the cluster folder. Ansible looks beside a file where a link to it leads."""
    for name, path in _named(settings, plan):
        if name.startswith(("the chart", "the playbooks")):
            yield name, path
        else:
            yield f"beside {name}", path.parent
            if path.resolve().parent != path.parent.resolve():
                yield f"beside what {name} links to", path.resolve().parent


def _settings(settings: Settings, folder: Path) -> str:
    """As they were read, with paths in the folder relative to it: upgrader.yaml may have been another one then."""
    inside = settings.kubeconfig.resolve().is_relative_to(folder)
    kubeconfig = settings.kubeconfig.resolve().relative_to(folder) if inside else Path("elsewhere")
    text = repr(replace(settings, folder=Path(), kubeconfig=kubeconfig))
    for path in {str(settings.folder), str(settings.folder.absolute()), str(folder)} - {"."}:
        text = text.replace(path, "")
    return text


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
