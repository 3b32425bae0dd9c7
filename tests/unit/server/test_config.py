"""Every problem of a configuration at once, before a port opens."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from server.config import ConfigRefused, emulator_allowed, load, prepare_cache_dir
from server.core.types import Bucket


def document(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "canary/v1",
        "kind": "Server",
        "model": {"name": "m", "path": "/m", "format": "sentence-transformers"},
        "device": "cpu",
        "catalogue": {"batch": [1, 4], "length": [16, 32]},
        "cache_dir": "/c",
        **changes,
    }


def write(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "server.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def problems(tmp_path: Path, content: Any, device: str | None = None) -> list[str]:
    with pytest.raises(ConfigRefused) as refused:
        load(write(tmp_path, content), device)
    return refused.value.problems


def test_a_short_file_gets_the_defaults(tmp_path: Path) -> None:
    """Ports, precision, queue, drain and warm-up need not be named."""
    settings = load(write(tmp_path, document()), None)
    assert (settings.listen.port, settings.admin.port) == (8000, 8001)
    assert (settings.dtype, settings.matmul_precision, settings.compile) == ("float32", "highest", None)
    assert settings.queue.max_rows == 256
    assert (settings.drain.delay_s, settings.drain.limit_s) == (1.0, 20.0)
    assert settings.warm_up.max_calls == 10


def test_the_command_line_overrides_the_device(tmp_path: Path) -> None:
    """And is checked like the file's own value."""
    assert load(write(tmp_path, document()), "cuda").device == "cuda"


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """Each with its path, its value and what is allowed."""
    broken = document(
        device="gpu",
        threads=0,
        ports_file="/absent/ports.json",
        largest={"batch": 0, "length": 32},
        colour="red",
        admin={"host": "0.0.0.0", "port": 1},
        catalogue={"batch": [4, 1], "length": [16]},
        warm_up={"min_calls": 5, "max_calls": 2},
        model={"name": "m", "path": "/m", "format": "onnx", "sha256": "abc"},
    )
    del broken["cache_dir"]
    text = "\n".join(problems(tmp_path, broken))
    for part in (
        "device: got 'gpu', input should be 'cpu', 'cuda', 'tpu' or 'tpu-emulator'",
        "threads: got 0",
        "ports_file: got '/absent/ports.json', allowed is a file in an existing folder",
        "largest.batch: got 0",
        "colour: is not a known setting",
        "admin.host: got '0.0.0.0', allowed is a loopback address",
        "catalogue.batch: got [4, 1], allowed are rising positive integers",
        "warm_up: got min_calls 5 and max_calls 2",
        "model.format: got 'onnx', input should be 'sentence-transformers'",
        "model.sha256: got 'abc'",
        "cache_dir: is missing",
    ):
        assert part in text


