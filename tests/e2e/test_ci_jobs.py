"""The scripts of the CI jobs that `upgrader init --ci` writes, for a stranger. `make soak` has what is merged."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from testkit.ci_project import GITLAB, STEP, Project
from testkit.lab_cluster import LabCluster


@pytest.fixture
def project(cluster: LabCluster, tmp_path: Path) -> Project:
    """The cluster's folder in a repository, at the version that runs."""
    return Project(cluster, tmp_path)


def test_merge_request_of_a_stranger(project: Project, tmp_path: Path) -> None:
    """Programs, templates, links and plugins in the folder: no job without credentials executes one of them, or shows
    what is beside the folder; and there are no credentials."""
    ran, beside = tmp_path / "ran", tmp_path / "beside"
    beside.write_text("theirs: what-is-beside-the-folder\n")
    folder, touch = project.folder, f"touch {ran}"
    pipe = f"{{{{ lookup('pipe', '{touch}') }}}}"
    program = folder / "program.sh"
    program.write_text(f"#!/bin/sh\n{touch}\necho '{{}}'\n")
    program.chmod(0o755)
    play = {"hosts": "all", "tasks": [{"ansible.builtin.command": touch, "delegate_to": "localhost"}]}
    (folder / "steal.yml").write_text(yaml.safe_dump([{**play, "vars": {"x": pipe}}]))
    (folder / "ansible.cfg").write_text(f"[defaults]\ninventory = {program}\nvault_password_file = {program}\n")
    inventory = yaml.safe_load((folder / "hosts.yml").read_text())
    inventory["all"]["vars"]["ansible_ssh_common_args"] = f"-o ProxyCommand='{program}' {pipe}"
    (folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    (folder / "kubeconfig.yml").write_text(yaml.safe_dump({"users": [{"name": "me", "user": {"exec": plugin}}]}))
    settings = yaml.safe_load((folder / "upgrader.yaml").read_text())
    settings["cluster"] = {"kubeconfig": "kubeconfig.yml", "dynamicInventory": True}
    settings["pipeline"] = [{"release": STEP}, {"playbook": "steal.yml"}]
    (folder / "upgrader.yaml").write_text(yaml.safe_dump(settings))
    file = folder / "values" / f"{STEP}.yaml"
    reads = {"podAnnotations": {"x": f'{{{{ .Files.Get "{beside}" }}}}'}}
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **reads}))
    commit = project.repository.commit("please merge")

    asked = project.gitlab("merge-request", commit)
    job = asked.jobs(asked.workspace / GITLAB)["upgrader-prod-check"]
    base = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": project.base}
    ended = asked.run(job, base, 120)
    shown = ended.output + (asked.workspace / "plan.md").read_text()
    assert ended.exit_code == 0 and ".Files.Get" in shown and "steal.yml" in shown, shown
    assert "what-is-beside-the-folder" not in shown, shown
    assert not ran.exists()

    (folder / "hosts.yml").unlink()
    (folder / "hosts.yml").symlink_to(program.name)
    file.unlink()
    file.symlink_to(beside)
    commit = project.repository.commit("please merge this")
    again = project.gitlab("merge-request-2", commit)
    ended = again.run(job, base, 120)
    assert ended.exit_code in (2, 3) and "is outside the folder" in ended.output, ended.output
    assert "what-is-beside-the-folder" not in ended.output, ended.output
    assert not ran.exists()
