"""Ways to have something else run than the saved plan that was approved: each is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.app.test_saved_plans import Place, place, run
from tests.unit.engine.killing import TO, manifest
from upgrader.app.front_end import FrontEnd
from upgrader.app.upgrade import propose_upgrade, save_plan
from upgrader.errors import Blocked, UpgraderError, UsageError
from upgrader.model.settings import PlaybookSettings, ReleaseSettings, Settings

__all__ = ["place"]

EVIL = "- command: reboot\n"
FAR = "2999-01-01T00:00:00+00:00"


def saved(place: Place) -> Any:
    """The content of the plan's file."""
    return json.loads(place.file.read_text())


def digests(place: Place) -> dict[str, str]:
    """Input → digest, as everybody who has the file reads them."""
    return {item["name"]: item["digest"] for item in saved(place)["binding"]["inputs"]}


def release(place: Place, name: str = "a") -> ReleaseSettings:
    """A release of the pipeline."""
    return ReleaseSettings(name, "kube-system", place.folder / "chart", manifest(name, "new"))


def change(monkeypatch: pytest.MonkeyPatch, how: Callable[[Place, Settings], Settings]) -> None:
    """Other settings than the fixture's."""
    made = Place.settings.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Place, "settings", property(lambda self: how(self, made(self))))


def with_playbook(monkeypatch: pytest.MonkeyPatch, path: Callable[[Place], Path]) -> None:
    """A pipeline of the release and this playbook."""
    change(monkeypatch, lambda p, s: replace(s, pipeline=(release(p), PlaybookSettings("smoke", path(p)))))


@pytest.mark.parametrize("how", ["ghost", "none", "twice"])
def test_edited_releases_do_not_switch_the_seal_off(place: Place, how: str) -> None:
    """The key is made of the releases: a file that names others must not be taken for one that can't be judged."""
    save_plan(place.folder, TO, place.file)
    content = saved(place)
    releases = content["binding"]["releases"]
    match how:
        case "ghost":
            releases.append({**releases[0], "name": "ghost"})
        case "none":
            releases.clear()
        case _:
            releases.append(dict(releases[0]))
    place.file.write_text(json.dumps({**content, "expires": FAR}))
    place.write("smoke.yml", EVIL)
    with pytest.raises(Blocked):
        run(place)


