"""An image's files and settings as a container engine would use them, in a systemd-nspawn container."""

from __future__ import annotations

import json
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from upgrader.lab.oci_archive import native_architecture

__all__ = ["Container", "unpacked"]


@dataclass(frozen=True)
class Container:
    """An unpacked image for this machine's architecture; the commands in it can't change its files."""

    root: Path
    config: dict[str, Any]

    def run(
        self, *command: str, mounted: Path | None = None, seconds: float = 120.0
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the image's user, without a network; `mounted` is a folder, read-only at /mnt there."""
        engine = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "--timezone=off"]
        engine += [
            "--pipe",
            "--read-only",
            "--tmpfs=/tmp:mode=1777",
            f"--directory={self.root}",
            f"--chdir={self.config['WorkingDir']}",
        ]
        engine += [f"--user={self.config.get('User', 'root')}"]
        engine += [f"--bind-ro={mounted}:/mnt"] if mounted else []
        # nspawn sets variables of its own; an image has only its own ones, and a home that can be written.
        words = [*engine, "--", "env", "-i", "HOME=/tmp", *self.config["Env"], *command]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes"}
        return subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


def unpacked(archive: Path, root: Path) -> Container:
    """The image of an OCI archive (`write_platforms`), unpacked into the new folder `root`; needs root."""
    with tarfile.open(archive) as layout:
        index = json.load(_blob(layout, "index.json"))
        platforms = json.load(_blob(layout, index["manifests"][0]["digest"]))
        native = native_architecture()
        (chosen,) = (each for each in platforms["manifests"] if each["platform"]["architecture"] == native)
        manifest = json.load(_blob(layout, chosen["digest"]))
        root.mkdir()
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=_blob(layout, layer["digest"])) as content:
                content.extractall(root, numeric_owner=True, filter="fully_trusted")
        config: dict[str, Any] = json.load(_blob(layout, manifest["config"]["digest"]))["config"]
    return Container(root, config)


def _blob(layout: tarfile.TarFile, name: str) -> IO[bytes]:
    stream = layout.extractfile(f"blobs/{name.replace(':', '/')}" if ":" in name else name)
    assert stream, f"{name} is a file"
    return stream
