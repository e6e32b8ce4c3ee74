"""`python -m release FOLDER [REGISTRY]`: everything that a release consists of."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from release.charts import pack_charts
from release.checksums import write_checksums
from release.images import write_checkpointer, write_guard, write_runner
from release.python_packages import build_packages, download_dependencies
from release.sources import Sources
from upgrader.lab.haproxy_agent import write_haproxy_agent
from upgrader.model.first_few import first_few


def main(folder: Path, registry: str = "") -> None:
    """Make the folder anew; it is complete when SHA256SUMS is there.

    With a registry, `HOST[:PORT][/PATH]`, the charts name the images of the pod-checkpointer and of guard there, by
    their digests.
    """
    sources = Sources.of_this_checkout()
    if strangers := sources.strangers():
        sys.exit(f"release: these files are not in git, and would be packed: {first_few(strangers)}; add or move them")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _say("images of the pod-checkpointer and of guard, with their lists of contents")
    digests = {"pod-checkpointer": write_checkpointer(folder / "images"), "guard": write_guard(folder / "images")}
    with TemporaryDirectory() as copy:
        _make(sources.naming(registry, digests, Path(copy)) if registry else sources, folder)
    _say(f"{folder / 'SHA256SUMS'}: {len((folder / 'SHA256SUMS').read_text().splitlines())} files")


def _make(sources: Sources, folder: Path) -> None:
    _say("wheel and source archive")
    build_packages(sources, folder)
    _say("the packages that it needs, for this machine's Python")
    download_dependencies(sources, folder / "wheels")
    _say("charts")
    pack_charts(sources, folder / "charts")
    _say("guard's agent for HAProxy")
    write_haproxy_agent(folder / "haproxy-agent")
    _say("image for CI runners")
    (wheel,) = folder.glob("*.whl")
    write_runner(folder / "images", wheel, sources)
    write_checksums(folder, sources)


def _say(what: str) -> None:
    print(f"release: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), *sys.argv[2:])
