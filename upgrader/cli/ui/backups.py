"""Shows a backup: its cluster, and the verified properties."""

from __future__ import annotations

from upgrader.steps.backup.manifest import BackupManifest

__all__ = ["describe_backup"]


def describe_backup(manifest: BackupManifest) -> str:
    """A few lines."""
    lines = [
        f"cluster     {manifest.cluster_uid or 'unknown'}",
        f"taken       {manifest.taken:%Y-%m-%d %H:%M:%S} UTC on {manifest.member}",
        f"Kubernetes  {manifest.kubernetes or 'unknown: the API did not answer'}",
        f"etcd        {manifest.etcd}, revision {manifest.revision}",
        f"keys        {manifest.keys:,}, SHA-256 {manifest.digest}",
    ]
    lines += [f"part        {part.name}, {part.bytes:,} bytes" for part in manifest.parts]
    return "\n".join(lines)
