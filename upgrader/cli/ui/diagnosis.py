"""Shows the problems of a cluster's controllers: each one's state in a line, then the findings, the cause first."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from upgrader.cli.ui.findings import draw_findings
from upgrader.cli.ui.terminal import console, show
from upgrader.onhost.sending.host_facts import EtcdServer, HostFacts, Unit, Unknown
from upgrader.recover.diagnosis.diagnose import Controller, Diagnosis

__all__ = ["draw_diagnosis", "print_diagnosis"]

_GOOD, _BAD, _UNSURE = "green", "bold red", "magenta"


def print_diagnosis(diagnosis: Diagnosis) -> None:
    """Print it on standard error."""
    show(console(), draw_diagnosis(diagnosis))


def draw_diagnosis(diagnosis: Diagnosis) -> RenderableType:
    """The API as seen from here, the controllers, the findings, and which checkpoint would be restored."""
    parts: list[RenderableType] = [_api(diagnosis), _controllers(diagnosis)]
    if diagnosis.findings:
        parts += [Text(), draw_findings(diagnosis.findings)]
    restores = [line for controller in diagnosis.controllers if (line := _restore(controller)) is not None]
    if restores:
        parts += [Text(), *restores]
    return Group(*parts)


def _api(diagnosis: Diagnosis) -> RenderableType:
    api = diagnosis.api
    if api.answers:
        return Text(" ✔ The API answers", style=_GOOD)
    answer = Text.assemble(("The API does not answer", _BAD), f": {api.answer}" if api.answer else "")
    return _hung(Text(" ✘ ", style=_BAD), answer)


def _hung(mark: Text, text: Text) -> RenderableType:
    """The text's further lines stand below its first one."""
    table = Table.grid()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(mark, text)
    return table


def _controllers(diagnosis: Diagnosis) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for controller in diagnosis.controllers:
        state = Text(" · ").join(_states(controller)) if controller.facts else Text("not reached", style=_UNSURE)
        table.add_row(Text(controller.host.name, style="bold"), state)
    return Padding(table, (0, 0, 0, 3))


def _states(controller: Controller) -> Iterator[Text]:
    facts = controller.facts
    assert facts is not None, "asked of a controller that was reached"
    yield _unit(facts.containerd, "container runtime")
    yield _unit(facts.kubelet, "kubelet")
    yield _etcd(facts)
    state = {True: "serves", False: "does not serve", None: "unknown"}[controller.serves]
    which = f" (standby pod of generation {controller.active} in place)" if controller.active is not None else ""
    style = {True: _GOOD, False: _BAD, None: _UNSURE}[controller.serves]
    yield Text(f"kube-apiserver {state}{which}", style=style)


def _unit(unit: Unit | Unknown, name: str) -> Text:
    if isinstance(unit, Unknown):
        return Text(f"{name} unknown", style=_UNSURE)
    return Text(f"{unit.name} {'runs' if unit.running else unit.state}", style=_GOOD if unit.running else _BAD)


def _etcd(facts: HostFacts) -> Text:
    server = facts.etcd.server
    if isinstance(server, EtcdServer):
        return Text(f"etcd {'healthy' if server.healthy else 'not healthy'}", style=_GOOD if server.healthy else _BAD)
    if not facts.has_etcd:
        return Text("no etcd here")
    return Text("etcd does not answer", style=_BAD)


def _restore(controller: Controller) -> RenderableType | None:
    """The checkpoint that a recovery would activate on one controller; None if there is none."""
    good = controller.restore
    if good is None or controller.blocked:
        return None
    images = ", ".join(sorted(set(good.images.values())))
    checked = "complete; its images were not checked" if isinstance(good.missing, Unknown) else "complete"
    told = Text.assemble(
        f"{controller.host.name}: the last-known-good kube-apiserver is generation {good.number}",
        f" of {good.captured_at} ({checked})",
        (f"\n{images}" if images else "", "dim"),
    )
    return _hung(Text("   "), told)
