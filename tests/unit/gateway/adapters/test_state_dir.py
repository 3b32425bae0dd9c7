"""The state directory is private and has one holder."""

import os
from pathlib import Path

import pytest

from gateway.adapters.state_dir import NETWORK_FILE_SYSTEMS, StateDir, file_system, require_private_file
from gateway.adapters.tokens import OperatorToken, split_secret
from gateway.ports import StateDirError


def test_a_second_holder_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    """The lock names who holds it; released, it can be had again."""
    first = StateDir(tmp_path / "state")
    with pytest.raises(StateDirError, match=f"process {os.getpid()}"):
        StateDir(tmp_path / "state")
    first.release()
    StateDir(tmp_path / "state").release()


def test_what_others_may_enter_or_a_link_is_refused(tmp_path: Path) -> None:
    """Group or world permissions and symbolic links end the start."""
    loose = tmp_path / "loose"
    loose.mkdir(mode=0o750)
    with pytest.raises(StateDirError, match="0750"):
        StateDir(loose)
    (tmp_path / "link").symlink_to(loose)
    with pytest.raises(StateDirError, match="symbolic link"):
        StateDir(tmp_path / "link")


def test_private_files_are_private_and_checked(tmp_path: Path) -> None:
    """Written with 0600; refused when somebody opened them up or replaced them by a link."""
    state = StateDir(tmp_path / "state")
    path = state.write_private("a", "x")
    assert path.stat().st_mode & 0o777 == 0o600
    assert state.read_private("a") == "x"
    assert state.read_private("none") is None
    path.chmod(0o644)
    with pytest.raises(StateDirError, match="0644"):
        state.read_private("a")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateDirError, match="symbolic link"):
        require_private_file(path)
    state.release()


def test_token_and_secret_are_made_once_and_kept(tmp_path: Path) -> None:
    """A restart finds the same token and the same split secret."""
    state = StateDir(tmp_path / "state")
    token = OperatorToken(state)
    text = token.path.read_text().strip()
    assert token.matches(text)
    assert not token.matches(text + "x")
    assert not token.matches("")
    assert OperatorToken(state).matches(text)
    assert split_secret(state) == split_secret(state)
    assert len(split_secret(state)) == 32
    state.release()


def test_a_network_file_system_is_recognised_by_its_mount() -> None:
    """The longest mount point that holds the path decides."""
    mounts = (
        "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
        "90 22 0:44 / /srv/my\\040share rw - nfs4 host:/export rw\n"
        "91 22 0:45 / /srv rw - xfs /dev/vdb rw\n"
    )
    assert file_system(Path("/srv/my share/state"), mounts) in NETWORK_FILE_SYSTEMS
    assert file_system(Path("/srv/other"), mounts) == "xfs"
    assert file_system(Path("/var"), mounts) == "ext4"


@pytest.mark.parametrize("content", ["\n", "short", "two words of sufficient length", "x" * 30 + "\n" + "y" * 30])
def test_a_token_file_without_a_token_ends_the_start(tmp_path: Path, content: str) -> None:
    """A blank or mangled token must never mean that everybody may write."""
    state = StateDir(tmp_path / "state")
    state.write_private("operator.token", content)
    with pytest.raises(StateDirError, match="holds no token"):
        OperatorToken(state)
    state.write_private("split.secret", content)
    with pytest.raises(StateDirError, match="holds no secret"):
        split_secret(state)
    (state.path / "operator.token").write_bytes(b"\xff\xfe")
    with pytest.raises(StateDirError, match="is not text"):
        OperatorToken(state)
    state.release()
