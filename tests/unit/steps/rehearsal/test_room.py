"""The room that a rehearsal takes on a controller's disk leaves the kubelet's pods alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal import kubelets_share, room

TOTAL = 100 << 30


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of 100 GiB, with 14.25 GiB free, which the kubelet uses, too, and containerd another one."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=57 << 28, total=TOTAL))
    monkeypatch.setattr(kubelets_share, "_FOLDER", str(tmp_path))
    monkeypatch.setattr(kubelets_share, "_CONTAINERD", "/proc")
    kubelet(monkeypatch, tmp_path / "missing")


def kubelet(monkeypatch: pytest.MonkeyPatch, file: Path, mounts: str = "", **flags: str) -> None:
    """With this configuration file and these flags, and containers with these mounts."""
    table = file.parent / "mountinfo"
    table.write_text(mounts)
    monkeypatch.setattr(kubelets_share, "_MOUNTS", str(table))
    monkeypatch.setattr(kubelets_share, "configuration_file", lambda _: str(file))
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    monkeypatch.setattr(kubelets_share, "running_flags", lambda _: named)


def test_copies_that_would_have_pods_evicted_are_refused(tmp_path: Path) -> None:
    """Etcd's data is on the kubelet's disk, unless it has one of its own."""
    room.require_disk(str(tmp_path / "missing" / "yet"), 4 << 30)
    with pytest.raises(
        Failed, match="14,592 MiB of free space, but 15,616 MiB are needed: with less than 10 % free, the k"
    ):
        room.require_disk(str(tmp_path), 5 << 30)


@pytest.mark.parametrize("kubelet", ["", "/proc"])
def test_more_of_the_disk_of_images_is_left(kubelet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most nodes have one disk for both, and the higher limit holds; images may have one without the kubelet's."""
    monkeypatch.setattr(kubelets_share, "_CONTAINERD", str(tmp_path))
    monkeypatch.setattr(kubelets_share, "_FOLDER", kubelet or str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=77 << 28, total=TOTAL))
    room.require_disk(str(tmp_path), 4 << 30)
    with pytest.raises(Failed, match="20,736 MiB are needed: with less than 15 % free, the kubelet evicts pods"):
        room.require_disk(str(tmp_path), 5 << 30)
    monkeypatch.setattr(kubelets_share, "_FOLDER", "/nowhere")
    room.require_disk(str(tmp_path), 18 << 30)


