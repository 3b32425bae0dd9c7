"""Each format becomes a model whose answers are those of the module that was saved."""

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import tiny_models

from server.adapters.worker.engine import EngineFailed, Model
from server.adapters.worker.folder import inspect
from server.core.types import Bucket, ModelFormat
from server.core.warmup import StabilityRule
from server.ports.worker import Start

IDS = np.array([[1, 2, 3, 4], [5, 6, 0, 0], [49, 1, 1, 0]], dtype=np.int32)
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0]], dtype=np.int32)
FACTORY = "fakes.tiny_models:module"


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """torch without the backends that load themselves."""
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    import torch

    return torch


def load(folder: Path, kind: ModelFormat, factory: str | None = None) -> Model:
    from server.adapters.worker.loaders import load_model

    start = Start(
        model_path=str(folder),
        sha256=None,
        device="cpu",
        emulator_allowed=False,
        dtype="float32",
        matmul_precision="highest",
        compile=False,
        threads=1,
        buckets=(Bucket(1, 4),),
        stability=StabilityRule(),
        cache_dir=str(folder.parent / "cache"),
        front_pid=0,
        model_format=kind,
        factory=factory,
    )
    return load_model(inspect(folder, kind, None, folder.parent / "cache"), start)


def answer(model: Model) -> dict[str, Any]:
    """On the CPU, through the engine."""
    from server.adapters.worker.placed import Engine
    from server.adapters.worker.torch_device import CpuDevice

    engine = Engine(model, CpuDevice(1))
    engine.open("float32", "highest")
    return engine.call({"input_ids": IDS, "attention_mask": MASK})


def wanted(torch: Any) -> Any:
    with torch.no_grad():
        given = (torch.from_numpy(each.astype(np.int64)) for each in (IDS, MASK))
        return tiny_models.module()(*given)["scores"].numpy()


def test_an_export_and_a_factory_answer_like_the_module(torch: Any, tmp_path: Path) -> None:
    """Dict outputs come by the declared names; ids may be narrower than the graph's."""
    for folder, kind, factory in (
        (tiny_models.export(tmp_path / "export"), "torch-export", None),
        (tiny_models.weights(tmp_path / "factory"), "python-factory", FACTORY),
    ):
        model = load(folder, kind, factory)  # type: ignore[arg-type]  # both are formats
        assert (model.dim, model.vocabulary, model.max_length) == (3, 50, 32)
        np.testing.assert_allclose(answer(model)["scores"], wanted(torch), rtol=1e-6)


def test_a_classifier_gives_logits_and_says_its_labels(torch: Any, tmp_path: Path) -> None:
    """Rows of a batch do not depend on their padding."""
    model = load(tiny_models.classifier(tmp_path / "m"), "sequence-classification")
    assert model.signature.labels == ("bad", "good", "odd")
    assert (model.signature.scores, model.signature.task) == ("softmax", "classification")
    logits = answer(model)["logits"]
    assert logits.shape == (3, 3)
    alone = model.module(torch.tensor(IDS[1:2, :2]), torch.tensor(MASK[1:2, :2]))
    np.testing.assert_allclose(logits[1], alone.detach()[0], atol=1e-5)


def test_bfloat16_is_given_to_weights_and_not_to_a_graph(torch: Any, tmp_path: Path) -> None:
    """An exported graph fixes its dtypes."""
    model = load(tiny_models.weights(tmp_path / "factory"), "python-factory", FACTORY)
    placed = model.place("cpu", "bfloat16")
    found = placed(torch.from_numpy(IDS), torch.from_numpy(MASK))[0]
    assert found.dtype is torch.float32
    np.testing.assert_allclose(found.detach().numpy(), wanted(torch), atol=0.1)
    with pytest.raises(EngineFailed, match="dtype: got bfloat16"):
        load(tiny_models.export(tmp_path / "export"), "torch-export").place("cpu", "bfloat16")


@pytest.mark.parametrize(
    ("factory", "part"),
    [
        ("nowhere:make", "allowed is module:function"),
        ("fakes.tiny_models:absent", "allowed is module:function"),
        ("builtins:dict", "returned dict"),
        ("builtins:input", "raised"),
    ],
)
def test_a_factory_that_builds_no_module_is_refused(torch: Any, tmp_path: Path, factory: str, part: str) -> None:
    """By its name."""
    with pytest.raises(EngineFailed, match=part):
        load(tiny_models.weights(tmp_path / "m"), "python-factory", factory)


