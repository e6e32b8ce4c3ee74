"""Forms of YAML in which a file may have a key: a KMS plugin's, or one that names another file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from upgrader.onhost.rehearsal import rehearse
from upgrader.onhost.rehearsal.files_to_send import names_files

_FORMS = {
    "plain": "providers:\n- KEY: {name: a}\n",
    "quoted": "providers:\n- 'KEY' : {name: a}\n",
    "JSON": '{"providers": [{"KEY": {"name": "a"}}]}',
    "JSON without blanks": '{"providers":[{"KEY":{"name":"a"}}]}',
    "flow mapping": "providers: [{KEY: {name: a}}]",
    "pair in a flow sequence": "providers: [KEY: {name: a}]",
    "anchor": "providers:\n- &a KEY: {name: a}\n",
    "value on the next line": "providers:\n- KEY: # of providers\n    {name: a}\n",
    "escape": 'providers: [{"\\x4bEY": {name: a}}]',
    "explicit key": "providers:\n- ? KEY # of providers\n  : {name: a}\n",
    "explicit key in a flow mapping": "providers: [{? KEY\n : {name: a}}]",
    "explicit key in a sequence": "providers: [{name: a}, ? KEY # of providers\n : {name: a}]",
    "explicit key without a blank": "providers: [{?KEY # of providers\n : {name: a}}]",
    "explicit key after a carriage return": "providers:\r- ? KEY # of providers\r  : {name: a}\r",
    "alias": "name: &key KEY\nproviders:\n- {*key : {name: a}}\n",
    "alias without a blank": "name: &key KEY\nproviders:\n- *key: {name: a}\n",
    "binary": "providers:\n- !!binary S0VZ: {name: a}\n",
    "binary by its whole tag": "providers: [{!<tag:yaml.org,2002:binary> S0VZ: {name: a}}]",
    "binary by another tag": "%TAG ! tag:yaml.org,2002:\n---\nproviders:\n- !binary S0VZ: {name: a}\n",
    "other case": "providers:\n- KeY: {name: a}\n",
    "letters that fold to ASCII": "providers:\n- \u212aEY: {name: a}\n",
}
"""`KEY` stands for the key."""
_HARMLESS = (
    "# no KEY, no ? and **no**: plugin! Why? !important\nproviders: [{aescbc: {keys: [{name: KEY, secret: a?b}]}}]\n",
    "# !!! made by Ansible - what else?\nproviders:\n- secretbox:\n    keys:\n    - {name: KEY, secret: YSox}\n",
    "providers:\n- KEY: ''\n- 'KEY': \"\"\n",
)


def _has_kms(text: bytes, folder: Path, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> bool:
    """Whether a rehearsal finds a plugin in an encryption configuration, and starts nothing."""
    (folder / "encryption.yaml").write_bytes(text)
    patch.setattr(rehearse, "end_when_abandoned", lambda _: None)
    patch.setattr(rehearse, "require_isolation", lambda: None)
    patch.setattr(rehearse, "_check_room", lambda _: None)
    patch.setattr(rehearse, "last_in_line", lambda _: None)
    patch.setattr(rehearse, "_served", lambda *_: {"findings": []})
    server = {"encryption": [str(folder / "encryption.yaml")]}
    asked = {
        "work": str(folder / "work"),
        "unit": "unit",
        "incoming": None,
        "snapshot": "",
        "seconds": 1,
        "memory": 1,
        "servers": {"target": server},
    }
    (folder / "work").mkdir(mode=0o700, exist_ok=True)
    rehearse.main(json.dumps(asked))
    return [each["what"] for each in json.loads(capsys.readouterr().out)["findings"]] == ["kms"]


@pytest.mark.parametrize("form", _FORMS)
def test_no_form_hides_a_kms_plugin(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its keys can't be asked for: what it encrypts is unknown, and nothing is started."""
    text = _FORMS[form].replace("KEY", "kms").replace("\\x4bEY", "\\x6bms").replace("S0VZ", "a21z")
    text = text.replace("KeY", "KmS").replace("\u212aEY", "\u212ams")
    assert _has_kms(text.encode(), tmp_path, capsys, monkeypatch)
    assert _has_kms(text.encode("utf-16"), tmp_path, capsys, monkeypatch)


@pytest.mark.parametrize("form", _FORMS)
def test_no_form_hides_a_file_that_is_named(form: str) -> None:
    """It would be missing on another host."""
    text = _FORMS[form].replace("KEY", "kubeConfigFile").replace("\\x4bEY", "\\x6bubeConfigFile")
    text = text.replace("S0VZ", "a3ViZUNvbmZpZ0ZpbGU=").replace("KeY", "KubeconfigFILE")
    assert names_files(text.replace("\u212aEY", "\u212aubeConfigFile"))


@pytest.mark.parametrize("text", _HARMLESS)
def test_files_without_the_key_are_told_as_such(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with its name, or with a form's characters, in a comment or in a value."""
    assert not _has_kms(text.replace("KEY", "kms").encode(), tmp_path, capsys, monkeypatch)
    assert not names_files(text.replace("KEY", "path"))
