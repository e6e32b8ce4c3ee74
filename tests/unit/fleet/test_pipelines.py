"""`upgrader fleet render`: a campaign as a pipeline of another program, with the stages' order and limits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from testkit.fakes.clock import FakeClock
from testkit.fleet_folder import FLEET, write_fleet
from upgrader.cli.main import cli
from upgrader.errors import UsageError
from upgrader.fleet.fleet_folder import read_fleet
from upgrader.fleet.model import Fleet
from upgrader.fleet.pipelines import PipelineForm, left_out, pipeline

FORMS: tuple[PipelineForm, ...] = ("github", "gitlab", "argo")
WIDE = FLEET.replace("  domains: {label: region}\n", "")
"""Without failure domains, so that both clusters of production may run at once."""


def rendered(folder: Path, form: PipelineForm, fleet: str = FLEET) -> Any:
    """The pipeline of a fleet in a repository, as its program reads it."""
    (folder / ".git").mkdir(exist_ok=True)
    made = folder / "fleets/one"
    made.mkdir(parents=True, exist_ok=True)
    write_fleet(made, fleet)
    return yaml.safe_load(pipeline(read_fleet(made, FakeClock().now()), form, made))


def test_github_runs_batch_after_batch(tmp_path: Path) -> None:
    """Canary, then an environment with reviewers and a wait timer, then one domain of production after the other. The
    environment has the stage's name, as another domain before it moves the numbers.
    """
    jobs = rendered(tmp_path, "github")["jobs"]
    order = ["part-1-1", "before-2", "part-2-1", "part-3-1"]
    assert list(jobs) == order
    assert [jobs[name].get("needs") for name in order] == [None, *order[:-1]]
    assert jobs["before-2"]["environment"] == {"name": "fleet_production"}
    assert jobs["part-2-1"]["strategy"] == {
        "fail-fast": False,
        "matrix": {"include": [{"cluster": "b", "folder": "fleets/one/clusters/b"}]},
    }
    assert 'upgrader -C "$FOLDER" run --to v1.37.1 --resume --yes' in jobs["part-1-1"]["steps"][-1]["run"]


def test_github_environment_without_its_rules_stops_the_pipeline(tmp_path: Path) -> None:
    """GitHub creates an environment that is missing, without reviewers and timer: the job before a stage then fails."""
    job = rendered(tmp_path, "github")["jobs"]["before-2"]
    assert job["permissions"] == {"actions": "read"}
    (step,) = job["steps"]
    assert '"required_reviewers"' in step["env"]["RULES"] and ".wait_timer >= 1440" in step["env"]["RULES"]
    for answer, code in (("true", 0), ("", 1)):
        (tmp_path / "gh").write_text(f"#!/bin/sh\necho {answer}\n")
        (tmp_path / "gh").chmod(0o755)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "GITHUB_REPOSITORY": "o/r", "RULES": step["env"]["RULES"]}
        ended = subprocess.run(["bash", "-e", "-c", step["run"]], env=environment, capture_output=True, check=False)
        assert ended.returncode == code


def test_clusters_of_one_batch_run_at_once(tmp_path: Path) -> None:
    """As many as `maxConcurrency` allows: 50 % of two is one, 100 % both."""
    assert list(rendered(tmp_path, "github", WIDE)["jobs"])[-2:] == ["part-2-1", "part-2-2"]
    both = rendered(tmp_path, "gitlab", WIDE.replace("50%", "100%"))
    assert both["stages"] == ["part-1-1", "soak-2", "approval-2", "part-2-1"]
    assert [each["CLUSTER"] for each in both["part-2-1"]["parallel"]["matrix"]] == ["b", "c"]


def test_gitlab_waits_for_a_soak_and_a_person(tmp_path: Path) -> None:
    """As delayed and manual jobs, of stages of their own; each cluster has its environment and its lock."""
    made = rendered(tmp_path, "gitlab")
    assert made["soak-2"]["start_in"] == "86400 seconds" and made["approval-2"]["when"] == "manual"
    assert made["approval-2"]["environment"] == {"name": "fleet_production"}
    assert made["approval-2"]["allow_failure"] is False
    assert made["default"] == {"image": "$UPGRADER_IMAGE", "tags": ["upgrader"]}, "also of jobs that only wait"
    assert made[".cluster"]["environment"] == {"name": "$CLUSTER"}
    assert made[".cluster"]["resource_group"] == "upgrader-$CLUSTER"


def test_argo_has_the_same_order(tmp_path: Path) -> None:
    """Steps one after the other; pods without a token, which repeat only what was interrupted."""
    spec = rendered(tmp_path, "argo")["spec"]
    templates = {each["name"]: each for each in spec["templates"]}
    assert [step["template"] for (step,) in templates["fleet"]["steps"]] == [
        "part-1", "soak-2", "approval", "part-2", "part-3",
    ]  # fmt: skip
    assert templates["soak-2"]["suspend"] == {"duration": "86400"} and spec["automountServiceAccountToken"] is False
    ((batch,),) = templates["part-2"]["steps"]
    assert batch["withItems"] == [{"cluster": "b", "folder": "fleets/one/clusters/b"}]
    assert "[-1, 6, 130, 137, 143]" in templates["cluster"]["retryStrategy"]["expression"]


def test_argo_gives_each_stage_the_files_of_one_commit(tmp_path: Path) -> None:
    """A branch would be read again for each cluster, and production get what the canary never ran."""
    parameters = {each["name"]: each for each in rendered(tmp_path, "argo")["spec"]["arguments"]["parameters"]}
    assert "value" not in parameters["revision"]


def test_argo_lets_a_run_complete_its_step(tmp_path: Path) -> None:
    """If its pod is evicted, SIGTERM reaches upgrader, and not a shell that ends at once; it then has an hour."""
    spec = rendered(tmp_path, "argo")["spec"]
    (cluster,) = (each for each in spec["templates"] if each["name"] == "cluster")
    assert cluster["container"]["args"][0].splitlines()[-1].startswith("exec upgrader ")
    assert json.loads(spec["podSpecPatch"]) == {"terminationGracePeriodSeconds": 3600}


@pytest.mark.parametrize("form", ["github", "gitlab"])
def test_published_schema_accepts_it(tmp_path: Path, form: PipelineForm) -> None:
    """That of the program which runs it."""
    file = tmp_path / "pipeline.yml"
    file.write_text(yaml.safe_dump(rendered(tmp_path, form)).replace("true:", "on:", 1))
    schema = ["vendor.github-workflows"] if form == "github" else ["vendor.gitlab-ci", "--data-transform=gitlab-ci"]
    command = [str(Path(sys.executable).parent / "check-jsonschema"), "--builtin-schema", *schema, str(file)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("form", FORMS)
def test_campaign_that_finalizes(tmp_path: Path, form: PipelineForm) -> None:
    """Its clusters are finalized, by the same pipeline."""
    assert "finalize --only-at v1.37.1 --resume --yes" in str(
        rendered(tmp_path, form, FLEET.replace("spec:", "spec:\n  action: finalize"))
    )


def test_cluster_with_the_name_fleet_waits_for_no_lock_of_its_own_pipeline(tmp_path: Path) -> None:
    """The lock of a pipeline has no name that the lock of a cluster could have: it would wait for itself."""
    made = rendered(tmp_path, "github")
    assert made["jobs"]["part-1-1"]["concurrency"]["group"].startswith("upgrader-")
    assert not made["concurrency"]["group"].startswith("upgrader-")
    spec = rendered(tmp_path, "argo")["spec"]
    templates = {each["name"]: each for each in spec["templates"]}
    ((own,), (one,)) = (each["synchronization"]["mutexes"] for each in (spec, templates["cluster"]))
    assert one["name"].startswith("upgrader-") and not own["name"].startswith("upgrader-")


@pytest.mark.parametrize("form", FORMS)
def test_what_it_lacks_is_named(tmp_path: Path, form: PipelineForm) -> None:
    """In the file and by the command: rules that only `fleet run` keeps."""
    rendered(tmp_path, form)
    ended = CliRunner().invoke(cli, ["-C", str(tmp_path / "fleets/one"), "fleet", "render", form])
    lacks = ", ".join(left_out(read_fleet(tmp_path / "fleets/one", FakeClock().now())))
    assert ended.exit_code == 0 and lacks == "windows, exclusions, maxFailures, onUnreachable, uid"
    assert f"doesn't have: {lacks}" in ended.stdout and f"Not in the pipeline: {lacks}." in ended.stderr


def test_soak_of_the_last_stage_is_lacking(tmp_path: Path) -> None:
    """Nothing comes after it in a pipeline that would wait."""
    fleet = FLEET.replace("    before: [", "    soak: {for: 1h}\n    before: [")
    rendered(tmp_path, "argo", fleet)
    assert "the last stage's soak" in left_out(read_fleet(tmp_path / "fleets/one", FakeClock().now()))


def test_path_that_is_too_long_for_the_name_of_a_job(tmp_path: Path) -> None:
    """GitLab would create no pipeline, without a word; GitHub takes it."""
    made = write_fleet(tmp_path)
    folder = f"{'x' * 120}/{'y' * 120}"
    (made / folder).mkdir(parents=True)
    (made / folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    inventory = made / "fleet-inventory.yaml"
    inventory.write_text(inventory.read_text().replace("name: a,", f"name: a, folder: {folder},"))
    fleet = read_fleet(made, FakeClock().now())
    with pytest.raises(UsageError, match=r"GitLab can't have a job for a: .* more than 255 characters"):
        pipeline(fleet, "gitlab", made)
    assert folder in pipeline(fleet, "github", made)


def test_folder_that_a_job_would_not_have(tmp_path: Path) -> None:
    """One outside of the repository is refused, and a name that a shell would read as more than a name."""
    made = tmp_path / "one"
    made.mkdir()
    write_fleet(made)
    (made / ".git").mkdir()
    inventory = (made / "fleet-inventory.yaml").read_text()
    for folder, said in (("../two", "is not in the repository"), ("clusters/b c", "can't be in the path")):
        (made / folder).mkdir()
        (made / folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
        (made / "fleet-inventory.yaml").write_text(inventory.replace("name: a,", f"name: a, folder: '{folder}',"))
        with pytest.raises(UsageError, match=said):
            pipeline(read_fleet(made, FakeClock().now()), "github", made)


@pytest.mark.parametrize("form", FORMS)
def test_label_is_no_code(tmp_path: Path, form: PipelineForm) -> None:
    """Its value may be anything, and stands in no line of the file."""
    rendered(tmp_path, form)
    made = tmp_path / "fleets/one"
    inventory = made / "fleet-inventory.yaml"
    inventory.write_text(inventory.read_text().replace("region: south", 'region: "${{ secrets.X }}\\u2028hostile: 1"'))
    text = pipeline(read_fleet(made, FakeClock().now()), form, made)
    assert "hostile" not in text and "secrets.X" not in text and "fleets/one/clusters/c" in text


def test_soak_that_is_longer_than_a_pipeline_can_wait(tmp_path: Path) -> None:
    """GitLab delays a job by a week at most."""
    fleet = FLEET.replace("for: 24h", "for: 200h")
    with pytest.raises(UsageError, match="a delayed job of GitLab can wait for 168 h 00 min at most"):
        rendered(tmp_path, "gitlab", fleet)
    assert rendered(tmp_path, "github", fleet)


def test_soaks_that_are_longer_than_a_workflow(tmp_path: Path) -> None:
    """GitHub cancels it after 35 days, and would cancel runs in progress: all soaks together take 30 at most."""
    stage = "  - {name: NAME, selector: {matchLabels: {region: NAME}}, soak: {for: 20d}}\n"
    stages = "".join(stage.replace("NAME", name) for name in ("one", "two", "three"))
    fleet = f"{FLEET.split('  - name: canary')[0]}{stages}  exclude: [d]\n"
    regions = zip("abc", ("one", "two", "three"), strict=True)
    inventory = "clusters:\n" + "".join(
        f"- {{name: {name}, uid: u{name}, labels: {{region: {region}}}}}\n" for name, region in regions
    )
    made = write_fleet(tmp_path, fleet, f"{inventory}- {{name: d, uid: u4}}\n")
    with pytest.raises(UsageError, match="the soaks take 960 h 00 min, but GitHub cancels a workflow after 35 days"):
        pipeline(read_fleet(made, FakeClock().now()), "github", made)


def many(folder: Path, concurrency: str) -> Fleet:
    """300 clusters in one stage."""
    names = [f"c{number}" for number in range(300)]
    for name in names:
        (folder / "clusters" / name).mkdir(parents=True, exist_ok=True)
        (folder / "clusters" / name / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    stage = f"  - {{name: all, selector: {{}}, maxConcurrency: {concurrency}}}\n"
    (folder / "fleet.yaml").write_text(FLEET.split("  - name: canary")[0] + stage)
    lines = "".join(f"- {{name: {name}, uid: u{name}}}\n" for name in names)
    (folder / "fleet-inventory.yaml").write_text(f"clusters:\n{lines}")
    return read_fleet(folder, FakeClock().now())


def test_batches_are_no_larger_than_a_matrix(tmp_path: Path) -> None:
    """GitHub takes 256 jobs of one matrix, GitLab 200; Argo has no such limit."""
    fleet = many(tmp_path, "100%")
    jobs = yaml.safe_load(pipeline(fleet, "github", tmp_path))["jobs"]
    assert [len(each["strategy"]["matrix"]["include"]) for each in jobs.values()] == [256, 44]
    made = yaml.safe_load(pipeline(fleet, "gitlab", tmp_path))
    assert [len(made[stage]["parallel"]["matrix"]) for stage in made["stages"]] == [200, 100]
    templates = yaml.safe_load(pipeline(fleet, "argo", tmp_path))["spec"]["templates"]
    assert [len(step["withItems"]) for (step,) in templates[1]["steps"]] == [300]


def test_file_that_github_would_not_start(tmp_path: Path) -> None:
    """A workflow of 300 batches is longer than what it reads; that is said, and how to have fewer of them."""
    with pytest.raises(UsageError, match="GitHub starts no workflow of more than 500000") as caught:
        pipeline(many(tmp_path, "1"), "github", tmp_path)
    assert "a larger `maxConcurrency`" in caught.value.remedy
    assert pipeline(many(tmp_path, "1"), "gitlab", tmp_path)
