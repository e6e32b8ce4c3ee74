"""Which findings were seen on a real API server, a real etcd or a real kernel; and, by name, which were not.

Each test that is named here makes its findings fire, and asserts that the same cluster is silent without their cause.
Only `apis.requested-deprecated` is never silent there again: an API server counts such requests until it ends.
"""

from __future__ import annotations

import ast
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from upgrader.model.check_ids import READ_BY_CHECKS_ONLY, WORST_SEVERITY
from upgrader.preflight.all_checks import CHECKS

TESTS = Path(__file__).parents[2]

PROVEN: dict[str, tuple[str, ...]] = {
    "soak/test_adopted_again.py::test_undo_and_adopt_once_more": ("control-plane.static",),
    "e2e/test_certs.py::test_renewal_under_load": ("certificates.not-in-use",),
    "soak/test_replaced_certificate.py::test_certificate_that_was_replaced": ("mounted-files.replaced",),
    "e2e/test_trial.py::test_programs_that_refuse_are_quoted": ("trial.refused",),
    "contract/guard/test_gates.py::test_group_that_is_rolled": (
        "rollouts.awaited",
        "rollouts.not-ready",
        "rollouts.paused",
        "rollouts.under-way",
    ),
    "contract/guard/test_gates.py::test_pods_that_nobody_has_replaced": ("rollouts.left-behind",),
    "contract/guard/test_gates.py::test_pods_that_nobody_replaces": ("rollouts.by-hand",),
    "contract/guard/test_gates.py::test_protector": (
        "protectors.below-minimum",
        "protectors.met",
        "protectors.never-allow",
        "protectors.not-counted",
    ),
    "contract/test_rehearsal.py::test_a_field_that_the_target_drops_when_it_writes_is_named": ("rehearsal.dropped",),
    "contract/test_rehearsal.py::test_a_manifest_that_helm_could_not_apply_any_more_is_named": ("rehearsal.manifest",),
    "contract/test_rehearsal.py::test_a_rule_that_the_target_does_not_compile_is_named": ("rehearsal.create",),
    "contract/test_rehearsal.py::test_a_target_that_does_not_start_is_a_finding": ("rehearsal.start",),
    "contract/test_rehearsal.py::test_a_value_that_the_target_does_not_read_is_a_warning": ("rehearsal.changed",),
    "contract/test_rehearsal.py::test_a_user_who_could_not_connect_to_pods_any_more_is_named": ("rehearsal.denied",),
    "contract/test_rehearsal.py::test_an_ordinary_cluster_has_no_warning": ("rehearsal.added",),
    "contract/test_rehearsal.py::test_keys_of_a_plugin_are_unknown": ("rehearsal.kms",),
    "contract/test_rehearsal.py::test_nothing_else_is_found": ("rehearsal.client",),
    "contract/test_rehearsal.py::test_objects_of_an_api_that_goes_are_named": ("rehearsal.gone",),
    "contract/test_rehearsal.py::test_objects_of_an_alpha_version_that_only_the_target_serves_again_are_named": (
        "rehearsal.left",
    ),
    "contract/test_rehearsal.py::test_objects_that_no_key_decrypts_are_named": (
        "rehearsal.unreadable",
        "rehearsal.unlisted",
    ),
    "contract/test_rehearsal.py::test_policies_whose_parameters_are_secrets_are_unknown": ("rehearsal.parameters",),
    "contract/test_rehearsal.py::test_tokens_and_ports_that_the_target_does_not_take_are_named": (
        "rehearsal.service-range",
        "rehearsal.token",
    ),
    "contract/test_rehearsal.py::test_what_a_webhook_converts_is_unknown": ("rehearsal.conversion",),
    "contract/test_rehearsal.py::test_what_the_running_version_refuses_too_is_unknown": ("rehearsal.unproven",),
    "soak/test_checks_of_older_versions.py::test_api_without_service_cidrs": ("networks.service-room-unknown",),
    "soak/test_checks_of_older_versions.py::test_member_that_is_cut_off": ("etcd-members.behind",),
    "soak/test_checks_of_older_versions.py::test_members_of_an_older_etcd": (
        "etcd-members.old-version",
        "etcd-members.versions-differ",
    ),
    "test_charts_of_others.py::test_definitions_that_helm_does_not_upgrade": ("custom-resources.not-upgraded",),
    "test_checks.py::test_aggregated_api_without_a_backend": ("apis.unavailable",),
    "test_checks.py::test_budget_that_can_not_be_computed": ("disruption-budgets.not-computed",),
    "test_checks.py::test_budget_whose_pods_are_not_ready": ("disruption-budgets.unhealthy",),
    "test_checks.py::test_budget_without_room": ("disruption-budgets.no-room",),
    "test_checks.py::test_deprecated_api_that_was_used": ("apis.requested-deprecated",),
    "test_checks.py::test_namespace_that_can_not_be_deleted": ("namespaces.terminating",),
    "test_checks.py::test_release_whose_record_is_damaged": ("removed-apis.damaged",),
    "test_checks.py::test_release_with_an_api_that_is_gone": ("removed-apis.others",),
    "test_checks.py::test_service_cidr_within_a_pod_cidr": ("networks.overlap",),
    "test_checks.py::test_two_budgets_over_one_pod": ("disruption-budgets.overlap",),
    "test_checks.py::test_webhook_over_the_control_plane": ("webhooks.catches-control-plane",),
    "test_checks.py::test_webhook_without_a_backend": ("webhooks.no-backend", "webhooks.slow"),
    "test_checks_of_api_servers.py::test_address_behind_the_service_of_the_api": ("control-plane.endpoint-changes",),
    "test_checks_of_api_servers.py::test_client_of_an_api_that_the_target_removes": (
        "apis.requested-removed",
        "audit-log.removed",
    ),
    "test_checks_of_api_servers.py::test_components_of_the_control_plane": (
        "control-plane.unexpected",
        "control-plane.leftover",
        "control-plane.missing",
        "control-plane.not-adopted",
        "control-plane.not-ready",
    ),
    "test_checks_of_api_servers.py::test_conversion_webhook_without_a_backend": ("custom-resources.conversion",),
    "test_checks_of_api_servers.py::test_definition_that_can_not_be_deleted": ("custom-resources.terminating",),
    "test_checks_of_api_servers.py::test_definition_that_stores_another_version_now": (
        "custom-resources.stored-versions",
    ),
    "test_checks_of_api_servers.py::test_definition_whose_names_are_taken": ("custom-resources.not-served",),
    "test_checks_of_api_servers.py::test_etcd_that_does_not_answer": ("etcd.unhealthy",),
    "test_checks_of_api_servers.py::test_instances_by_themselves": ("instances.proxied", "instances.unreachable"),
    "test_checks_of_api_servers.py::test_pod_checkpointer": (
        "checkpointer.down",
        "checkpointer.missing",
        "checkpointer.not-ready",
    ),
    "test_checks_of_api_servers.py::test_services_have_taken_nearly_all_addresses": ("networks.service-room",),
    "test_checks_of_controllers.py::test_clock_that_is_off": ("clocks.apart", "clocks.off"),
    "test_checks_of_controllers.py::test_disk_of_etcd": (
        "disks.full",
        "disks.no-inodes",
        "disks.read-only",
        "disks.scarce",
    ),
    "test_checks_of_controllers.py::test_disk_that_does_not_tell_its_space": ("disks.unread",),
    "test_checks_of_controllers.py::test_keys_of_two_controllers": ("keys.differ", "keys.other-issuer"),
    "test_checks_of_controllers.py::test_ports_of_outgoing_connections": ("ports.ephemeral",),
    "test_checks_of_controllers.py::test_queues_of_listeners_that_close": (
        "accept-queues.dropped",
        "accept-queues.unread",
    ),
    "test_checks_of_credentials.py::test_certificate_that_nobody_issues": ("signing-requests.pending",),
    "test_checks_of_credentials.py::test_credentials_that_may_list_and_no_more": (
        "apis.requests-unknown",
        "etcd.unknown",
        "removed-apis.unread",
    ),
    "test_checks_of_credentials.py::test_credentials_without_rights": (
        "access.missing",
        "apis.forbidden",
        "namespaces.forbidden",
        "tokens.forbidden",
    ),
    "test_checks_of_credentials.py::test_rights_of_kube_apiserver_at_kubelets": (
        "kubelet-access.refused",
        "kubelet-access.unread",
    ),
    "test_checks_of_credentials.py::test_token_that_never_expires": ("tokens.long-lived",),
    "test_checks_of_etcd.py::test_database_at_its_quota": ("etcd-members.nearly-full", "etcd.alarm"),
    "test_checks_of_etcd.py::test_database_with_holes": ("etcd-members.fragmented",),
    "test_checks_of_etcd.py::test_member_that_is_down": ("etcd-members.no-spare", "etcd-members.unread"),
    "test_checks_of_etcd.py::test_member_that_never_joined": ("etcd-members.unexpected", "etcd-members.learner"),
    "test_checks_of_etcd.py::test_members_that_are_the_controllers": (
        "etcd-members.unexpected",
        "etcd-members.elsewhere",
        "etcd-members.missing",
    ),
    "test_checks_of_etcd.py::test_planned_addresses": ("planned-etcd.unanswered", "planned-etcd.unread"),
    "test_checks_of_etcd.py::test_image_of_a_single_member": ("etcd-image.no-spare",),
    "test_checks_of_etcd.py::test_image_that_members_get": (
        "etcd-image.elsewhere",
        "etcd-image.no-return",
        "etcd-image.not-ready",
        "etcd-image.older",
        "etcd-image.precondition",
        "etcd-image.skips-minor",
        "etcd-image.too-old",
        "etcd-image.unlisted",
        "etcd-image.unread",
    ),
    "test_checks_of_folders.py::test_folder_with_what_the_target_does_not_know": (
        "backup.none",
        "feature-gates.deprecated",
        "feature-gates.locked",
        "feature-gates.no-data",
        "feature-gates.removed",
        "feature-gates.unsure",
        "flags.deprecated",
        "flags.no-data",
        "flags.removed",
        "flags.unread",
        "releases.removed-apis",
        "removed-apis.deprecated",
        "removed-apis.planned",
    ),
    "test_checks_of_hosts.py::test_certificates_of_a_controller": (
        "certificates.expired",
        "certificates.expiring",
        "certificates.not-yet-valid",
        "certificates.unknown",
    ),
    "test_checks_of_hosts.py::test_controller_that_ssh_reaches_otherwise": (
        "hosts.command",
        "hosts.not-root",
        "hosts.unreachable",
    ),
    "test_checks_of_hosts.py::test_key_that_ssh_ignores": ("ssh-keys.open",),
    "test_checks_of_node_upgrades.py::test_budgets_of_pods_that_a_drain_evicts": (
        "nodes.drain-blocked",
        "nodes.drain-waits",
    ),
    "test_checks_of_node_upgrades.py::test_node_that_ansible_does_not_know": ("nodes.not-in-inventory",),
    "test_checks_of_node_upgrades.py::test_pod_that_nobody_would_make_again": ("nodes.bare-pods",),
    "test_checks_of_node_upgrades.py::test_programs_of_the_new_version": ("nodes.source",),
    "test_checks_of_nodes.py::test_address_of_another_machine": ("machines.not-examined", "machines.other-node"),
    "test_checks_of_nodes.py::test_components_that_do_not_go_together": (
        "components.mixed",
        "components.newer",
        "components.older",
    ),
    "test_checks_of_nodes.py::test_controller_without_a_controller_manager": ("networks.pod-room-unknown",),
    "test_checks_of_nodes.py::test_critical_workload_that_is_not_ready": ("critical-pods.not-ready",),
    "test_checks_of_nodes.py::test_etcd_that_is_not_ready": ("etcd.not-ready",),
    "test_checks_of_nodes.py::test_inventory_and_nodes_that_differ": (
        "nodes.missing",
        "nodes.unlabelled",
        "nodes.unlisted",
    ),
    "test_checks_of_nodes.py::test_kubelet_that_is_none": ("version.kubelet-unknown",),
    "test_checks_of_nodes.py::test_kubelet_of_another_version": (
        "version.kubelet-ahead",
        "components.kubelet-newer",
        "version.kubelet-older",
    ),
    "test_checks_of_nodes.py::test_kubelet_that_can_not_run_the_chart": ("kubelets.too-old",),
    "test_checks_of_nodes.py::test_memory_of_a_controller": ("memory.tight",),
    "test_checks_of_nodes.py::test_next_node_gets_no_pod_cidr": ("networks.no-pod-room",),
    "test_checks_of_nodes.py::test_node_that_is_cordoned_or_deleted": (
        "nodes.cordoned",
        "nodes.deleting",
        "nodes.not-ready",
        "nodes.unknown",
        "workers.deleting",
    ),
    "test_checks_of_nodes.py::test_node_that_is_healthy_then_not_ready": ("workers.not-ready", "workers.unknown"),
    "test_checks_of_nodes.py::test_node_under_pressure": ("nodes.pressure",),
    "test_checks_of_nodes.py::test_worker_that_is_down": ("workers.down",),
    "test_checks_of_nodes.py::test_pods_with_addresses_of_another_network": ("pod-addresses.outside",),
    "test_checks_of_nodes.py::test_ports_that_services_may_take": ("ports.node-ports",),
    "test_checks_of_nodes.py::test_surge_node_that_an_earlier_run_has_left": (
        "nodes.surge-left",
        "nodes.surge-listed",
    ),
    "test_checks_of_nodes.py::test_target_that_is_older": ("version.downgrade",),
    "test_checks_of_plans.py::test_endpoint_that_is_there_for_good": ("control-plane.endpoints",),
    "test_checks_of_plans.py::test_kube_apiserver_that_is_planned": (
        "control-plane.replicas",
        "resources.cpu-limit",
        "resources.low-cpu-limit",
        "resources.memory-limit",
        "resources.no-request",
    ),
    "test_checks_of_plans.py::test_limits_that_a_limit_range_adds": ("admission.limits",),
    "test_checks_of_plans.py::test_namespace_that_the_run_brings": ("admission.untested",),
    "test_checks_of_plans.py::test_number_of_pods_that_another_client_set": ("autoscalers.reset",),
    "test_checks_of_plans.py::test_pods_that_a_policy_gives_less_time_to_end": ("admission.grace-period",),
    "test_checks_of_plans.py::test_pods_that_a_quota_refuses": ("admission.refused",),
    "test_checks_of_plans.py::test_workload_that_a_gitops_controller_declares": ("releases.other-writer",),
    "test_checks_of_releases.py::test_release_that_failed": ("releases.last-failed", "releases.never-worked"),
    "test_checks_of_releases.py::test_release_whose_records_are_lost": ("releases.no-records",),
    "test_checks_of_releases.py::test_release_that_was_interrupted": (
        "releases.busy",
        "releases.pending",
        "releases.stuck",
    ),
    "test_checks_of_systems.py::test_cgroups_that_the_new_kubelet_refuses": (
        "os-support.cgroup-v1",
        "os-support.cgroups-unknown",
    ),
    "test_checks_of_systems.py::test_system_of_a_node": (
        "os-support.containerd",
        "os-support.ended",
        "os-support.kernel",
        "os-support.not-known",
    ),
    "test_checks_of_webhooks.py::test_audit_webhook": ("audit-webhook.unanswered",),
    "test_emulation.py::test_next_minor_while_another_one_is_emulated": ("version.emulating",),
    "test_playbooks.py::test_playbooks_before_a_run": (
        "playbooks.idle-play",
        "playbooks.no-machine",
        "playbooks.refused",
    ),
    "test_prometheus.py::test_gates_before_a_run": ("metrics.outside", "metrics.unanswered"),
}
"""A test in tests/contract, or of another folder of tests → the findings that it makes fire, and silent."""

