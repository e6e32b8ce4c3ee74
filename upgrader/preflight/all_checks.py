"""Runs every check. The families are listed here, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from upgrader.errors import ApiError, HelmError, HostError, PlaybookError, UpgraderError
from upgrader.model.finding import Finding
from upgrader.model.severities import with_policy
from upgrader.preflight.accept_queues import check_accept_queues
from upgrader.preflight.access_rights import check_access, missing_right
from upgrader.preflight.admission import check_admission
from upgrader.preflight.api_endpoints import check_api_endpoints
from upgrader.preflight.approvals import check_approvals
from upgrader.preflight.audit_log import check_audit_log
from upgrader.preflight.audit_webhook import check_audit_webhook
from upgrader.preflight.authorization_flags import check_authorization
from upgrader.preflight.autoscalers import check_autoscalers
from upgrader.preflight.backups import check_backups
from upgrader.preflight.certificates import check_certificates
from upgrader.preflight.chart_definitions import check_chart_definitions
from upgrader.preflight.cluster_credentials import check_signing_requests, check_tokens
from upgrader.preflight.component_resources import check_resources
from upgrader.preflight.component_skew import check_components
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.control_plane import check_control_plane
from upgrader.preflight.controller_keys import check_keys
from upgrader.preflight.controller_machines import check_clocks, check_disks, check_machines, check_ports
from upgrader.preflight.critical_pods import check_critical_pods
from upgrader.preflight.custom_resources import check_custom_resources
from upgrader.preflight.disruption_budgets import check_disruption_budgets
from upgrader.preflight.etcd_image import check_etcd_image
from upgrader.preflight.etcd_members import check_etcd_members
from upgrader.preflight.feature_gates import check_feature_gates
from upgrader.preflight.flags import check_flags
from upgrader.preflight.helm_client import check_helm
from upgrader.preflight.instances import check_instances
from upgrader.preflight.kubeadm_config import check_kubeadm_config
from upgrader.preflight.kubeconfig_credentials import check_credentials
from upgrader.preflight.kubelet_access import check_kubelet_access
from upgrader.preflight.memory import check_memory
from upgrader.preflight.metric_gates import check_metric_gates
from upgrader.preflight.mounted_files import check_mounted_files
from upgrader.preflight.namespaces import check_namespaces
from upgrader.preflight.networks import check_networks
from upgrader.preflight.node_sources import check_node_sources
from upgrader.preflight.nodes import check_nodes, check_workers
from upgrader.preflight.os_support import check_os_support
from upgrader.preflight.other_writers import check_other_writers
from upgrader.preflight.planned_etcd import check_planned_etcd
from upgrader.preflight.planned_images import check_planned_images
from upgrader.preflight.playbooks import check_plays
from upgrader.preflight.pod_addresses import check_pod_addresses
from upgrader.preflight.pod_checkpointer import check_checkpointer
from upgrader.preflight.protectors import check_protectors
from upgrader.preflight.pull_secrets import check_pull_secrets
from upgrader.preflight.rehearsal_record import check_rehearsal
from upgrader.preflight.releases import check_releases
from upgrader.preflight.removed_apis import check_removed_apis
from upgrader.preflight.renewed_certificates import check_renewed
from upgrader.preflight.request_limits import check_request_limits
from upgrader.preflight.rollouts import check_rollouts
from upgrader.preflight.served_apis import check_served_apis
from upgrader.preflight.ssh_access import check_hosts
from upgrader.preflight.ssh_keys import check_key_files
from upgrader.preflight.unattended_updates import check_unattended_updates
from upgrader.preflight.version_skew import check_controller_kubelets, check_version
from upgrader.preflight.webhooks import check_webhooks

__all__ = ["CHECKS", "Check", "PreflightContext", "blocking", "run_checks"]

Check = Callable[[PreflightContext], Iterator[Finding]]

CHECKS: tuple[tuple[str, Check], ...] = (
    ("version", check_version),
    ("backup", check_backups),
    ("access", check_access),
    ("access", check_credentials),
    ("hosts", check_hosts),
    ("ssh-keys", check_key_files),
    ("nodes", check_nodes),
    ("node-sources", check_node_sources),
    ("workers", check_workers),
    ("machines", check_machines),
    ("machines", check_unattended_updates),
    ("disks", check_disks),
    ("clocks", check_clocks),
    ("ports", check_ports),
    ("accept-queues", check_accept_queues),
    ("kubelets", check_controller_kubelets),
    ("os-support", check_os_support),
    ("control-plane", check_control_plane),
    ("control-plane", check_api_endpoints),
    ("instances", check_instances),
    ("kubeadm-config", check_kubeadm_config),
    ("critical-pods", check_critical_pods),
    ("etcd-members", check_etcd_members),
    ("etcd-image", check_etcd_image),
    ("checkpointer", check_checkpointer),
    ("pull-secrets", check_pull_secrets),
    ("releases", check_releases),
    ("releases", check_planned_images),
    ("releases", check_other_writers),
    ("admission", check_admission),
    ("resources", check_resources),
    ("planned-etcd", check_planned_etcd),
    ("audit-webhook", check_audit_webhook),
    ("webhooks", check_webhooks),
    ("apis", check_served_apis),
    ("audit-log", check_audit_log),
    ("components", check_components),
    ("removed-apis", check_removed_apis),
    ("rehearsal", check_rehearsal),
    ("flags", check_flags),
    ("flags", check_authorization),
    ("flags", check_request_limits),
    ("feature-gates", check_feature_gates),
    ("custom-resources", check_chart_definitions),
    ("custom-resources", check_custom_resources),
    ("namespaces", check_namespaces),
    ("disruption-budgets", check_disruption_budgets),
    ("networks", check_networks),
    ("pod-addresses", check_pod_addresses),
    ("autoscalers", check_autoscalers),
    ("helm", check_helm),
    ("memory", check_memory),
    ("certificates", check_certificates),
    ("certificates", check_renewed),
    ("mounted-files", check_mounted_files),
    ("keys", check_keys),
    ("kubelet-access", check_kubelet_access),
    ("signing-requests", check_signing_requests),
    ("tokens", check_tokens),
    ("metrics", check_metric_gates),
    ("rollouts", check_rollouts),
    ("protectors", check_protectors),
    ("playbooks", check_plays),
    ("approvals", check_approvals),
)


def run_checks(
    context: PreflightContext,
    checks: Sequence[tuple[str, Check]] = CHECKS,
    doing: Callable[[str], None] = lambda _: None,
) -> tuple[Finding, ...]:
    """Every finding of every check, as severe as the policy has it. A check that fails itself is a finding
    `FAMILY.unknown`, which blocking.

    If it lacks a right that only checks need, it is the warning `FAMILY.forbidden`. `doing` is called with the current
    check.
    """
    findings: list[Finding] = []
    for number, (family, check) in enumerate(checks, 1):
        doing(f"checking… {number} of {len(checks)}: {family}")
        try:
            # What a check found before it failed counts too.
            for finding in check(context):
                findings.append(finding)  # noqa: PERF402
        except (ApiError, HelmError, HostError, PlaybookError) as error:
            findings.append(missing_right(family, error) or _unknown(family, error))
    return tuple(with_policy(findings, context.severities))


def blocking(findings: Iterable[Finding]) -> bool:
    """Whether any finding forbids a run."""
    return any(finding.blocking for finding in findings)


def _unknown(family: str, error: UpgraderError) -> Finding:
    title = f"the {family.replace('-', ' ')} could not be checked"
    return Finding(f"{family}.unknown", "unknown", title, error.message, error.remedy)
