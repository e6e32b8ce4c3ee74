"""The schema of `fleet.yaml` and `fleet-inventory.yaml`. Its descriptions are those of the published JSON Schemas."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from upgrader.config.observability_yaml import ClusterName, HttpSection, WebhookSection
from upgrader.config.section import Duration, NodeShare, Section, Text, Version
from upgrader.model.observability import ObservabilitySettings

__all__ = [
    "ClusterEntry",
    "FleetInventoryYaml",
    "FleetYaml",
    "JobsSection",
    "SelectorSection",
    "StageSection",
    "is_name",
]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")


def is_name(text: str) -> bool:
    """Whether a cluster or a stage can have this name."""
    return bool(_NAME.fullmatch(text))


def _name(text: object) -> str:
    """It becomes the name of a folder and, on a management cluster, of a Job."""
    if not isinstance(text, str) or not is_name(text):
        raise ValueError(f"{text!r} is not a valid name: at most 63 lower-case letters, digits, '-' and '.'")
    return text


def _day(text: object) -> date:
    try:
        return date.fromisoformat(text if isinstance(text, str) else "")
    except ValueError:
        raise ValueError(f"{text!r} is not a valid date; write it like 2026-12-15") from None


Name = Annotated[str, BeforeValidator(_name)]
Day = Annotated[Any, BeforeValidator(_day, json_schema_input_type=str)]


class RequirementSection(Section):
    """One condition on one label."""

    key: Text = Field(description="The label.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="As in Kubernetes.")
    values: list[str] = Field(default=[], description="For `In` and `NotIn`.")


class SelectorSection(Section):
    """A label selector, as in Kubernetes. Empty: every cluster."""

    match_labels: dict[str, str] = Field(default={}, description="Labels and their values.")
    match_expressions: list[RequirementSection] = Field(default=[], description="Further conditions.")


class SoakSection(Section):
    """What must be true before the next stage starts."""

    duration: Duration = Field(
        alias="for",
        description="How long the soak lasts after the stage's last run. Then each upgraded cluster must report the "
        "target version.",
        examples=["24h"],
    )
    min_requests: int = Field(
        0,
        ge=0,
        description="The least number of requests for objects that an API server of each upgraded cluster must have "
        "answered since the cluster's run ended, according to its metrics. Not counted: 401, 403, 429 and 5xx, watches "
        "and connections, Leases, probes. The metrics don't distinguish users from controllers and kubelets, which "
        "also send requests in an idle cluster. With several controllers, only one API server is queried. If it wasn't "
        "queried within an hour after the run, and hasn't restarted since, requests are counted from the first query "
        "on.",
        examples=[10000],
    )
    gates: list[Text] = Field(
        default=[],
        description="Names of metric gates in the `upgrader.yaml` of each of the stage's clusters. From the end of a "
        "cluster's run until the soak has ended, they are queried every minute, from where `upgrader fleet run` runs. "
        "The soak doesn't end while a gate doesn't pass. If a gate hasn't passed by its `deadline`, no further run "
        "starts until you use `upgrader fleet retry` or `skip` for that cluster.",
        examples=[["api-errors"]],
    )
    restart: bool = Field(
        False,
        description="Whether a pod is restarted in each upgraded cluster once the stage's runs have ended: a pod of "
        "kube-scheduler or kube-controller-manager that isn't the leader, if there are at least two. It is evicted, "
        "and the soak doesn't end before all pods of its Deployment are ready again. Windows, exclusions, "
        "`maxConcurrency` and `domains` apply to these restarts as they do to runs.",
    )


class ApprovalGateSection(Section):
    """A person's approval: `upgrader fleet approve STAGE`."""

    type: Literal["Approval"] = Field(description="Only `Approval` for now.")


class MaxFailuresSection(Section):
    """How many clusters of the stage may have failed while further runs still start: numbers, or percentages of the
    stage's clusters, which are rounded down.
    """

    blocked: NodeShare | None = Field(default=None, description="A check blocked the run; nothing was changed.")
    rolled_back: NodeShare | None = Field(default=None, description="Rolled back, and healthy.")
    broken: NodeShare | None = Field(default=None, description="Manual action is required.")
    interrupted: NodeShare | None = Field(default=None, description="Interrupted, and not completed by three retries.")
    same_cause: int = Field(
        default=1,
        ge=0,
        description="How many clusters of the campaign may have failed for the same cause. After one more, no further "
        "run starts.",
    )