_OF_FILES = "`check --offline` finds it: it reads the folder, and asks no cluster."
UNIT_TESTS_ONLY: dict[str, str] = {
    **dict.fromkeys(
        (
            "audit-log.damaged",
            "audit-log.deprecated",
            "audit-log.empty",
            "audit-log.other-cluster",
            "audit-log.read",
        ),
        "It reads a file, and a table.",
    ),
    "access.credentials-expiring": "It reads the kubeconfig and a clock.",
    "approvals.needed": "It reads upgrader.yaml and the plan.",
    **dict.fromkeys(
        (
            "nodes.down",
            "nodes.half-left-out",
            "nodes.left-out",
            "nodes.left-out-skew",
            "nodes.needs-all",
            "nodes.no-quorum",
            "nodes.relabelled",
            "nodes.returned",
            "nodes.still-left-out",
        ),
        "It needs three controllers, one of them without power: tests/soak/test_controller_that_is_down.py.",
    ),
    **dict.fromkeys(
        ("machines.unattended-updates", "machines.updates-unknown"),
        "It reads the settings of a package manager that a lab's machines don't have.",
    ),
    "instances.port": "It needs a flag whose value only a running container knows.",
    "mounted-files.unread": "It needs a container that ends between two questions.",
    "trial.unknown": "It needs a kubelet that can't start a pod which the API admits.",
    **dict.fromkeys(("charts.dependency", "charts.refused", "charts.remote", "files.invalid"), _OF_FILES),
    **dict.fromkeys(("files.not-opened", "version.not-known", "version.too-old"), _OF_FILES),
    **dict.fromkeys(
        ("kubeadm-config.format", "kubeadm-config.unreadable", "nodes.kubelet-config"),
        "It reads one text, which is the same in any cluster.",
    ),
    "etcd-image.removed-flags": "It reads the text of a manifest, and a table.",
    "flags.authorization": "It reads a flag of a planned release; `python -m bench.wrong_api` skips it on a real one.",
    "flags.fewer-requests": "It compares the flags of a planned release with those of the last one.",
    "flags.runtime-config": "It reads a flag of a planned release, and a table.",
    **dict.fromkeys(
        ("nodes.left-alone-in-pool", "nodes.left-alone-missing", "nodes.windows"),
        "It compares upgrader.yaml with the labels of nodes.",
    ),
    "nodes.drain-lifted": "It needs Longhorn or KubeVirt.",
    **dict.fromkeys(
        ("rehearsal.damaged", "rehearsal.missing", "rehearsal.old", "rehearsal.stale", "rehearsal.used"),
        "It reads a file and upgrader.yaml.",
    ),
    "rehearsal.crash": "No released version of kube-apiserver is known to end with the data of another.",
    "rehearsal.elsewhere": "It reads a flag; no test has a second etcd.",
    "rehearsal.manifest-gone": "It compares a record of Helm with what two API servers serve.",
    "rehearsal.manifest-unread": "It reads a record of Helm.",
    "rehearsal.nested": "It reads a list, as an API server writes it.",
    "rehearsal.status": "It needs a stricter validation of a status, which does not tolerate what is stored.",
    "rehearsal.unfinished": "It needs more objects than can be compared in half an hour.",
    "rehearsal.update": "It needs a validation that has become stricter, and does not tolerate what is stored.",
    "rehearsal.version": "It compares what two API servers list; `python -m bench.rehearsal` has it on real ones.",
    "pull-secrets.no-checkpoint": "It needs a registry with a login: tests/soak/test_private_registry.py.",
    "releases.image-pinned": "It compares two manifests.",
    "helm.version": "It asks the Helm of this machine, and needs one before Helm 3.",
}
"""Finding → why only unit tests, with fakes, have it."""


