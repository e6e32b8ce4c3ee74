"""Words that don't come back: what Kubernetes' and Helm's documentation says in another way (`make lint`).

`python -m scripts.words` counts them in the prose of pages, in charts, playbooks and templates, and in the strings and
docstrings of `upgrader/`; those of `IN_MESSAGES` not in docstrings. None is allowed, but for as many as
`words_left.json` says are left from earlier. `--shrink` lowers these numbers to what is there, and never raises one.
`--anew` writes what is there, after code has moved to another folder: its diff shows what grew.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

__all__ = ["INSTEAD", "IN_MESSAGES", "LEFT", "count", "found", "shrunk", "too_many"]

_REPOSITORY = Path(__file__).parents[1]
LEFT = Path(__file__).with_name("words_left.json")
"""Place → word → how many are left there: a page by itself, other files by the first two parts of their path."""

INSTEAD: Mapping[str, str] = {
    "whoever": "anyone who; the user, the operator, the reviewer",
    "nobody": "no one; or say what isn't there",
    "of guard's": "guard's …; so of kubeadm's, Helm's, …",
    "is made of it": "the result",
    "where it doesn't": "if it doesn't; otherwise",
    "in spite of": "despite; to override",
    "astray": "unexpected",
    "mend": "fix, repair",
    "put back": "restore",
    "the way back": "the rollback, the undo",
    "stand in the way": "block",
    "speaks against": "blocks",
    "at work": "running, active",
    "did not hold": "did not pass",
    "bait": "sentinel",
    "stranger": "untrusted",
    "approve of": "approve",
    "takes leave of": "closes, ends",
    "for ever": "permanently",
}
IN_MESSAGES: Mapping[str, str] = {
    "anew": "again",
    "begun": "started",
    "is unknown": "it is unknown whether …, or which …",
    "kubeconfig leads to": "points to",
    "may not": "is not allowed to, must not; or might not",
    "meanwhile": "since then, in the meantime, while …; or begin the sentence with it",
    "is of": "is from, is for, belongs to",
    "another … than": "a different … than, a … other than",
    "run this again": "run the same command again",
    "Omit …, to": "To …, omit …",
    ", also in": "even in, including in; or the verb first",
}
"""Word → what to write instead, for what users read: docstrings may have them."""
_FORMS: Mapping[str, str] = {
    "of guard's": r"of (?:guard|kubeadm|Helm|upgrader|etcd|Ansible)'s(?=[.,;:)]| (?:that|which|is|are|in|on|has)\b)",
    "where it doesn't": r"where (?:it|they|that) (?:doesn't|don't|isn't|aren't)",
    "mend": "mend(?:s|ed|ing)?",
    "put back": "put(?:s|ting)? back",
    "the way back": "(?:the|a|its|no) way back",
    "stand in the way": "st(?:and|ands|anding|ood) in the way",
    "speaks against": "speaks? against",
    "stranger": "strangers?",
    "takes leave of": "takes? leave of",
    "begun": r"(?<![.\w])begun",
    "is unknown": r"(?<!from )wh(?:ether|ich)(?: [^ .:;]+){1,9} (?:is unknown|can't be read)",
    "kubeconfig leads to": r"kubeconfigs?(?: [^ .:;]+){0,4} leads? to",
    "may not": r"(?<!may or )may (?:not|no longer)",
    "meanwhile": r"(?<![.:;|>] )meanwhile(?!,)",
    "is of": r"(?:is|are|was|were) of(?! the form)",
    "another … than": r"another(?: [^ .:;,]+){1,2} than",
    "run this again": r"(?:run this|then run) again",
    "Omit …, to": r"omit [^ ]+, to",
    ", also in": r"(?<=, )also (?:by|from|in|on|if|with|when|for|after)",
}
"""Word → the regular expression of its forms."""
_FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`(?:[^`\n]|\n(?!\s*\n))+`")
"""It may go on in the next line, but not in the next paragraph."""
_TEXT = (".md", ".yaml", ".yml", ".j2", ".tpl", ".txt")
_ROOTS = ("upgrader", "charts", "playbooks", "templates", "docs", "*.md")
_NOT_LOOKED_AT = ("docs/adr/", "docs/reference/")
"""Decisions, which stay as they were written; and what is made from the code, where its words are counted."""


def count(text: str, words: Collection[str] = INSTEAD) -> Counter[str]:
    """Word → how often the text has it, in any case; words may stand in two lines."""
    line = " ".join(text.split())
    forms = {each: rf"\b(?:{_FORMS.get(each, each)})(?!\w)" for each in words}
    hits = {each: len(re.findall(form, line, re.IGNORECASE)) for each, form in forms.items()}
    return Counter({each: number for each, number in hits.items() if number})


def found(path: Path) -> Counter[str]:
    """In one file: the strings of Python, the prose of Markdown, all of others."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        tree = ast.parse(text)
        strings = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        hits = sum((count(each) for each in strings if isinstance(each, str)), Counter[str]())
        return sum((count(each, IN_MESSAGES) for each in _messages(tree)), hits)
    if path.suffix == ".md":
        text = _CODE.sub("`", _FENCE.sub("", text))
    return count(text, (*INSTEAD, *IN_MESSAGES))


def _messages(node: ast.AST) -> Iterator[str]:
    """Strings of several words, but no docstrings and no assertions; an f-string has `{}` for each value."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    for child in (node.test,) if isinstance(node, ast.Assert) else ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in child.values)
        elif isinstance(child, ast.Constant):
            if isinstance(child.value, str) and " " in child.value:
                yield child.value
        else:
            yield from _messages(child)


def _place(name: str) -> str:
    return name if name.endswith(".md") else "/".join(name.split("/")[:2])


def _everywhere() -> dict[str, Counter[str]]:
    command = ["git", "-C", str(_REPOSITORY), "ls-files", "--cached", "--others", "--exclude-standard", "--", *_ROOTS]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    total: dict[str, Counter[str]] = {}
    for name in listed:
        path = _REPOSITORY / name
        if path.is_file() and path.suffix in (".py", *_TEXT) and not name.startswith(_NOT_LOOKED_AT):
            total.setdefault(_place(name), Counter()).update(found(path))
    return {where: words for where, words in total.items() if words}


def too_many(seen: Mapping[str, Mapping[str, int]], left: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """A line for each word that is somewhere more often than it was left there."""
    for where, words in sorted(seen.items()):
        for word, number in sorted(words.items()):
            allowed = left.get(where, {}).get(word, 0)
            if number > allowed:
                yield f'{where}: "{word}" {number} times, {allowed} allowed: {({**INSTEAD, **IN_MESSAGES})[word]}'


def shrunk(seen: Mapping[str, Mapping[str, int]], left: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """What is left now: no number is higher than before."""
    lower = {
        where: {word: min(number, seen.get(where, {}).get(word, 0)) for word, number in sorted(words.items())}
        for where, words in sorted(left.items())
    }
    kept = {where: {word: number for word, number in words.items() if number} for where, words in lower.items()}
    return {where: words for where, words in kept.items() if words}


def _main() -> int:
    seen, left = _everywhere(), json.loads(LEFT.read_text())
    if sys.argv[1:] in (["--shrink"], ["--anew"]):
        left = shrunk(seen, left) if sys.argv[1] == "--shrink" else seen
        LEFT.write_text(json.dumps(left, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    wrong = list(too_many(seen, left))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(_main())
