"""``canary-server plan``: what is read, what is refused, what is printed."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from server.__main__ import main
from server.adapters.lengths import LengthsRefused, read_traffic
from server.core.pricing import Group


def written(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("l.json", "[5, 7, 7]"),
        ("l.json", '{"5": 1, "7": 2}'),
        ("l.json", '[{"length": 5}, {"length": 7, "count": 2, "rows": 1}]'),
        ("l.csv", "5\n7\n7\n"),
        ("l.csv", "5,1\n7,2\n"),
        ("l.csv", "count,length\n1,5\n2, 7\n\n"),
        ("L.CSV", "length\r\n5\r\n7\r\n7\r\n"),
    ],
)
def test_lengths_and_histograms_are_read_alike(tmp_path: Path, name: str, text: str) -> None:
    """Whichever way they were written down."""
    assert read_traffic(written(tmp_path, name, text), ("length",)) == [Group(1, (5,), 1), Group(1, (7,), 2)]


def test_rows_and_other_dimensions_have_columns_of_their_own(tmp_path: Path) -> None:
    """By the names of the catalogue."""
    path = written(tmp_path, "l.csv", "width,height,rows\n3,2,4\n3,2,4\n")
    assert read_traffic(path, ("height", "width")) == [Group(4, (2, 3), 2)]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("l.txt", "5", "allowed are .json and .csv"),
        ("l.json", "{", "is no JSON"),
        ("l.json", "[" * 100_000, "is no JSON"),
        ("l.json", "7", "got int, allowed are a list"),
        ("l.json", "[]", "holds no lengths"),
        ("l.json", "[5, 0, -1]", "entry 1: length is 0, allowed are whole numbers from 1"),
        ("l.json", "[1.5, true, null]", "entry 0: length is 1.5"),
        ("l.json", '{"5": "many"}', "count is 'many'"),
        ("l.json", '[{"size": 5}]', "needed are length"),
        ("l.csv", "", "holds no lengths"),
        ("l.csv", "length,count\n5\n", "line 2 has 1 columns"),
        ("l.csv", "tokens\n5\n", "line 2 has tokens, needed are length"),
        ("l.csv", '"' + "5" * 200_000, "is no CSV"),
    ],
)
def test_what_cannot_be_read_is_refused_with_place_and_value(tmp_path: Path, name: str, text: str, words: str) -> None:
    """Nothing is guessed, nothing is skipped."""
    with pytest.raises(LengthsRefused) as refused:
        read_traffic(written(tmp_path, name, text), ("length",))
    assert words in str(refused.value)


def test_plain_numbers_are_not_enough_for_two_dimensions(tmp_path: Path) -> None:
    """Which one would they be?"""
    with pytest.raises(LengthsRefused, match="height, width"):
        read_traffic(written(tmp_path, "l.json", "[5]"), ("height", "width"))


LENGTHS = '{"5": 60, "9": 30, "30": 9, "40": 1}'


def planned(tmp_path: Path, *options: str, **changes: Any) -> int:
    document = {
        "apiVersion": "canary/v1",
        "kind": "Server",
        "model": {"name": "m", "path": "/m", "format": "sentence-transformers"},
        "device": "cpu",
        "catalogue": {"batch": [1, 4], "length": [16, 32]},
        "cache_dir": str(tmp_path / "cache"),
        **changes,
    }
    config = written(tmp_path, "server.yaml", yaml.safe_dump(document))
    lengths = written(tmp_path, "lengths.json", LENGTHS)
    return main(["plan", "--config", str(config), "--lengths", str(lengths), *options])


def test_the_table_is_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs, what is not served, padding by batch size, a better choice."""
    assert planned(tmp_path) == 0
    text = capsys.readouterr().out
    for part in (
        "batch 1,4 x length 16,32: 4 programs",
        "Served     99 of 100 requests (99.0 %)",
        "not served: 1 requests of 1 rows, length 40",
        "compiled unknown, from cache unknown; measured are 0 of 4 declared programs",
        "Suggested  length: [9, 32]   2 widths, padding 23.5 % instead of 51.4 %",
    ):
        assert part in text, text


