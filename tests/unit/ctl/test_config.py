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


@pytest.mark.parametrize(
    "content", ["two words", "line\nline", "a\x00b", "-----BEGIN KEY-----\nAB==", "name: value", "=="]
)
def test_other_secrets_are_refused_unseen(tmp_path: Path, content: str) -> None:
    """A file that holds something else than a token is refused without a word of what it holds."""
    (tmp_path / "token").write_text(content)
    with pytest.raises(UsageError, match=r"^--token-file: \S+/token holds no token \(one word of .* is allowed\)$"):
        target(None, str(tmp_path / "token"), None, {})


@pytest.mark.parametrize("token", ["Zm9v-_8", "a.b~c+/d=="])
def test_every_bearer_token_is_taken(tmp_path: Path, token: str) -> None:
    """What may stand in an authorization header is taken, the line's end apart."""
    (tmp_path / "token").write_text(f"{token}\r\n")
    assert target(None, str(tmp_path / "token"), None, {}).token == token


@pytest.mark.parametrize("url", ["localhost:8081", "ftp://x", "http://", "http://x:port", "http://x/\n"])
def test_url_that_cannot_be(url: str) -> None:
    """An address without scheme, host or port number is refused with what is allowed."""
    with pytest.raises(UsageError, match=r"--url: .* is not allowed"):
        target(url, None, None, {})
