"""Every problem of a configuration at once, before a port opens."""

import os
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


@pytest.mark.parametrize(
    "text", ["a: [", "a: 2026-02-30", "a: !!int x", "a: !!timestamp x", "a: " + "9" * 5000, "a: " + "[" * 5000]
)
def test_what_is_no_yaml_is_a_problem_and_no_crash(tmp_path: Path, text: str) -> None:
    """A day that no month has is read as a date, for one."""
    assert "cannot be read as YAML" in problems(tmp_path, text)[0]


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


def test_a_cache_folder_that_cannot_be_used_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a port opens, with its mode; root may read everything, so the system's answer is made up here."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ConfigRefused, match=r"cache_dir: got .*mode 700.*to read and write"):
        prepare_cache_dir(tmp_path / "cache")


@pytest.mark.parametrize(("grace_s", "fits"), [(None, True), (23.0, True), (22.9, False), (1.0, False)])
def test_a_drain_fits_into_what_the_platform_gives(tmp_path: Path, grace_s: float | None, fits: bool) -> None:
    """The sentence has all three numbers and what is allowed."""
    content = document(drain={"delay_s": 1, "limit_s": 20, "grace_s": grace_s})
    if fits:
        assert load(write(tmp_path, content), None).drain.grace_s == grace_s
    else:
        (problem,) = problems(tmp_path, content)
        assert problem.startswith(f"drain: got delay_s 1 and limit_s 20 for grace_s {grace_s:g}, allowed is ")


@pytest.mark.parametrize(
    ("section", "field", "value"),
    [("stuck", "times", 1), ("stuck", "floor_s", 0), ("restart", "limit", -1), ("restart", "back_off_s", 0)],
)
def test_limits_that_mean_nothing_are_refused(tmp_path: Path, section: str, field: str, value: int) -> None:
    """By their path and value."""
    (problem,) = problems(tmp_path, document(**{section: {field: value}}))
    assert problem.startswith(f"{section}.{field}: got {value}")


@pytest.mark.parametrize(
    ("model", "part"),
    [
        ({"format": "python-factory"}, "model.factory: is missing, allowed is module:function"),
        ({"format": "python-factory", "factory": "os.system('x')"}, "model.factory: got"),
        ({"format": "torch-export", "factory": "a:b"}, "model.factory: got 'a:b', allowed with format python-factory"),
    ],
)
def test_a_factory_is_named_for_its_format_alone(tmp_path: Path, model: dict[str, Any], part: str) -> None:
    """It is code that the server will run."""
    text = "\n".join(problems(tmp_path, document(model={"name": "m", "path": "/m", **model})))
    assert part in text


@pytest.mark.parametrize("edges", [[], [0, 1], [2, 1], [1, 1], [1, float("inf")], list(range(1, 66))])
def test_edges_of_histograms_rise(tmp_path: Path, edges: list[float]) -> None:
    """Prometheus would take others and count nothing useful."""
    (problem,) = problems(tmp_path, document(metrics={"edges_s": edges}))
    assert problem.startswith("metrics.edges_s: got ")
    assert problem.endswith("allowed are 1 to 64 rising numbers of seconds above 0")


def test_edges_may_be_those_of_an_slo(tmp_path: Path) -> None:
    """In seconds, as everywhere."""
    assert load(write(tmp_path, document(metrics={"edges_s": [0.01, 0.025]})), None).metrics.edges_s == (0.01, 0.025)


@pytest.mark.parametrize(
    "endpoint", ["", "collector:4318", "ftp://h/v1/traces", "http://", "http://u:p@h/", "http://h:x/"]
)
def test_a_collector_is_a_whole_url_without_credentials(tmp_path: Path, endpoint: str) -> None:
    """They would stand in every log of a configuration."""
    (problem,) = problems(tmp_path, document(tracing={"endpoint": endpoint}))
    assert problem.startswith(f"tracing.endpoint: got {endpoint!r}, allowed is the whole http or https URL")


def test_one_in_a_hundred_is_traced_unless_told_otherwise(tmp_path: Path) -> None:
    """And nothing without the section."""
    tracing = load(write(tmp_path, document(tracing={"endpoint": "http://h:4318/v1/traces"})), None).tracing
    assert tracing is not None
    assert tracing.ratio == 0.01
    assert load(write(tmp_path, document()), None).tracing is None


def test_profiles_are_kept_in_a_folder_of_ours(tmp_path: Path) -> None:
    """Nobody else may put a link there, and it is not made by a typing error."""
    ours, open_to_all = tmp_path / "ours", tmp_path / "open"
    ours.mkdir(mode=0o700)
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    profiler = load(write(tmp_path, document(profiler={"folder": str(ours)})), None).profiler
    assert profiler is not None
    assert profiler.folder == ours
    for folder, why in ((open_to_all, "nobody else can write to"), (tmp_path / "absent", "an existing folder")):
        (problem,) = problems(tmp_path, document(profiler={"folder": str(folder)}))
        assert problem.startswith("profiler.folder: got ")
        assert problem.endswith(why)
