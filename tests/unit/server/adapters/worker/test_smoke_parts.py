"""Inputs, differences and the port audit of the smoke."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import tiny_models

from server.core.catalog import TEXT
from server.core.padding import pad_rows
from server.core.tolerance import FLOAT32
from server.core.types import Bucket

BUCKET = Bucket(4, 6)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    from server.adapters.worker.folder import inspect
    from server.adapters.worker.python_factory import FactoryModel

    folder = inspect(tiny_models.weights(tmp_path / "m"), "python-factory", None, tmp_path / "cache")
    return FactoryModel(folder, "fakes.tiny_models:module")


def arrays(model: Any, bucket: Bucket) -> Any:
    from server.adapters.worker.samples import arrays_of
    from server.adapters.worker.smoke.arrays import rows_for

    return arrays_of(pad_rows(rows_for(model, bucket, TEXT), bucket))


def test_rows_of_whole_and_half_length_take_turns_and_are_referred_to_alone(model: Any) -> None:
    """So that padding and neighbours show."""
    from server.adapters.worker.placed import on_cpu
    from server.adapters.worker.smoke.arrays import reference_for, rows_for

    rows = rows_for(model, BUCKET, TEXT)
    inputs = arrays(model, BUCKET)
    assert inputs["attention_mask"].sum(axis=1).tolist() == [6, 3, 6, 3]
    assert inputs["input_ids"].max() < model.vocabulary
    outputs, alone = reference_for(model, rows, BUCKET)
    assert alone
    np.testing.assert_allclose(outputs["scores"], on_cpu(model, inputs)["scores"], rtol=1e-5)


def test_inputs_and_outputs_come_back_from_their_file(model: Any, tmp_path: Path) -> None:
    """By bucket, no more and no less."""
    from server.adapters.worker.smoke.arrays import read, write

    given = {bucket: (arrays(model, bucket), {"y": np.ones(bucket.batch, np.float32)}) for bucket in
             (BUCKET, Bucket(1, 6))}  # fmt: skip
    write(tmp_path / "a", given)
    inputs, outputs = read(tmp_path / "a", BUCKET)
    assert set(inputs) == {"input_ids", "attention_mask"}
    assert outputs["y"].shape == (4,)


@pytest.mark.parametrize(
    ("found", "part"),
    [
        ([[3.0, 4.0], [0.0, 1.0]], ("cosine_min", 1.0)),
        ([[6.0, 8.0], [0.0, 1.0]], ("length_rel", 1.0)),
        ([[4.0, -3.0], [0.0, 1.0]], ("cosine_min", 0.0)),
        ([[3.0, 4.0], [0.0, 1.5]], ("max_abs", 0.5)),
        ([[3.0, 4.0], [0.0, np.nan]], ("finite", False)),
        ([[3.0, 4.0], [0.0, 0.0]], ("cosine_min", -1.0)),
    ],
)
def test_the_worst_row_decides(model: Any, found: list[list[float]], part: tuple[str, float]) -> None:
    """Never a mean."""
    from server.adapters.worker.smoke.arrays import difference

    wanted = {"y": np.array([[3.0, 4.0], [0.0, 1.0]], np.float32)}
    result = difference(wanted, {"y": np.array(found, np.float32)}, FLOAT32)
    assert getattr(result, part[0]) == pytest.approx(part[1])


def test_whole_numbers_must_be_equal(model: Any) -> None:
    """A label is right or wrong."""
    from server.adapters.worker.smoke.arrays import difference

    assert difference({"y": np.array([1, 2])}, {"y": np.array([1, 3])}, FLOAT32).beyond == 1


def test_the_audit_names_operators_code_and_hooks_that_bind_a_model(model: Any) -> None:
    """A plain model has none of them."""
    import torch

    from server.adapters.worker.smoke.audit import audit

    inputs = arrays(model, BUCKET)
    plain = audit(model, inputs)
    assert (plain.custom, plain.cuda_only, plain.cuda_sources, plain.hooks, plain.error) == ((), (), (), 0, "")
    assert plain.operators >= 4

    @torch.library.custom_op("smoke_test::twice", mutates_args=())
    def twice(given: torch.Tensor) -> torch.Tensor:
        return given * 2

    twice.register_fake(lambda given: torch.empty_like(given))

    class Bound(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch is not followed by mypy
        def forward(self, ids: Any, mask: Any) -> Any:
            if torch.cuda.is_available():
                ids = ids.cuda()
            return twice(ids.float() * mask)

    model.module = Bound()
    model.module.register_forward_hook(lambda *given: None)
    bound = audit(model, inputs)
    assert bound.custom == ("smoke_test::twice",)
    assert len(bound.cuda_sources) == 1
    assert bound.hooks == 1