def _of_every_family() -> set[str]:
    """What `run_checks` itself makes of an API that doesn't answer, or refuses: the same for every family."""
    unknown = {f"{family}.unknown" for family, _ in CHECKS}
    return unknown | {f"{family}.forbidden" for family in READ_BY_CHECKS_ONLY}


def test_every_finding_is_proven_or_named_as_not() -> None:
    """Whoever adds a finding adds a test that makes it fire on something real, or says why there is none."""
    proven = set(chain.from_iterable(PROVEN.values()))
    assert proven.isdisjoint(UNIT_TESTS_ONLY), "it is proven by now"
    assert proven | UNIT_TESTS_ONLY.keys() | _of_every_family() == WORST_SEVERITY.keys()


@pytest.mark.parametrize("test", PROVEN)
def test_the_tests_that_prove_it_are_there(test: str) -> None:
    """Each is a function of that file, and its file names the finding."""
    file, _, name = test.partition("::")
    text, functions = _read(file)
    assert name in functions
    assert [id_ for id_ in PROVEN[test] if f'"{id_}"' not in text] == []


@cache
def _read(file: str) -> tuple[str, frozenset[str]]:
    text = (TESTS / (file if "/" in file else f"contract/{file}")).read_text()
    tree = ast.parse(text)
    return text, frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize("id_", UNIT_TESTS_ONLY)
def test_what_is_not_proven_has_a_unit_test(id_: str) -> None:
    """At least fakes make it fire."""
    others = (path for path in (TESTS / "unit").rglob("test_*.py") if path.name != Path(__file__).name)
    assert any(f'"{id_}"' in path.read_text() for path in others), id_
