"""What a Go program reaches, and which flags that defines."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.go_flags import flags_in
from scripts.go_sources import GoSources, arguments_at, without_comments

MAIN = """\
package main

import (
\t"fmt"

\t"example.com/options" // not "example.com/unused"
\tshort "example.com/short"
)

func main() {
\to := options.New()
\to.AddFlags(short.Set())
\tfmt.Println("done") // never options.Unused()
}
"""
OPTIONS = """\
package options

import "github.com/spf13/pflag"

/* func New() *Unused { */
const (
\tnamed = "named-by-constant"
\tother = "other"
)

type Options struct {
\tInner
\tValue int
}

type Inner struct{}

type Unused struct{}

func New() *Options { return &Options{} }

func (o *Options) AddFlags(fs *pflag.FlagSet) {
\tfs.IntVar(&o.Value, "port", 6443, ""+
\t\t"The port (not, say, a \\"path\\").")
\tfs.StringVarP(&o.Name, named, "n", `a, "b"`, "usage")
\tfs.Bool("under_scored", false, "usage")
\tfs.Var(cliflag.New(&o.Map), "variable", "usage")
\tfs.MarkDeprecated("port", "use --secure-port, "+
\t\t"please")
\tif err := fs.MarkDeprecated(named, reason()); err != nil {
\t}
\tfs.Lookup("port")
\to.Int("no", "flag")
\to.addMore(fs)
}

func (i *Inner) addMore(fs *pflag.FlagSet) {
\tfs.DurationVar(&i.D, fmt.Sprintf("audit-%s-mode", pluginName), 0, "usage")
\tglobalflag.Register(fs, "registered")
\tfs.CountVarP(&i.C, "counted", "c", "usage")
}

func (u *Unused) AddFlags(fs *pflag.FlagSet) {
\tfs.BoolVar(&u.B, "unused", false, "usage")
}
"""
ALL = {
    "audit-log-mode": None,
    "audit-webhook-mode": None,
    "counted": None,
    "named-by-constant": "",
    "port": "use --secure-port, please",
    "registered": None,
    "under-scored": None,
    "variable": None,
}


def program(folder: Path, options: str = OPTIONS) -> GoSources:
    """The sources of a program, `example.com/main`."""
    texts = {
        "main/main.go": MAIN,
        "options/options.go": options,
        "options/options_windows.go": "package options\n\nvar New = nothing\n",
        "short/short.go": "package short\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return GoSources(
        lambda path: folder / path.removeprefix("example.com/") if path.startswith("example.com/") else None
    )


def test_flags_of_what_is_reached_are_found(tmp_path: Path) -> None:
    """In every form in which Kubernetes defines them; not those of a type that the program doesn't use."""
    sources = program(tmp_path)
    assert flags_in(sources.reached("example.com/main"), sources) == ALL


def test_flag_without_a_readable_name_ends_it(tmp_path: Path) -> None:
    """Left out, it would be taken for an unknown one, and block runs."""
    sources = program(tmp_path, OPTIONS.replace('"variable"', "prefix+suffix()"))
    with pytest.raises(ValueError, match=r"a flag of example.com/options has the name prefix\+suffix\(\)"):
        flags_in(sources.reached("example.com/main"), sources)


def test_constant_of_another_package(tmp_path: Path) -> None:
    """By the name under which a file imports it; a function's result is none."""
    sources = program(tmp_path)
    (main,) = (each for each in sources.reached("example.com/main") if each.package.endswith("main"))
    assert sources.constant("options.other", main) == "other"
    assert sources.constant("options.New", main) is None
    assert sources.constant("unknown.other", main) is None


def test_comments_are_left_out() -> None:
    """A text that looks like one stays."""
    assert without_comments('a /* b\n */ "// c" // d\n`/* e */` \'"\' // f') == 'a  "// c" \n`/* e */` \'"\' '


def test_arguments_of_a_call() -> None:
    """Commas and parentheses within texts, calls and functions don't part them."""
    text = """f(a, "b, (c\\"", `d)`, g(h, i), func() { j(k, l) }, ')',\n)"""
    assert arguments_at(text, 2) == ["a", '"b, (c\\""', "`d)`", "g(h, i)", "func() { j(k, l) }", "')'"]