def test_weights_that_do_not_fit_the_module_are_refused(torch: Any, tmp_path: Path) -> None:
    """None is left at its initial value, none is left over."""
    with pytest.raises(EngineFailed, match=r"(?s)do not fit the factory's module.*layer\.weight"):
        load(tiny_models.weights(tmp_path / "m", tiny_models.module(wide=4)), "python-factory", FACTORY)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"outputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, 4]}]}, r"scores is declared FP32 \[-1, 4\]"),
        ({"inputs": tiny_models.TOKENS["inputs"][:1]}, "inputs: got 1"),  # type: ignore[index]
    ],
)
def test_a_declaration_that_the_graph_contradicts_is_refused(
    torch: Any, tmp_path: Path, changes: dict[str, Any], part: str
) -> None:
    """What clients are told is what the graph does."""
    tiny_models.declare(tiny_models.export(tmp_path / "m"), **changes)
    with pytest.raises(EngineFailed, match=part):
        load(tmp_path / "m", "torch-export")


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"vocabulary": 0}, "vocabulary: got 0"),
        ({"max_length": -1}, "max_length: got -1"),
        ({"outputs": []}, "outputs: got none"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_declaration_that_says_too_little_or_too_much_is_refused(
    tmp_path: Path, changes: dict[str, Any], part: str
) -> None:
    """A TPU checks no index, so the vocabulary has no default."""
    with pytest.raises(EngineFailed, match=part):
        inspect(tiny_models.declare(tmp_path / "m", **changes), "python-factory", None, tmp_path)


def rewritten(path: Path, change: Callable[[str, bytes], bytes | None], extra: dict[str, bytes] | None = None) -> None:
    """The archive with members changed (None: left out) or added."""
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    root = next(iter(members)).partition("/")[0]
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in [*members.items(), *((f"{root}/{name}", raw) for name, raw in (extra or {}).items())]:
            kept = change(name.partition("/")[2], raw)
            if kept is not None:
                archive.writestr(name, kept)


class Evil:
    """Calls something when it is unpickled."""

    def __reduce__(self) -> Any:
        return (print, ("unpickled",))


def _samples() -> bytes:
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as inner:
        inner.writestr("archive/data.pkl", pickle.dumps(Evil(), protocol=2))
    return raw.getvalue()


def _graph(old: str, new: str) -> Callable[[str, bytes], bytes]:
    def change(name: str, raw: bytes) -> bytes:
        if name != "models/model.json":
            return raw
        assert old in raw.decode(), old
        return raw.decode().replace(old, new, 1).encode()

    return change


def _member(wanted_name: str, value: bytes | None) -> Callable[[str, bytes], bytes | None]:
    return lambda name, raw: value if name == wanted_name else raw


def _samples_behind(pickled: bytes) -> Callable[[str, bytes], bytes]:
    """Python finds the zip file at the end, torch.load the pickle before it."""
    return lambda name, raw: pickled + raw if name == "data/sample_inputs/model.pt" else raw


ATTACKS: dict[str, tuple[Callable[[str, bytes], bytes | None], dict[str, bytes], str]] = {
    "a pickled object": (lambda name, raw: raw, {"data/constants/opaque_obj_0": pickle.dumps(Evil())}, "opaque_obj_0"),
    "compiled code": (lambda name, raw: raw, {"data/aotinductor/model/x.so": b"\x7fELF"}, "x.so"),
    "legacy weights": (lambda name, raw: raw, {"data/weights/model.pt": b""}, "model.pt"),
    "samples that call": (_member("data/sample_inputs/model.pt", _samples()), {}, "sample_inputs"),
    "samples behind a pickle": (_samples_behind(pickle.dumps(Evil(), protocol=2)), {}, "does not begin as a zip"),
    "an expression": (_graph("Symbol('s", "__import__('os').system('s"), {}, "expr_str"),
    "a guard": (_graph('"guards_code": [', '"guards_code": ["print(1)",'), {}, "guards_code"),
    "a custom operator": (_graph("torch.ops.aten.linear.default", "torch.ops.mine.linear.default"), {}, "target"),
    "any function of torch": (_graph("torch.ops.aten.linear.default", "torch.load"), {}, "target"),
    "a tree of an imported type": (_graph("builtins.dict", "collections.defaultdict"), {}, "_spec"),
    "a name that is code": (_graph('{"name": "input_ids"}', '{"name": "input_ids=print(1)"}'), {}, "name"),
    "a comment that ends": (_graph('"stack_trace": "', '"stack_trace": "\\r'), {}, "metadata"),
    "no graph": (_member("models/model.json", None), {}, "lacks models/model.json"),
    "a broken graph": (_member("models/model.json", b"["), {}, "no readable"),
}


@pytest.mark.parametrize("name", list(ATTACKS))
def test_an_archive_that_holds_more_than_a_graph_and_tensors_is_refused(torch: Any, tmp_path: Path, name: str) -> None:
    """Before torch reads it: torch.export.load would unpickle, evaluate or import what is in there."""
    folder = tiny_models.export(tmp_path / "m")
    change, extra, part = ATTACKS[name]
    rewritten(folder / "model.pt2", change, extra)
    with pytest.raises(EngineFailed, match=part):
        inspect(folder, "torch-export", None, tmp_path)


@pytest.mark.parametrize(
    ("before", "behind", "part"),
    [
        (b"\0", b"", "does not begin"),
        (b"PK\x03\x04", b"", "two places"),
        (b"", b"\0", "bytes follow"),
    ],
)
def test_an_archive_that_two_readers_see_differently_is_refused(
    torch: Any, tmp_path: Path, before: bytes, behind: bytes, part: str
) -> None:
    """Python would check one directory, and torch load by the other."""
    folder = tiny_models.export(tmp_path / "m")
    for small in (False, True):
        if small:  # as Python writes it, without the wide end
            rewritten(folder / "model.pt2", lambda _, raw: raw)
        inspect(folder, "torch-export", None, tmp_path)
        whole = (folder / "model.pt2").read_bytes()
        (folder / "model.pt2").write_bytes(before + whole + behind)
        with pytest.raises(EngineFailed, match=part):
            inspect(folder, "torch-export", None, tmp_path)
        (folder / "model.pt2").write_bytes(whole)


def test_a_weight_that_says_it_is_pickled_is_refused(torch: Any, tmp_path: Path) -> None:
    """torch would load it with weights_only=False."""
    folder = tiny_models.export(tmp_path / "m")

    def change(name: str, raw: bytes) -> bytes:
        if name != "data/weights/model_weights_config.json":
            return raw
        document = json.loads(raw)
        next(iter(document["config"].values()))["use_pickle"] = True
        return json.dumps(document).encode()

    rewritten(folder / "model.pt2", change)
    with pytest.raises(EngineFailed, match="use_pickle True"):
        inspect(folder, "torch-export", None, tmp_path)
