"""Names of profiles, and a bound on their number."""

from pathlib import Path

import pytest

from server.adapters.profile_folder import MAX_FILES, ProfileFolder
from server.runtime.profile import ProfileRefused


class Clock:
    def monotonic(self) -> float:
        return 0.0

    def wall(self) -> float:
        return 1.5


def test_a_file_is_named_by_time_and_run(tmp_path: Path) -> None:
    """So that profiles sort, and tell whose they are."""
    assert ProfileFolder(tmp_path, "r1", Clock()).next_file() == tmp_path / "profile-19700101T000001.500000Z-r1.json"


def test_a_full_folder_takes_no_more(tmp_path: Path) -> None:
    """Other files do not count; nothing is removed."""
    for number in range(MAX_FILES):
        (tmp_path / f"profile-{number}.json").touch()
    with pytest.raises(ProfileRefused, match=f"holds {MAX_FILES} profiles, allowed are {MAX_FILES}: remove some"):
        ProfileFolder(tmp_path, "r1", Clock()).next_file()
    (tmp_path / "profile-0.json").rename(tmp_path / "other.json")
    assert ProfileFolder(tmp_path, "r1", Clock()).next_file().parent == tmp_path