def test_the_same_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One object, with the best padding for each number of widths."""
    assert planned(tmp_path, "--json", "--widths", "3", "--longest", "40") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["programs"], found["requests"], found["served"]) == (4, 100, 99)
    assert [each["batch"] for each in found["batches"]] == [1, 4]
    assert found["suggestion"]["widths"]["widths"] == [5, 9, 40]
    assert [len(each["widths"]) for each in found["suggestion"]["table"]] == [1, 2, 3]


def bucket(name: str, **changes: Any) -> dict[str, Any]:
    measured = {"bucket": name, "first_s": 2.0, "warm_s": 0.5, "calls": 3, "compiles": 0, "source": "cache"}
    return {**measured, "tier": "pytorch", "compiled_s": 8.0, "memory_bytes": 2**20, **changes}


REPORT = {"warm_up": [bucket(f"{batch}x{length}") for batch in (1, 4) for length in (16, 32)]}


def test_the_last_warm_up_prices_the_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The record in the cache folder of this device, dtype and precision; another one's is not used."""
    record = {**REPORT, "revision": "r", "device": "cpu", "dtype": "float32", "matmul_precision": "highest"}
    for name, device in (("a", "cpu"), ("b", "tpu")):
        (tmp_path / "cache" / name).mkdir(parents=True)
        (tmp_path / "cache" / name / "warm_up.json").write_text(json.dumps({**record, "device": device}))
    assert planned(tmp_path) == 0
    text = capsys.readouterr().out
    assert "compiled 36.0 s, from cache 12.0 s; measured are 4 of 4" in text
    assert str(tmp_path / "cache" / "a" / "warm_up.json") in text
    assert "Memory     1 MiB at most" in text
    model = {"name": "m", "path": "/m", "format": "sentence-transformers", "sha256": "0" * 64}
    assert planned(tmp_path, model=model) == 0
    assert "measured are 0 of 4" in capsys.readouterr().out


def test_a_health_body_prices_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also of a server elsewhere, and in part."""
    body = {"state": "ready", "elapsed_s": 1.0, "warm_up": [bucket("1x16", source="eager", compiled_s=None)]}
    report = written(tmp_path, "livez.json", json.dumps(body))
    assert planned(tmp_path, "--report", str(report)) == 0
    assert "compiled unknown, from cache unknown; measured are 1 of 4" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["{}", "[", '{"warm_up": [{"bucket": 1}]}', None])
def test_a_report_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    """It was named, so it is not left out in silence."""
    report = tmp_path / "livez.json"
    if content is not None:
        report.write_text(content)
    assert planned(tmp_path, "--report", str(report)) == 2
    assert f"--report: {report} is no health body" in capsys.readouterr().err


def test_a_wrong_catalogue_is_refused_with_all_of_its_problems(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As when the server starts."""
    assert planned(tmp_path, catalogue={"batch": [4, 1], "length": "long"}) == 2
    said = capsys.readouterr().err
    assert "canary-server plan: catalogue.batch: got [4, 1]" in said
    assert "canary-server plan: catalogue.length: got 'long'" in said


@pytest.mark.parametrize("options", [("--widths", "0"), ("--step", "x"), ("--longest", "-1")])
def test_a_wrong_number_is_a_wrong_usage(tmp_path: Path, options: tuple[str, str]) -> None:
    """Exit code 2, as argparse has it."""
    with pytest.raises(SystemExit, match="2"):
        planned(tmp_path, *options)


def test_a_catalogue_of_batch_alone_is_priced_by_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is padded but rows."""
    (tmp_path / "rows.json").write_text('[{"rows": 3, "count": 2}]')
    changes: dict[str, Any] = {
        "catalogue": {"batch": [1, 4]},
        "model": {"name": "m", "path": "/m", "format": "torch-export"},
    }
    assert planned(tmp_path, "--lengths", str(tmp_path / "rows.json"), **changes) == 0
    assert "2 of 2 requests" in capsys.readouterr().out
