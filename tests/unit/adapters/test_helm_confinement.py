"""The Helm that renders a stranger's chart has no settings of anyone's, and not this machine's memory and time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from upgrader.adapters.helm import HelmAdapter
from upgrader.adapters.helm_confinement import confined
from upgrader.errors import HelmError
from upgrader.model.release import ReleaseSpec


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[HelmAdapter]:
    """The real Helm, confined."""
    with confined() as confinement:
        adapter = HelmAdapter(tmp_path / "kubeconfig", confinement=confinement)
        yield adapter
        adapter.close()


def chart(folder: Path, template: str) -> ReleaseSpec:
    """A release whose chart has this one template."""
    (folder / "web/templates").mkdir(parents=True)
    (folder / "web/Chart.yaml").write_text("{apiVersion: v2, name: web, version: 1.0.0}\n")
    (folder / "web/templates/all.yaml").write_text(template)
    return ReleaseSpec("web", "default", folder / "web", {})


def test_environment_and_home_are_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable that points to plugins, logins or a kubeconfig reaches it, and its home is gone afterwards."""
    for name in ("HELM_PLUGINS", "HELM_REGISTRY_CONFIG", "HELM_DRIVER", "KUBECONFIG", "XDG_DATA_HOME", "LD_PRELOAD"):
        monkeypatch.setenv(name, str(tmp_path))
    with confined() as confinement:
        seen = confinement.environment
        assert str(tmp_path) not in seen.values()
        home = Path(seen["HOME"])
        assert list(home.iterdir()) == []
        assert all(Path(value).is_relative_to(home) for name, value in seen.items() if name.startswith("HELM_"))
    assert not home.exists()


def test_template_that_asks_for_all_memory_fails(tmp_path: Path, helm: HelmAdapter) -> None:
    """Three gigabytes are refused by the limit, and the error says that Helm failed."""
    spec = chart(tmp_path, '{{ $x := repeat 1000000000 "x" }}{{ $y := print $x $x $x }}a: {{ len $y }}')
    with pytest.raises(HelmError, match="Helm failed on release 'web'"):
        helm.render(spec, offline=True)


@pytest.mark.parametrize(
    "template",
    [
        "kind: List\nitems: 5\n",
        "kind: ConfigMap\nmetadata: {name: a}\ndata: " + "[" * 500 + "]" * 500,
        "kind: ConfigMap\nmetadata: {name: a}\ndata: {a: !!binary '='}\n",
        'kind: ConfigMap\nmetadata: {name: a}\ndata: {a: {{ repeat 40000000 "x" }}}\n',
    ],
)
def test_objects_that_can_not_be_read_are_an_error(tmp_path: Path, helm: HelmAdapter, template: str) -> None:
    """What Helm lets pass and nobody could judge is Helm's error, with the release's name."""
    with pytest.raises(HelmError, match="release 'web'"):
        helm.render(chart(tmp_path, template), offline=True)
