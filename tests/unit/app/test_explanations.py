"""`upgrader explain`: every code that a message may name is known, and each says something."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import upgrader
from upgrader import errors
from upgrader.app.explanations import _GATES, all_codes, explain
from upgrader.cli.main import cli
from upgrader.config.untrusted_folder import NotOpened
from upgrader.errors import UpgraderError, UsageError, error_name
from upgrader.model.check_ids import WORST_SEVERITY

REPOSITORY = Path(__file__).parents[3]


def test_every_code_is_explained() -> None:
    """Checks' ids, errors, gates and exit codes: what it means, why it matters, and a page that exists."""
    known = {each.code: each for each in all_codes()}
    classes = [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]
    assert set(WORST_SEVERITY) <= set(known) and set(classes) <= set(known)
    for each in known.values():
        assert each.means and each.why, each
        assert (REPOSITORY / each.page.partition("#")[0]).is_file(), each
    assert not [each.code for each in known.values() if each.kind == "check" and each.means.startswith("found by")]


@pytest.mark.parametrize("code", ["host.unreachable", "kubelet.down", "disk.full", "apiserver.exits", "etcd.lost"])
def test_what_recover_finds(code: str) -> None:
    """While the API is away, `recover` names these beside each finding, in the form of a check's id."""
    found = explain(code)
    assert found.kind == "recovery" and "`upgrader recover`" in found.why
    assert found.page == "docs/troubleshooting.md#the-api-does-not-answer"


def test_everything_that_recover_finds_has_words() -> None:
    """No meaning is placeholders alone, and each id of the table in Troubleshooting is known."""
    said = {each.code: each.means for each in all_codes() if each.kind == "recovery"}
    assert len(said) > 40 and not [code for code, means in said.items() if len(re.findall(r"\w{2,}", means)) < 3]
    table = (REPOSITORY / "docs" / "troubleshooting.md").read_text().partition("| finding |")[2].partition("\n\n")[0]
    ids = re.findall(r"`([a-z]+\.[a-z-]+)`", "\n".join(line.split("|")[1] for line in table.splitlines()[2:]))
    assert len(ids) > 12 and not [id_ for id_ in ids if explain(id_).kind not in ("recovery", "check")]


def _gates() -> set[type]:
    """Every class of a gate: it has a name, and checks once."""
    found = set()
    for info in pkgutil.walk_packages(upgrader.__path__, "upgrader."):
        if not info.name.endswith(("_gate", ".gates", "_gates")):
            continue
        for each in vars(importlib.import_module(info.name)).values():
            checks = getattr(each, "check", None) if isinstance(each, type) and each.__module__ == info.name else None
            if checks is not None and checks.__annotations__.get("return") == "Verdict":
                found.add(each)
    return found


def test_every_gate_is_explained() -> None:
    """A run may name any of them as what has not passed, those of certificates and of metrics too."""
    explained = set(_GATES.values())
    assert len(_gates()) >= 17 and [gate.__name__ for gate in _gates() - explained] == []
    for name in _GATES:
        assert explain(name.replace("/NAME", "/x-1").replace("/NODE", "/x-1")).kind == "gate"


def test_checks_say_what_their_code_says() -> None:
    """Severity, whether it can be skipped, and the remedy."""
    found = explain("access.missing")
    assert "error; it can't be skipped" in found.why and "cluster-admin" in found.remedy
    assert "`--skip` overrides it" in explain("helm.version").why


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("4", "4"),
        ("exit-130", "130"),
        ("exit code 5", "5"),
        ("exit-code-5", "5"),
        ("exit5", "5"),
        ("daemonset/kube-proxy", "daemonset/NAME"),
        ("protector/shop/db", "protector/NAME"),
        (" nodes ", "nodes"),
    ],
)
def test_as_messages_write_it(given: str, code: str) -> None:
    """A gate with its object's name, a number with or without words."""
    assert explain(given).code == code


def test_no_code() -> None:
    """What is misspelt is answered with what is near."""
    with pytest.raises(UsageError) as caught:
        explain("charts.refusd")
    assert "charts.refused" in caught.value.remedy


def test_family() -> None:
    """What `--skip` and the list of what was not asked name are families: each of their ids is offered."""
    with pytest.raises(UsageError) as caught:
        explain("webhooks")
    assert "webhooks.slow" in caught.value.remedy and "webhooks.no-backend" in caught.value.remedy


def test_name_of_an_error() -> None:
    """An error of a module's own is explained as the public one that it is a kind of."""
    assert error_name(UpgraderError("x")) == "UpgraderError"
    assert error_name(NotOpened(Path("x"), "a pipe")) == "ConfigError"


def test_command() -> None:
    """One code in full, or all in lines; neither needs a folder."""
    one = CliRunner().invoke(cli, ["explain", "GateFailed"])
    assert one.exit_code == 0 and "exit code 4" in one.output and "docs/reference/codes.md" in one.output
    every = CliRunner().invoke(cli, ["explain"]).output.splitlines()
    assert len(every) == len(all_codes()) and max(map(len, every)) < 150


def test_error_with_several_exit_codes() -> None:
    """A campaign that stops ends with the code of its worst cluster: an operator who got 3 isn't told that it was 5,
    nor what to do after 5.
    """
    found = explain("CampaignStopped")
    assert found.why == "it ends the command with exit code 3, 4 or 5, by the worst of its clusters"
    assert found.remedy == "as the message says; otherwise: `upgrader explain` and that exit code"
