"""Whether the kubelet would start a static pod from an image that is on the node.

Since Kubernetes 1.35 it keeps a record of each image that it pulled, with the credentials that it used, and lets a pod
use the image only with these (`imagePullCredentialsVerificationPolicy`), whether its pull policy is IfNotPresent or
Never. A static pod can't refer to a Secret or a service account. So its image must have been pulled with what every
pod of the node has, or by other means than the kubelet: of such an image there is no record.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

FOLDER = Path("/var/lib/kubelet/image_manager/pulled")


def locked(folder: Path, image: str, image_id: str) -> str:
    """Why a static pod can't use the image; empty when it can. `image`: as the pod calls it; `image_id`: the container
    runtime's.
    """
    path = folder / f"sha256-{hashlib.sha256(image_id.encode()).hexdigest()}"
    try:
        record = json.loads(path.read_bytes())
        known = record.get("credentialMapping") or {}
        if known.get(_repository(image), {}).get("nodePodsAccessible"):
            return ""
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, AttributeError) as error:
        return f"the kubelet's record of how image {image} was pulled can't be read: {error}"
    return (
        f"image {image} was pulled with a pod's credentials (imagePullSecrets of the pod or its service account). The "
        "kubelet verifies such credentials, and a static pod can't have them: give the node credentials for the "
        "registry (the kubelet's credential provider or /var/lib/kubelet/config.json, or the container runtime's "
        "configuration), and remove imagePullSecrets from the pod and its service account. The next pod then pulls "
        "the image with the node's credentials"
    )


def _repository(image: str) -> str:
    """An image's name without tag and digest, as the records are keyed."""
    name = image.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return folder + slash + last.partition(":")[0]
