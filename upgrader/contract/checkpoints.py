"""Names that pods, charts and files share with the checkpointer."""

PREFIX = "checkpointer.upgrader.io/"

ASKS = PREFIX + "checkpoint"
"""Annotation: a pod with the value "true" asks for a checkpoint."""

LEASE = PREFIX + "lease"
"""Annotation: name of the Lease (in the pod's namespace) that shows whether any instance of this workload runs."""

HELM_REVISION = PREFIX + "helm-revision"
"""Annotation of a Deployment or DaemonSet, not of its pods: the Helm revision that it was rendered for. On the pods it
would replace them with each revision.
"""

HELM_RELEASE = "meta.helm.sh/release-name"
"""Helm's own annotation of whatever it installs."""

CHECKPOINT_OF = PREFIX + "checkpoint-of"
"""Label of every static pod that we make: the name of the workload that it replaces."""

GENERATION = PREFIX + "generation"
"""Annotation of every static pod that we make: the number of the generation."""

CONDITION = PREFIX + "Checkpointed"
"""Condition that we write on every pod that asks for a checkpoint."""

MANIFEST_PREFIX = "checkpoint-"
"""File names of our static manifests start with it; other files in that folder are never touched."""

POD_SUFFIX = "-checkpoint"
"""A static pod is called <workload>-checkpoint; the kubelet appends the node's name."""
