from pathlib import Path

import pytest

from ctl.config import DEFAULT_URL, UsageError, target


def test_options_win_over_the_environment(tmp_path: Path) -> None:
    """An option stands before its variable, a variable before the default."""
    (tmp_path / "token").write_text("t\n")
    variables = {"CANARY_URL": "http://b:1", "CANARY_TOKEN_FILE": str(tmp_path / "token"), "LOGNAME": "eve"}
    assert target("http://a:1/", None, None, variables).url == "http://a:1"
    assert target(None, None, None, variables).url == "http://b:1"
    assert target(None, None, None, {}).url == DEFAULT_URL
    assert target(None, None, None, variables).token == "t"
    assert target(None, None, "ann@desk", variables).who == "ann@desk"
    assert target(None, None, None, variables).who.startswith("eve@")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe"])
def test_unusable_token_file(tmp_path: Path, content: bytes) -> None:
    """A token file without a token is named with where it came from."""
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(UsageError, match="CANARY_TOKEN_FILE"):
        target(None, None, None, {"CANARY_TOKEN_FILE": str(tmp_path / "token")})


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://x", "http://", "http://x:port"])
def test_url_that_cannot_be(url: str) -> None:
    """An address without scheme, host or port number is refused with what is allowed."""
    with pytest.raises(UsageError, match=r"--url: .* is not allowed"):
        target(url, None, None, {})
