"""The kinds of runs."""

from __future__ import annotations

from enum import StrEnum

from upgrader.model.version import KubernetesVersion

__all__ = ["RunKind", "describe_run"]


class RunKind(StrEnum):
    """The command that started a run. Only an upgrade can be resumed or rolled back."""

    UPGRADE = "upgrade"
    FINALIZE = "finalize"
    MIGRATE_STORAGE = "migrate-storage"
    ADOPT = "adopt"
    ADOPT_UNDO = "adopt-undo"
    ADOPT_NEW = "adopt-new-controllers"
    REMOVE_CONTROLLER = "remove-controller"
    LEAVE_OUT_CONTROLLER = "leave-out-controller"
    RETURN_CONTROLLER = "return-controller"
    RECOVER = "recover"
    RESTORE = "restore"
    RENEW_CERTIFICATES = "renew-certificates"
    TRUST_NEW_CA = "trust-new-ca"
    SIGN_WITH_NEW_CA = "sign-with-new-ca"
    FINISH_NEW_CA = "finish-new-ca"
    CANCEL_NEW_CA = "cancel-new-ca"

    @property
    def command(self) -> str:
        """The command line. Every kind except an upgrade is idempotent: the same command continues it."""
        return {
            RunKind.UPGRADE: "upgrader run",
            RunKind.FINALIZE: "upgrader finalize",
            RunKind.MIGRATE_STORAGE: "upgrader migrate-storage",
            RunKind.ADOPT: "upgrader adopt",
            RunKind.ADOPT_UNDO: "upgrader adopt --undo",
            RunKind.ADOPT_NEW: "upgrader adopt --new-controllers",
            RunKind.REMOVE_CONTROLLER: "upgrader controllers remove",
            RunKind.LEAVE_OUT_CONTROLLER: "upgrader run",
            RunKind.RETURN_CONTROLLER: "upgrader resume",
            RunKind.RECOVER: "upgrader recover",
            RunKind.RESTORE: "upgrader restore",
            RunKind.RENEW_CERTIFICATES: "upgrader certs renew",
            RunKind.TRUST_NEW_CA: "upgrader certs rotate-ca trust",
            RunKind.SIGN_WITH_NEW_CA: "upgrader certs rotate-ca sign",
            RunKind.FINISH_NEW_CA: "upgrader certs rotate-ca finish",
            RunKind.CANCEL_NEW_CA: "upgrader certs rotate-ca cancel",
        }[self]


def describe_run(kind: RunKind, target: KubernetesVersion | None, current: KubernetesVersion | None = None) -> str:
    """`upgrade to v1.37.1`, or the kind if it leads to no other version.

    From a newer version, `current`, it is a downgrade.
    """
    if target is None or kind is not RunKind.UPGRADE:
        return str(kind)
    return f"{'downgrade' if current and target < current else kind} to {target}"