def test_a_lenient_server_names_the_largest_shape_that_it_serves(tmp_path: Path) -> None:
    """One of its sizes may be a declared one; strict is what nobody asked for."""
    settings = load(write(tmp_path, document(strict=False, largest={"batch": 4, "length": 64})), None)
    assert settings.largest is not None
    assert (settings.strict, settings.largest.bucket()) == (False, Bucket(4, 64))
    strict = load(write(tmp_path, document()), None)
    assert (strict.strict, strict.largest) == (True, None)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"strict": False},
            "largest: is missing, allowed are batch and length of the largest shape to serve, since st",
        ),
        ({"strict": False, "largest": None}, "largest: is missing, allowed are batch and length of the largest shape"),
        (
            {"strict": False, "largest": {"batch": 4, "length": 32}},
            "largest: got batch 4 and length 32, which is the largest declared shape, so there is nothing undeclared",
        ),
        (
            {"largest": {"batch": 8, "length": 64}},
            "largest: got batch 8 and length 64, allowed is no such section unless strict is false",
        ),
        (
            {"strict": False, "largest": {"batch": 3, "length": 64}},
            "largest: got batch 3 and length 64, allowed are batch 4 or more and length 32 or more, the largest decl",
        ),
        (
            {"strict": False, "largest": {"batch": 4, "length": 31}},
            "largest: got batch 4 and length 31, allowed are batch 4 or more and length 32 or more, the largest decl",
        ),
        ({"strict": False, "largest": {"batch": 4}}, "largest.length: is missing"),
        ({"strict": False, "largest": {"batch": 5000, "length": 32}}, "largest.batch: got 5000"),
        ({"strict": False, "largest": {"batch": 4096, "length": 4096}}, "largest: got 4096x4096, which is 16777216"),
        ({"strict": "maybe", "largest": {"batch": 4, "length": 32}}, "strict: got 'maybe'"),
    ],
)
def test_a_bound_that_does_not_fit_is_refused_with_every_other_problem(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    """Field, value and what is allowed; what is wrong elsewhere does not hide it."""
    found = problems(tmp_path, document(threads=0, **changes))
    assert len(found) == 2
    assert any(problem.startswith(sentence) for problem in found), found
    assert any(problem.startswith("threads: got 0") for problem in found)


def test_a_bound_of_too_many_shapes_is_refused(tmp_path: Path) -> None:
    """Each of them is a compile that a client can cause."""
    many = {"batch": list(range(1, 17)), "length": list(range(1, 16))}
    (problem,) = problems(tmp_path, document(strict=False, catalogue=many, largest={"batch": 64, "length": 64}))
    assert problem.startswith("largest: got 64x64, which makes 324 shapes with the declared ones, at most 256")


@pytest.mark.parametrize("version", ["canary/v2", None])
def test_an_unknown_version_is_refused(tmp_path: Path, version: str | None) -> None:
    """Before anything else is believed."""
    assert any(problem.startswith("apiVersion") for problem in problems(tmp_path, document(apiVersion=version)))


@pytest.mark.parametrize("content", ["- a\n", "a: [", "", "\x00"])
def test_what_is_no_mapping_is_refused(tmp_path: Path, content: str) -> None:
    """One sentence that names the file."""
    (problem,) = problems(tmp_path, content)
    assert "server.yaml" in problem


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The path is named."""
    with pytest.raises(ConfigRefused, match=r"absent\.yaml"):
        load(tmp_path / "absent.yaml", None)


def test_a_tpu_cannot_be_told_to_run_eager(tmp_path: Path) -> None:
    """Eager operations compile one by one on the request path."""
    (problem,) = problems(tmp_path, document(compile=False), "tpu")
    assert problem.startswith("compile: got false for device tpu")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.0.2"])
def test_loopback_is_allowed_for_the_admin_port(tmp_path: Path, host: str) -> None:
    """By any of its names."""
    assert load(write(tmp_path, document(admin={"host": host})), None).admin.host == host


def test_the_cache_folder_is_made_for_us_alone(tmp_path: Path) -> None:
    """Mode 0700, parents included where missing; a second start finds it fit."""
    folder = tmp_path / "deep" / "cache"
    prepare_cache_dir(folder)
    prepare_cache_dir(folder)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_cache_folder_that_others_write_to_is_refused(tmp_path: Path) -> None:
    """Cached programs are code."""
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ConfigRefused, match="nobody else can write"):
        prepare_cache_dir(folder)


def test_a_file_in_place_of_the_cache_folder_is_refused(tmp_path: Path) -> None:
    """The sentence names the path."""
    (tmp_path / "cache").write_text("")
    with pytest.raises(ConfigRefused, match="cache_dir"):
        prepare_cache_dir(tmp_path / "cache")


@pytest.mark.parametrize(("value", "allowed"), [("1", True), ("0", False), ("true", False), (None, False)])
def test_the_emulator_variable_must_say_one(monkeypatch: pytest.MonkeyPatch, value: str | None, allowed: bool) -> None:
    """Exactly 1."""
    monkeypatch.delenv("CANARY_ALLOW_EMULATOR", raising=False)
    if value is not None:
        monkeypatch.setenv("CANARY_ALLOW_EMULATOR", value)
    assert emulator_allowed() is allowed


def test_a_catalogue_tells_all_of_its_problems_beside_the_others(tmp_path: Path) -> None:
    """One line each, under its own field."""
    broken = {"batch": [4, 1], "length": {"powers_of_two": {"from": 3, "to": 8}}, "exclude": [{"width": 1}]}
    found = problems(tmp_path, document(threads=0, catalogue=broken))
    assert len(found) == 4
    for start in ("catalogue.batch: got [4, 1]", "catalogue.length: got {", "catalogue.exclude.0: got {'width': 1}"):
        assert any(problem.startswith(start) for problem in found), found


def test_a_text_model_has_the_dimension_length_alone(tmp_path: Path) -> None:
    """It has neither height nor width."""
    (problem,) = problems(tmp_path, document(catalogue={"batch": [1], "height": [8], "width": [8]}))
    assert problem.startswith("catalogue: got the dimensions height, width, allowed is length alone")
