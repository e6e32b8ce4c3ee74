"""The variables that the kubeconfig of a fleet's cluster may set for its credential plugin (`exec.env`)."""

from __future__ import annotations

import re
from pathlib import Path

from upgrader.config.yaml_document import shown
from upgrader.errors import ConfigError

__all__ = ["check_exec_variables"]

_VARIABLE = re.compile(
    r"AWS_(PROFILE|DEFAULT_PROFILE|REGION|DEFAULT_REGION|STS_REGIONAL_ENDPOINTS|ROLE_ARN|ROLE_SESSION_NAME"
    r"|ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN|MAX_ATTEMPTS|RETRY_MODE|USE_FIPS_ENDPOINT|EC2_METADATA_DISABLED)"
    r"|AAD_[A-Z_]+|AZURE_(CLIENT_ID|TENANT_ID|CLIENT_SECRET|CLIENT_CERTIFICATE_PASSWORD|USERNAME|PASSWORD)"
    r"|CLOUDSDK_(CORE_(ACCOUNT|PROJECT|DISABLE_PROMPTS)|COMPUTE_(REGION|ZONE)|ACTIVE_CONFIG_NAME"
    r"|AUTH_(ACCESS_TOKEN|IMPERSONATE_SERVICE_ACCOUNT))"
    r"|USE_GKE_GCLOUD_AUTH_PLUGIN|KUBERNETES_EXEC_INFO"
    r"|OCI_CLI_(PROFILE|REGION|AUTH)|OCI_REGION|SCW_(PROFILE|DEFAULT_REGION)|DIGITALOCEAN_ACCESS_TOKEN"
)
"""What kubeconfigs of EKS, AKS, GKE and others set: names of accounts, roles and regions, and credentials."""


def check_exec_variables(path: Path, listed: object) -> None:
    """`listed`: the `exec.env` of the kubeconfig in that file. Raises ConfigError for any other variable.

    A variable may have a command run other code than its own, such as LD_PRELOAD, BASH_ENV or CLOUDSDK_PYTHON do, or
    AWS_CONFIG_FILE with `credential_process`. So only those are allowed that say who logs in, and where.
    """
    for number, item in enumerate(listed if isinstance(listed, list | tuple) else [listed], 1):
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            raise ConfigError(
                f"{shown(path)}: entry {number} of `exec.env` sets {name!r}; a campaign allows only variables for "
                "accounts, profiles, roles, regions and credentials",
                remedy="Remove it from the kubeconfig. If the command needs it, set it in the environment of "
                "`upgrader fleet run`.",
            )