def test_release_that_became_a_playbook(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same name: it is another pipeline."""
    with monkeypatch.context() as before:
        change(before, lambda p, s: replace(s, pipeline=(release(p), release(p, "smoke"))))
        save_plan(place.folder, TO, place.file)
    with_playbook(monkeypatch, lambda p: p.folder / "smoke.yml")
    with pytest.raises(Blocked, match="playbook smoke"):
        run(place)


@pytest.mark.parametrize("spelled", ["../shared/smoke.yml", "link.yml", "/shared/smoke.yml"])
@pytest.mark.parametrize("changed", ["smoke.yml", "library/command.py", "group_vars/all.yml"])
def test_playbook_elsewhere_counts_with_all_beside_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, spelled: str, changed: str
) -> None:
    """However its path is spelled, and also where a link leads: Ansible takes modules and variables from there."""
    shared = place.folder.parent / "shared"
    shared.mkdir()
    (shared / "smoke.yml").write_text("[]\n")
    (place.folder / "link.yml").symlink_to(shared / "smoke.yml")
    absolute = spelled.startswith("/")
    with_playbook(monkeypatch, lambda p: p.folder.parent / spelled.lstrip("/") if absolute else p.folder / spelled)
    save_plan(place.folder, TO, place.file)
    (shared / changed).parent.mkdir(exist_ok=True)
    (shared / changed).write_text(EVIL)
    with pytest.raises(Blocked):
        run(place)


def test_chart_elsewhere_counts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hooks aren't rendered, and run all the same."""
    (place.folder.parent / "charts" / "a").mkdir(parents=True)
    chart = Path("../charts/a")
    change(
        monkeypatch,
        lambda p, s: replace(s, pipeline=(ReleaseSettings("a", "kube-system", p.folder / chart, p.values),)),
    )
    save_plan(place.folder, TO, place.file)
    (place.folder.parent / "charts" / "a" / "hook.yaml").write_text("kind: Job\n")
    with pytest.raises(Blocked, match=r"the chart of a\)/hook\.yaml was added"):
        run(place)


def test_digest_of_a_file_is_no_seal(place: Place) -> None:
    """Whoever may put a file into the folder, and read the next plan, gets its digest: it is good for nothing else."""
    save_plan(place.folder, TO, place.file)
    forged = {**saved(place), "expires": FAR}
    del forged["seal"]
    place.write("x.json", json.dumps(forged, sort_keys=True))
    save_plan(place.folder, TO, place.file)
    forged["seal"] = digests(place)["x.json"]
    (place.folder / "x.json").unlink()
    place.file.write_text(json.dumps(forged))
    with pytest.raises(Blocked, match="seal"):
        run(place)


def test_guess_beside_the_secret(place: Place) -> None:
    """Nobody finds out by a file of his own what another one, or the values, hold; nor from plan to plan."""
    place.values = {"kind": "Secret", "metadata": {"name": "s"}, "stringData": {"pin": "4711"}}
    place.write("vault-password", "4711")
    place.write("guess", "4711")
    save_plan(place.folder, TO, place.file)
    first = digests(place)
    assert len(set(first.values())) == len(first)
    save_plan(place.folder, TO, place.file)
    assert not set(first.values()) & set(digests(place).values())


def test_playbook_and_undo_of_one_name(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """In two folders: one doesn't stand for the other."""
    for name in ("forward", "back"):
        (place.folder.parent / name).mkdir()
        (place.folder.parent / name / "smoke.yml").write_text("[]\n")
    two = PlaybookSettings("smoke", place.folder.parent / "forward/smoke.yml", place.folder.parent / "back/smoke.yml")
    change(monkeypatch, lambda p, s: replace(s, pipeline=(release(p), two)))
    save_plan(place.folder, TO, place.file)
    (place.folder.parent / "forward" / "smoke.yml").write_text(EVIL)
    with pytest.raises(Blocked):
        run(place)


@pytest.mark.parametrize("name", ["(the values of a)", "(the settings)"])
def test_file_with_the_name_of_another_input(place: Place, name: str) -> None:
    """It can't hide that one."""
    place.write(name, "x")
    with pytest.raises(UsageError, match="two inputs"):
        save_plan(place.folder, TO, place.file)


@pytest.mark.parametrize("name", ["ANSIBLE_SKIP_TAGS", "ANSIBLE_LIBRARY", "ANSIBLE_CONFIG"])
def test_ansibles_environment_counts(place: Place, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It decides which tasks run, and whose code."""
    save_plan(place.folder, TO, place.file)
    monkeypatch.setenv(name, "/tmp/x")
    with pytest.raises(Blocked, match=name):
        run(place)


def test_ansible_cfg_counts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one of the user, which Ansible reads wherever it runs."""
    monkeypatch.setenv("HOME", str(place.folder.parent))
    save_plan(place.folder, TO, place.file)
    (place.folder.parent / ".ansible.cfg").write_text("[defaults]\nlibrary = /tmp/x\n")
    with pytest.raises(Blocked, match=r"\.ansible\.cfg"):
        run(place)


@pytest.mark.parametrize("hidden", ["runs", ".git"])
def test_step_in_what_is_left_out(place: Place, monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    """Nothing that a step names may lie where nobody looks."""
    place.write(f"{hidden}/smoke.yml", "[]\n")
    with_playbook(monkeypatch, lambda p: p.folder / hidden / "smoke.yml")
    with pytest.raises(UsageError, match="can't cover"):
        save_plan(place.folder, TO, place.file)


def test_variables_can_not_be_left_out(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may be a kubeconfig, and Ansible's variables at the same time."""
    save_plan(place.folder, TO, place.file)
    place.write("group_vars/controllers.yml", "apiVersion: v1\nkind: Config\ncommand: reboot\n")
    change(monkeypatch, lambda p, s: replace(s, kubeconfig=p.folder / "group_vars/controllers.yml"))
    with pytest.raises(UpgraderError):
        run(place)


def test_settings_that_were_read_before_count(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """upgrader.yaml may be put back once it has been read: what was read is compared."""
    save_plan(place.folder, TO, place.file)
    change(monkeypatch, lambda _, s: replace(s, on_failure="stop"))
    with pytest.raises(Blocked, match="the settings"):
        run(place)


def test_empty_folder_counts(place: Place) -> None:
    """A playbook may ask whether it is there."""
    save_plan(place.folder, TO, place.file)
    (place.folder / "enable").mkdir()
    with pytest.raises(Blocked, match="enable/ was added"):
        run(place)


def test_inventory_that_became_a_program_counts(place: Place) -> None:
    """Of the same content: Ansible would run it."""
    save_plan(place.folder, TO, place.file)
    (place.folder / "hosts.yml").chmod(0o755)
    with pytest.raises(Blocked, match=r"hosts\.yml changed"):
        run(place)


# --- and what must not be refused ------------------------------------------------------------------------------------


def test_paths_may_be_spelled_otherwise(place: Place, tmp_path: Path) -> None:
    """Another working directory, or a link to the folder: it is the same folder, and the same file in it."""
    real = place.folder
    (tmp_path / "current").symlink_to(real)
    place.folder = tmp_path / "current"
    file = place.folder / ".." / "cluster" / "plan.json"
    save_plan(place.folder, TO, file)
    place.folder = real
    with propose_upgrade(place.folder, None, FrontEnd(), take_over=False, saved_in=real / "plan.json") as proposed:
        assert proposed.execute().state.outcome == "succeeded"


def test_token_that_is_renewed_during_the_run(place: Place) -> None:
    """The files that the kubeconfig names are this machine's."""
    user = {"name": "me", "user": {"tokenFile": "token"}}
    context = {"name": "c", "context": {"cluster": "k", "user": "me"}}
    place.write("k", json.dumps({"current-context": "c", "contexts": [context], "users": [user]}))
    place.write("token", "one")
    save_plan(place.folder, TO, place.file)
    upgrade_chart = place.world.helm.upgrade

    def renewed(*args: Any, **kwargs: Any) -> Any:
        place.write("token", "two")
        return upgrade_chart(*args, **kwargs)

    place.world.helm.upgrade = renewed  # type: ignore[method-assign]
    assert run(place) == "succeeded"


@pytest.mark.parametrize("name", ["roles/x/.git/index", ".git/index", ".git"])
def test_what_git_keeps_is_no_input(place: Place, name: str) -> None:
    """`git status` writes there; in a worktree it is a file."""
    save_plan(place.folder, TO, place.file)
    (place.folder / "roles" / "x").mkdir(parents=True)
    save_plan(place.folder, TO, place.file)
    place.write(name, "x")
    assert run(place) == "succeeded"


def test_link_to_itself_is_one_to_nothing(place: Place) -> None:
    """Nobody can read it, so nothing is read."""
    (place.folder / "round").symlink_to("round")
    save_plan(place.folder, TO, place.file)
    assert run(place) == "succeeded"


# --- and how it is said ----------------------------------------------------------------------------------------------


def test_all_releases_gone(place: Place) -> None:
    """There is no key any more: the difference is named, with the exit code of one."""
    save_plan(place.folder, TO, place.file)
    place.world.helm.releases.clear()
    with pytest.raises(Blocked, match="and is now not installed"):
        run(place)


def test_seal_that_is_no_seal(place: Place) -> None:
    """Whatever text stands there."""
    save_plan(place.folder, TO, place.file)
    place.file.write_text(json.dumps({**saved(place), "seal": "\ud800"}))
    with pytest.raises(UsageError, match="no seal"):
        run(place)


def test_values_with_keys_that_are_numbers(place: Place) -> None:
    """YAML allows them beside texts."""
    place.values = {**manifest("a", "new"), 1: "x"}  # type: ignore[dict-item]
    save_plan(place.folder, TO, place.file)
    assert run(place) == "succeeded"
