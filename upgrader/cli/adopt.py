"""`upgrader adopt`: from kubeadm's static pods into the charts, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from upgrader.adopt.derive import Derived, derive_values
from upgrader.adopt.facts import KubeadmFacts, read_facts
from upgrader.adopt.pipelines import adopt_pipeline, needs_port_sharing, undo_pipeline
from upgrader.assemble import assemble
from upgrader.cli.carry_out import carry_out
from upgrader.cli.locking import TAKE_OVER, cluster_lock, lock_holder
from upgrader.cli.wiring import Session, open_session
from upgrader.config.charts import charts_folder
from upgrader.engine.lock import folder_lock
from upgrader.errors import Inhibited
from upgrader.gates.release_gates import gates_for, workload_gate
from upgrader.model.observed import Observed
from upgrader.model.settings import BUILT_IN_CHARTS, ReleaseSettings, WorkloadGate
from upgrader.pipeline import GateRun, Pipeline
from upgrader.preflight.run_checks import CHECKS, inhibits, run_checks
from upgrader.ui.steps import print_steps

__all__ = ["adopt"]

_CHECKS = tuple((name, check) for name, check in CHECKS if name in ("hosts", "nodes", "helm", "memory", "certificates"))


@click.command()
@click.option("--undo", is_flag=True, help="Put kubeadm's own static pods back and remove the releases.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask before starting.")
@TAKE_OVER
@click.pass_obj
def adopt(folder: Path, undo: bool, yes: bool, take_over: bool) -> None:
    """Move a control plane that kubeadm made into the charts, at the version that runs now.

    Says first what it will do, and whether and for how long the API will be away. Stopped half-way, it goes on when
    it is run again. Values that the cluster folder doesn't have yet are derived from kubeadm's own files.
    """
    with folder_lock(folder, lock_holder()):
        if undo:
            _undo(folder, yes, take_over)
        else:
            _adopt(folder, yes, take_over)


def _adopt(folder: Path, yes: bool, take_over: bool) -> None:
    with open_session(folder) as session:
        facts = read_facts(session.tools.kube, session.hosts, session.cluster)
        version = str(session.observe().server)
        derived = _derived(session, facts)
    changed = _new_values(folder, derived.values)
    click.echo(_words_about_the_api(facts), err=True)
    for line in _words_about_flags(derived):
        click.echo(line, err=True)
    for file in changed:
        click.echo(f"Will write {file.relative_to(folder)}", err=True)
    if changed and not yes:
        click.confirm("Write these files?", abort=True, err=True)
    for file, text in changed.items():
        _write(file, text)
    with open_session(folder, version) as session, cluster_lock(session, take_over=take_over) as held:
        observed = session.observe()
        findings = run_checks(session.preflight_context(observed), _CHECKS)
        pipeline = _adoption(session, observed, facts)
        print_steps(pipeline, findings)
        if inhibits(findings):
            raise Inhibited(
                "adoption was refused by a check; the cluster was not changed",
                remedy="Mend what is marked as error or unknown.",
            )
        if not yes:
            click.confirm("Start?", abort=True, err=True)
        carry_out(session, pipeline, label="adopt", held=held)


def _undo(folder: Path, yes: bool, take_over: bool) -> None:
    with open_session(folder) as session, cluster_lock(session, take_over=take_over) as held:
        version = session.observe().server
        cluster, tools = session.cluster, session.tools
        pipeline = undo_pipeline(cluster, tools, session.hosts, version, _always(session), _addons(session))
        print_steps(pipeline)
        if not yes:
            click.confirm("Start?", abort=True, err=True)
        # Every step leaves a working control plane, and none can be taken back without adopting again.
        carry_out(session, pipeline, label="adopt-undo", on_failure="stop", held=held)


def _adoption(session: Session, observed: Observed, facts: KubeadmFacts) -> Pipeline:
    charts = assemble(
        session.plan(observed), session.settings, session.cluster, session.tools, take_ownership=("kubernetes",)
    )
    cluster, tools = session.cluster, session.tools
    return adopt_pipeline(charts, facts, cluster, tools, session.hosts, observed.server, _always(session))


def _always(session: Session) -> tuple[GateRun, ...]:
    """The gates of the cluster itself: nodes and critical pods."""
    tools = session.tools
    return gates_for(
        "",
        "",
        namespace="",
        kube=tools.kube,
        clock=tools.clock,
        cluster=session.cluster,
        version=None,
        policy=session.settings.gates,
    )


def _addons(session: Session) -> tuple[GateRun, ...]:
    """The gates of kube-proxy and CoreDNS."""
    tools, policy = session.tools, session.settings.gates
    return (
        workload_gate(WorkloadGate("daemonset", "kube-system", "kube-proxy", policy), tools.kube, tools.clock),
        workload_gate(WorkloadGate("deployment", "kube-system", "coredns", policy), tools.kube, tools.clock),
    )


def _derived(session: Session, facts: KubeadmFacts) -> Derived:
    names = tuple(item.name for item in session.settings.pipeline if isinstance(item, ReleaseSettings))
    if names[: len(BUILT_IN_CHARTS)] != BUILT_IN_CHARTS:
        raise Inhibited(
            f"the pipeline must begin with {', '.join(BUILT_IN_CHARTS)} to adopt a control plane",
            remedy="Take `pipeline` out of upgrader.yaml until the adoption is done.",
        )
    own = {item.name: item.values for item in session.settings.pipeline if isinstance(item, ReleaseSettings)}
    addresses = tuple(host.address for host in session.cluster.controllers)
    return derive_values(facts, addresses, own, session.tools.helm, charts_folder())


def _new_values(folder: Path, derived: Mapping[str, Mapping[str, Any]]) -> dict[Path, str]:
    """The values files whose content would change, with their new text."""
    changed = {}
    for release, values in derived.items():
        file = folder / "values" / f"{release}.yaml"
        before = yaml.safe_load(file.read_text()) if file.exists() else None
        if (before or {}) != values:
            changed[file] = "# Derived by `upgrader adopt` from kubeadm's own configuration; yours to edit.\n" + (
                yaml.dump(dict(values), Dumper=_Dumper, sort_keys=False, width=120)
            )
    return changed


class _Dumper(yaml.SafeDumper):
    """Text of several lines (a Corefile) as a block that a person can read and edit."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_Dumper.add_representer(str, _Dumper.represent_str)


def _write(file: Path, text: str) -> None:
    """Write a values file; what an operator had written stays beside it."""
    file.parent.mkdir(exist_ok=True)
    if file.exists():
        file.replace(file.with_suffix(".yaml.before-adopt"))
    file.write_text(text)


def _words_about_flags(derived: Derived) -> Iterator[str]:
    """Every flag that won't be as it was, by component."""
    by_component: dict[str, list[str]] = {}
    for change in derived.changes:
        by_component.setdefault(change.component, []).append(str(change))
    for component, changes in by_component.items():
        yield f"{component} keeps all its flags but gets: {', '.join(changes)}"


def _words_about_the_api(facts: KubeadmFacts) -> str:
    restart = needs_port_sharing(facts)
    if not restart:
        return "The API stays reachable throughout: kube-apiserver shares its port, so its successor takes over."
    names = ", ".join(host.name for host in restart)
    if len(facts.controllers) == 1:
        return f"The API will be away once, for about 40 s: kube-apiserver on {names} must restart to share its port."
    return (
        f"kube-apiserver on {names} must restart to share its port, one after the other, about 40 s each: "
        "behind a load balancer with health checks the API stays reachable."
    )