class OnUnreachableSection(Section):
    """What happens to a cluster whose API doesn't answer before its run."""

    wait: Duration = Field(
        default=48 * 3600.0,
        description="How long requests to its API are retried before `then` applies.",
        examples=["48h"],
    )
    then: Literal["skip", "stop"] = Field(
        default="stop",
        description="`stop`: the campaign waits for an operator. `skip`: it continues without the cluster.",
    )


class StageSection(Section):
    """Clusters that are upgraded after those of the stages before."""

    name: Name = Field(description="The stage's name.")
    selector: SelectorSection = Field(description="The stage's clusters. No cluster may be in two stages.")
    before: list[ApprovalGateSection] = Field(default=[], description="What must happen before the stage starts.")
    max_concurrency: NodeShare = Field(
        default=1,
        validate_default=True,
        description="How many clusters are upgraded at the same time: a number, or a percentage of the stage's "
        "clusters, which is rounded down to at least 1.",
    )
    max_failures: MaxFailuresSection = MaxFailuresSection()
    on_unreachable: OnUnreachableSection = OnUnreachableSection()
    soak: SoakSection | None = Field(default=None, description="What must be true before the next stage starts.")


class DomainsSection(Section):
    """Failure domains."""

    label: Text = Field(description="The label that names a cluster's domain; each cluster must have it.")
    one_at_a_time: bool = Field(
        default=True, description="Whether all clusters that are upgraded at the same time must be in the same domain."
    )


class WindowSection(Section):
    """A maintenance window: runs start only while it is open, and only if enough time for a rollback is left. A
    run that has started continues after the window's end.
    """

    selector: SelectorSection = Field(
        description="The window's clusters. Runs of clusters without a window may start at any time."
    )
    cron: Text = Field(description="When the window opens, in local time: minute, hour, day, month, day of the week.")
    duration: Duration = Field(description="How long the window is open, in elapsed time.", examples=["4h"])
    time_zone: Text = Field(description="An IANA time zone, such as `Europe/Berlin`.")


class ExclusionSection(Section):
    """Days on which no run starts, even in a window."""

    selector: SelectorSection = Field(default=SelectorSection(), description="The clusters. Empty: all.")
    first: Day = Field(alias="from", description="The first day.")
    last: Day = Field(alias="to", description="The last day: runs may start again on the next one.")
    time_zone: Text = Field(description="An IANA time zone, such as `Europe/Berlin`.")


class FleetObservabilitySection(Section):
    """Where metrics of the campaign, and messages about it, go
    ([Many clusters](../fleet.md#reports-metrics-and-a-calendar)).
    """

    fleet: ClusterName = Field(
        default="",
        description="The fleet's name in metrics and messages. Empty: the name of the folder of `fleet.yaml`.",
    )
    textfile_directory: str = Field(
        default="",
        description="The folder that node_exporter's textfile collector reads on this machine, relative to "
        "`fleet.yaml`. Empty: nowhere.",
    )
    pushgateway: HttpSection | None = Field(
        default=None,
        description="The Pushgateway to which the campaign pushes its metrics. Paths are relative to `fleet.yaml`.",
    )
    webhook: WebhookSection | None = Field(
        default=None,
        description="Where to send messages about the campaign. Paths are relative to `fleet.yaml`. The events: the "
        "campaign starts, continues after it has waited for an operator, is paused or resumed, or a stage begins "
        "(`start`); a stage waits for an approval (`approval`); clusters fail or are unreachable, or no other one may "
        "begin (`failure`); clusters are rolled back (`rollback`); a stage or the campaign is done (`end`).",
    )

    def at(self, folder: Path) -> ObservabilitySettings:
        """The settings; `folder` is that of `fleet.yaml`, which names the fleet if nothing else does."""
        return ObservabilitySettings(
            cluster=self.fleet or folder.resolve().name or "fleet",
            textfile_folder=folder / self.textfile_directory if self.textfile_directory else None,
            pushgateway=self.pushgateway.at(folder) if self.pushgateway else None,
            webhook=self.webhook.at(folder) if self.webhook else None,
        )