@pytest.mark.parametrize("kubelet", ["/proc", "/nowhere"])
def test_a_disk_that_is_not_the_kubelets_may_be_used(
    kubelet: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is evicted for it: on a disk of etcd's own, and on a host without a kubelet."""
    monkeypatch.setattr(kubelets_share, "_FOLDER", kubelet)
    room.require_disk(str(tmp_path), 13 << 30)
    with pytest.raises(Failed, match=r"14,592 MiB of free space, but 15,616 MiB are needed$"):
        room.require_disk(str(tmp_path), 15 << 30)


@pytest.mark.parametrize(
    ("text", "flags", "needed", "said"),
    [
        ("evictionHard:\n  memory.available: 5%\n  nodefs.available: 12%\nother: 1\n", {}, "12,544", "12 %"),
        ('evictionHard:\n  "nodefs.available": "20Gi"  # much\n', {}, "20,736", "20Gi"),
        ("evictionHard: {memory.available: 100Mi, nodefs.available: 15%}\n", {}, "15,616", "15 %"),
        ('{"kind":"KubeletConfiguration","evictionHard":{"nodefs.available":"15%"}}', {}, "15,616", "15 %"),
        (
            "evictionSoft:\n  # 1%\n\n  nodefs.available: 18%\nevictionHard:\n  nodefs.available: 1%\n",
            {},
            "18,688",
            "18",
        ),
        ("# evictionHard:\n#   nodefs.available: 1%\n", {}, "10,496", "10 %"),
        (
            "evictionHard:\n  nodefs.available: 12% # nodefs.available: 1%\n  # nodefs.available: 1%\n",
            {},
            "12,544",
            "12 %",
        ),
        ("evictionHard:\n\n  # nodefs.available: 1%\nother: 1\n", {}, "10,496", "10 %"),
        ("evictionHard:\n  memory.available: 1%\nmergeDefaultEvictionSettings: true\n", {}, "10,496", "10 %"),
        ("evictionMinimumReclaim:\n  nodefs.available: 50Gi\n", {}, "10,496", "10 %"),
        ("evictionHard:\n  nodefs.available: unreadable\n", {}, "10,496", "10 %"),
        ("", {"eviction_hard": "memory.available<1Gi,nodefs.available<16%"}, "16,640", "16 %"),
        ("", {"eviction_soft": "nodefs.available<20G"}, "19,329", "20G"),
    ],
)
def test_as_much_is_left_free_as_the_kubelets_own_configuration_wants(
    text: str, flags: dict[str, str], needed: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its file, in block or flow style or JSON, or in its flags; what is only a comment, or isn't clear, changes
    nothing.
    """
    file = tmp_path / "config.yaml"
    file.write_text(text)
    kubelet(monkeypatch, file, **flags)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=9 << 30, total=TOTAL))
    with pytest.raises(Failed, match=f" {needed} MiB are needed: with less than {said}"):
        room.require_disk(str(tmp_path), 0)


def test_less_is_left_free_where_the_kubelet_wants_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """10 % of a large disk are more than a rehearsal of a small cluster may need to be refused for."""
    file = tmp_path / "config.yaml"
    file.write_text("evictionHard:\n  nodefs.available: 1Gi\n")
    kubelet(monkeypatch, file)
    room.require_disk(str(tmp_path), 13 << 30)
    with pytest.raises(Failed, match="15,104 MiB are needed: with less than 1Gi free"):
        room.require_disk(str(tmp_path), 27 << 29)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("evictionHard: {}\n", {}),
        ("evictionHard:\n  memory.available: 500Mi\n", {}),
        ("evictionHard:\n\n  # none of a disk\n  pid.available: 10%\n", {}),
        ('{"evictionHard":{},"evictionSoft":{}}', {}),
        ('evictionHard:\n  nodefs.available: "0%"\n', {}),
        ("evictionHard:\n  nodefs.available: 100%\n", {}),
        ("", {"eviction_hard": "memory.available<500Mi"}),
        ("evictionHard:\n  nodefs.available: 40%\n", {"eviction_hard": "nodefs.available<0%"}),
    ],
)
def test_nothing_is_left_free_for_a_kubelet_that_never_evicts_for_it(
    text: str, flags: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has no threshold for, if it has any of its own, gets no default; 0 % and 100 % are none; and a flag is
    instead of all that files have.
    """
    file = tmp_path / "config.yaml"
    file.write_text(text)
    kubelet(monkeypatch, file, **flags)
    room.require_disk(str(tmp_path), 13 << 30)
    with pytest.raises(Failed, match=r"14,592 MiB of free space, but 15,616 MiB are needed$"):
        room.require_disk(str(tmp_path), 15 << 30)


def test_files_that_are_merged_into_the_kubelets_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--config-dir` names their folder."""
    more = tmp_path / "more"
    more.mkdir()
    (more / "10-disk.conf").write_text("evictionHard:\n  nodefs.available: 14%\n")
    kubelet(monkeypatch, tmp_path / "config.yaml", config_dir=str(more))
    with pytest.raises(Failed, match="with less than 14 % free"):
        room.require_disk(str(tmp_path), 1 << 30)


def test_a_file_that_is_merged_replaces_what_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last one does; what no file names keeps the default, as the kubelet has it before it merges them."""
    more = tmp_path / "more"
    more.mkdir()
    (more / "10-disk.conf").write_text("evictionHard:\n  nodefs.available: 30%\nimageGCHighThresholdPercent: 60\n")
    (more / "20-disk.conf").write_text("evictionHard:\n  nodefs.available: 1%\nimageGCHighThresholdPercent: 90\n")
    kubelet(monkeypatch, tmp_path / "config.yaml", config_dir=str(more))
    room.require_disk(str(tmp_path), 12 << 30)
    monkeypatch.setattr(kubelets_share, "_CONTAINERD", str(tmp_path))
    with pytest.raises(Failed, match="with less than 15 % free"):
        room.require_disk(str(tmp_path), 1 << 30)


def test_containerds_usual_folder_is_no_images_folder_where_containers_say_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its package makes it, and an older root may have stayed there: nothing is removed for what fills its disk."""
    file = tmp_path / "config.yaml"
    mounts = "1 2 0:3 / /run/x rw - overlay overlay rw,upperdir=/proc/io.containerd.snapshotter.v1.overlayfs/1/fs\n"
    monkeypatch.setattr(kubelets_share, "_CONTAINERD", str(tmp_path))
    kubelet(monkeypatch, file, mounts)
    room.require_disk(str(tmp_path), 4 << 30)
    kubelet(monkeypatch, file)
    with pytest.raises(Failed, match="with less than 15 % free"):
        room.require_disk(str(tmp_path), 4 << 30)


@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        ("imageGCHighThresholdPercent: 70\n", {}, "30 %"),
        ("", {"image_gc_high_threshold": "75"}, "25 %"),
        ("imageGCHighThresholdPercent: 90\nevictionHard:\n  imagefs.available: 5%\n", {}, "10 %"),
        ("imageGCHighThresholdPercent: 90\nevictionHard: {}\n", {}, "10 %"),
        ("imageGCHighThresholdPercent: 90\n", {"image_gc_high_threshold": "80"}, "20 %"),
        ("evictionHard:\n  imagefs.available: 35%\n", {}, "35 %"),
    ],
)
def test_images_are_not_removed_for_a_rehearsal(
    text: str, flags: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From `imageGCHighThresholdPercent` on, the kubelet removes images that no container uses, such as the target's
    that were pulled beforehand. containerd's folder may be anywhere: mounts of containers tell where.
    """
    file = tmp_path / "config.yaml"
    file.write_text(text)
    mounts = (
        f"1 2 0:3 / /run/x rw - overlay overlay rw,upperdir={tmp_path}/io.containerd.snapshotter.v1.overlayfs/1/fs\n"
    )
    kubelet(monkeypatch, file, mounts, root_dir="/proc", **flags)
    with pytest.raises(Failed, match=f"with less than {said} free"):
        room.require_disk(str(tmp_path), 5 << 30)
    kubelet(monkeypatch, file, "", root_dir="/proc", **flags)
    room.require_disk(str(tmp_path), 5 << 30)


def test_all_that_is_missing_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the program of a controller that is asked before anything is copied; where another machine compares, it needs
    no memory.
    """
    asked = {"folder": str(tmp_path), "bytes": 5 << 30, "memory": 1 << 60}
    room.main(json.dumps(asked))
    said = json.loads(capsys.readouterr().out)["failed"]
    assert "of memory are available" in said and "; " in said and "15,616 MiB are needed" in said
    room.main(json.dumps({**asked, "bytes": 1, "memory": 0}))
    assert json.loads(capsys.readouterr().out) == {}


@pytest.mark.parametrize(
    ("text", "root", "needed"),
    [
        ("", "", "2,304 MiB are needed$"),
        ("evictionHard:\n  memory.available: 200Mi\n", "", "2,304 MiB are needed$"),
        ("evictionHard:\n  memory.available: 1Gi\n", "", "3,072 MiB are needed: with less than 1Gi available, the k"),
        ("evictionSoft:\n  memory.available: 10%\n", "", "2,867 MiB are needed: with less than 10 % available, the k"),
        ("evictionHard:\n  memory.available: 1Gi\n", "/nowhere", "2,304 MiB are needed$"),
    ],
)
def test_as_much_memory_is_left_as_the_kubelet_wants(
    text: str, root: str, needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rehearsal that takes the rest has pods evicted, also if there is enough for all that runs."""
    file = tmp_path / "config.yaml"
    file.write_text(text)
    memory = tmp_path / "meminfo"
    memory.write_text("MemTotal: 8388608 kB\nMemFree: 1 kB\nMemAvailable: 2097152 kB\n")
    monkeypatch.setattr(room, "_MEMORY", str(memory))
    kubelet(monkeypatch, file, root_dir=root or str(tmp_path))
    with pytest.raises(Failed, match=f"^2,048 MiB of memory are available, but {needed}"):
        room.require_memory(2 << 30)
    memory.write_text("MemTotal: 8388608 kB\nMemAvailable: 3145728 kB\n")
    room.require_memory(2 << 30)


SWAPS = "Filename\tType\tSize\tUsed\tPriority\n"


@pytest.mark.parametrize(
    ("swaps", "group", "refused"),
    [
        (SWAPS, "", ""),
        (f"{SWAPS}/dev/zram0 partition 1 0 100\n", "", ""),
        (f"{SWAPS}/dev/sda2 partition 1 0 -2\n/swapfile file 1 0 -3\n", "", "/dev/sda2, /swapfile: "),
        (f"{SWAPS}/dev/sda2 partition 1 0 -2\n", "system.slice", ""),
        (f"{SWAPS}/dev/sda2 partition 1 0 -2\n", ".", ""),
        (None, "", ""),
    ],
)
def test_no_memory_of_a_rehearsal_can_be_written_to_a_disk(
    swaps: str | None, group: str, refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its unit has `MemorySwapMax=0`, which systemd ignores where the kernel has no such limit: what it was asked for
    proves nothing.
    """
    monkeypatch.setattr(room, "_SWAPS", str(tmp_path / "swaps"))
    monkeypatch.setattr(room, "_CGROUPS", str(tmp_path / "cgroup"))
    (tmp_path / "cgroup" / group).mkdir(parents=True)
    if group:
        (tmp_path / "cgroup" / group / "memory.swap.max").touch()
    if swaps is not None:
        (tmp_path / "swaps").write_text(swaps)
    if not refused:
        room.require_no_swap()
        return
    with pytest.raises(Failed, match=f"which has Secrets, could be written to {refused}.* swapoff -a"):
        room.require_no_swap()
