"""Python packages as images contain them."""

from __future__ import annotations

from pathlib import Path

from upgrader.lab.python_files import forget_programs


def test_nothing_names_the_python_that_ran_pip(tmp_path: Path) -> None:
    """pip writes its path into programs, and a program's SHA-256 into RECORD: an image would have other bytes in every
    folder. What the packages themselves have stays, also what is called `bin`."""
    record = tmp_path / "idna-3.20.dist-info" / "RECORD"
    for file in (tmp_path / "bin/idna", tmp_path / "idna/bin/tool", record):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("#!/somewhere/python\n")
    record.write_text("../../bin/idna,sha256=uS2h,218\nidna/bin/tool,sha256=VT3i,20\nidna-3.20.dist-info/RECORD,,\n")
    forget_programs(tmp_path)
    assert not (tmp_path / "bin").exists() and (tmp_path / "idna/bin/tool").exists()
    assert record.read_text() == "idna/bin/tool,sha256=VT3i,20\nidna-3.20.dist-info/RECORD,,\n"
    forget_programs(tmp_path)
    assert (tmp_path / "idna/bin/tool").exists()