class JobsSection(Section):
    """Runs as Jobs on a management cluster (`upgrader fleet run --executor jobs`)."""

    image: str = Field(
        pattern=r"^[^\s@]+@sha256:[0-9a-f]{64}$",
        description="The image `upgrader-runner`, by digest; it has to contain the same upgrader as `fleet run`.",
        examples=["registry.example.com/upgrader/upgrader-runner@sha256:…"],
    )
    kubeconfig: Text = Field(
        default="hub.kubeconfig",
        description="The kubeconfig of the management cluster, relative to this file.",
    )
    namespace_prefix: str = Field(
        default="fleet-",
        pattern=r"^[a-z0-9][-a-z0-9]*$",
        description="Each cluster's namespace is this prefix and the cluster's name, as in the chart `fleet`.",
    )
    queue: str = Field(
        default="", description="Kueue's LocalQueue in each of these namespaces. Empty: Jobs begin immediately."
    )
    grace: Duration = Field(
        default=3600.0,
        description="How long a run may take to end its step after its pod is deleted, for example by a drain. Set it "
        "to more than the longest step takes.",
        examples=["1h"],
    )


class FleetSpec(Section):
    """The campaign."""

    action: Literal["upgrade", "finalize"] = Field(
        default="upgrade",
        description="What each run does: `upgrade` to the target, or `finalize`, which ends the emulation of the old "
        "minor version (`policy.emulation`) in clusters that run the target.",
    )
    target: Version = Field(description="The Kubernetes version that every cluster should run.", examples=["v1.37.1"])
    stages: list[StageSection] = Field(min_length=1, description="In their order.")
    exclude: list[Name] = Field(default=[], description="Clusters of the inventory that are in no stage.")
    domains: DomainsSection | None = Field(default=None, description="Failure domains.")
    windows: list[WindowSection] = Field(default=[], description="Maintenance windows.")
    exclusions: list[ExclusionSection] = Field(default=[], description="Days on which no run starts.")
    expected_run: Duration = Field(
        default=1800.0,
        description="The expected duration of a run. A run starts only if the window has twice that time left, because "
        "of a possible rollback, or more if runs of the campaign took longer.",
        examples=["30m"],
    )
    kubeconfig_exec: list[Text] = Field(
        default=[],
        description="Commands that kubeconfigs may run for credentials (`exec`): names that are searched on PATH, or "
        "absolute paths. The arguments aren't restricted; in `exec.env`, only variables for accounts, profiles, roles, "
        "regions and credentials are allowed. With most commands, anyone who can change a cluster folder can run any "
        "code as your user.",
        examples=[["aws"]],
    )
    observability: FleetObservabilitySection = FleetObservabilitySection()
    jobs: JobsSection | None = Field(default=None, description="Runs as Jobs on a management cluster.")


class FleetYaml(Section):
    """`fleet.yaml`: in which order, and when, the clusters of a fleet are upgraded."""

    api_version: Literal["upgrader.io/v1alpha1"] = Field(description="The format.")
    kind: Literal["FleetRun"] = Field(description="The kind.")
    spec: FleetSpec


class ClusterEntry(Section):
    """A cluster."""

    name: Name = Field(description="The cluster's name.")
    folder: str = Field(default="", description="Its cluster folder, relative to this file. Empty: `clusters/NAME`.")
    uid: Text = Field(
        description="The UID of its namespace kube-system: `kubectl get namespace kube-system -o "
        "jsonpath={.metadata.uid}`. A cluster with another one is never changed."
    )
    labels: dict[str, str] = Field(default={}, description="Labels for the selectors of fleet.yaml.")


class FleetInventoryYaml(Section):
    """`fleet-inventory.yaml`: the clusters of a fleet."""

    clusters: list[ClusterEntry] = Field(min_length=1, description="The clusters.")
