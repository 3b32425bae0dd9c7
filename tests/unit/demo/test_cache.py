from pathlib import Path

import pytest

from demo.cache import TAG, NotOurs, prepare


def test_folder_is_made_private_and_tagged(tmp_path: Path) -> None:
    """A new cache folder belongs to its user alone and is marked for backup programs."""
    folder = tmp_path / "a" / "cache"
    prepare(folder, cold=False)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / TAG).read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_cold_empties_what_is_ours(tmp_path: Path) -> None:
    """A tagged folder is emptied on demand, and kept otherwise."""
    prepare(tmp_path / "c", cold=False)
    (tmp_path / "c" / "program").write_bytes(b"x")
    prepare(tmp_path / "c", cold=False)
    assert (tmp_path / "c" / "program").exists()
    prepare(tmp_path / "c", cold=True)
    assert [path.name for path in (tmp_path / "c").iterdir()] == [TAG]


@pytest.mark.parametrize("folder", [".cache/compile", "elsewhere"])
def test_cold_never_empties_a_foreign_folder(tmp_path: Path, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with other people's files is refused and untouched, whatever its name and though it served as cache."""
    monkeypatch.chdir(tmp_path)
    thesis = tmp_path / folder / "thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("years of work")
    prepare(thesis.parent.resolve(), cold=False)
    with pytest.raises(NotOurs, match="empty it by hand"):
        prepare(thesis.parent.resolve(), cold=True)
    assert thesis.exists()


def test_other_programs_caches_are_foreign(tmp_path: Path) -> None:
    """A tag that another program has left does not make a folder ours."""
    (tmp_path / TAG).write_text("Signature: 8a477f597d28d172789f06886806bc55\n# made by something else\n")
    with pytest.raises(NotOurs):
        prepare(tmp_path, cold=True)
