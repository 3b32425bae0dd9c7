from pathlib import Path

import pytest

from loadtest.options import Options, OptionsError, mix_from
from loadtest.payloads import DEFAULT_MIX


def test_every_problem_at_once() -> None:
    """All options that cannot be are named together."""
    with pytest.raises(OptionsError) as wrong:
        Options(
            host="localhost:80", rate=0.0, seconds=float("inf"), users=0, known=-1, dimension=0, reference="ftp://x"
        )
    assert {problem.split(":")[0] for problem in wrong.value.problems} == {
        "--host", "--rate", "--seconds", "--users", "--known", "--dimension", "--reference",
    }  # fmt: skip


def test_mix_file(tmp_path: Path) -> None:
    """Without a file the built-in mix is used; a file that is absent or wrong is named."""
    assert mix_from(None) is DEFAULT_MIX
    with pytest.raises(OptionsError, match="No such file"):
        mix_from(tmp_path / "absent.json")
    (tmp_path / "wrong.json").write_text('{"parts": []}')
    with pytest.raises(OptionsError, match=r"--mix: .*wrong\.json: parts"):
        mix_from(tmp_path / "wrong.json")
    with pytest.raises(OptionsError, match="--then-mix: "):
        mix_from(tmp_path / "absent.json", option="--then-mix")


def test_second_mix_and_its_moment_belong_together() -> None:
    """Either of the two alone is refused, both named; both together are taken."""
    with pytest.raises(OptionsError, match="--then-mix, --then-when: only --then-mix is given"):
        Options(host="http://a:1", rate=1.0, seconds=1.0, then_mix=DEFAULT_MIX)
    with pytest.raises(OptionsError, match="--then-mix, --then-when: only --then-when is given"):
        Options(host="http://a:1", rate=1.0, seconds=1.0, then_when=Path("x"))
    assert Options(host="http://a:1", rate=1.0, seconds=1.0, then_mix=DEFAULT_MIX, then_when=Path("x")).then_when
