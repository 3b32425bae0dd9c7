"""Small seeded models of each format, written to folders the way their owners would write them."""

import json
from pathlib import Path
from typing import Any

from server.adapters.worker.declaration import FILE

TOKENS = {
    "inputs": [
        {"name": "input_ids", "datatype": "INT64", "shape": [-1, -1]},
        {"name": "attention_mask", "datatype": "INT64", "shape": [-1, -1]},
    ],
    "outputs": [{"name": "scores", "datatype": "FP32", "shape": [-1, 3]}],
    "vocabulary": 50,
    "max_length": 32,
    "about": "float32[3], made for tests",
}


def module(wide: int = 3) -> Any:
    """A table of vectors, a masked sum, a layer."""
    import torch

    class Tiny(torch.nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(50, 8)
            self.layer = torch.nn.Linear(8, wide)

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            rows = self.table(input_ids) * attention_mask.unsqueeze(-1).to(self.layer.weight.dtype)
            return {"scores": self.layer(rows.sum(dim=1))}

    torch.manual_seed(7)
    return Tiny().eval()


def declare(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(json.dumps({**TOKENS, **changes}))
    return folder


def export(folder: Path, inner: Any = None) -> Path:
    """A .pt2 with a free batch and length."""
    import torch

    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=32)
    given = (torch.ones(2, 4, dtype=torch.int64), torch.zeros(2, 4, dtype=torch.int64))
    shapes = ({0: batch, 1: length}, {0: batch, 1: length})
    program = torch.export.export(module() if inner is None else inner, given, dynamic_shapes=shapes)
    declare(folder)
    torch.export.save(program, folder / "model.pt2")
    return folder


def weights(folder: Path, inner: Any = None) -> Path:
    """The same model for a factory: safetensors and the declaration."""
    from safetensors.torch import save_file

    declare(folder)
    save_file((module() if inner is None else inner).state_dict(), folder / "model.safetensors")
    return folder


def classifier(folder: Path) -> Path:
    """A small BERT for three labels, as transformers saves it."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(7)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
        id2label={0: "bad", 1: "good", 2: "odd"},
        label2id={"bad": 0, "good": 1, "odd": 2},
    )
    BertForSequenceClassification(config).eval().save_pretrained(folder)
    return folder


PICTURES = {
    "inputs": [{"name": "pixels", "datatype": "FP32", "shape": [-1, 3, 8, 8]}],
    "outputs": [
        {"name": "label", "datatype": "INT64", "shape": [-1]},
        {"name": "y", "datatype": "FP32", "shape": [-1, 4]},
    ],
    "vocabulary": 0,
    "max_length": 0,
}


def pictures() -> Any:
    """Pixels in, two outputs: not what batches of token ids can carry."""
    import torch

    class Pictures(torch.nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(192, 4)

        def forward(self, pixels: Any) -> Any:
            scores = self.layer(pixels.flatten(1))
            return scores.argmax(dim=1), scores

    torch.manual_seed(7)
    return Pictures().eval()


ENCODED = {
    "inputs": [{"name": "pixels", "datatype": "FP32", "shape": [-1, 3, "height", "width"]}],
    "outputs": [
        {"name": "embedding", "datatype": "FP32", "shape": [-1, 4]},
        {"name": "heat", "datatype": "FP16", "shape": [-1, "height", "width"]},
        {"name": "brightest", "datatype": "INT64", "shape": [-1]},
    ],
}


def encoder() -> Any:
    """Pixels of any size in; a sum over them, a map of them and a number out. Zeros at the end change none of these."""
    import torch

    class Encoder(torch.nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
        def __init__(self) -> None:
            super().__init__()
            self.mix = torch.nn.Conv2d(3, 4, kernel_size=1, bias=False)

        def forward(self, pixels: Any) -> Any:
            mixed = self.mix(pixels)
            sums = mixed.sum(dim=(2, 3))
            return {"embedding": sums, "heat": mixed.mean(dim=1), "brightest": sums.argmax(dim=1)}

    torch.manual_seed(7)
    return Encoder().eval()


def tabular_declaration(datatype: str) -> dict[str, Any]:
    return {
        "inputs": [{"name": "features", "datatype": datatype, "shape": [-1, 32]}],
        "outputs": [
            {"name": "scores", "datatype": "FP32", "shape": [-1, 4]},
            {"name": "logits", "datatype": datatype, "shape": [-1, 4]},
        ],
    }


def tabular() -> Any:
    """Rows of 32 numbers to four scores and their logits."""
    import torch

    class Tabular(torch.nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(32, 4)

        def forward(self, features: Any) -> Any:
            logits = self.layer(features)
            return {"scores": logits.softmax(dim=1), "logits": logits}

    torch.manual_seed(7)
    return Tabular().eval()


def factory(folder: Path, build: Any, declared: dict[str, Any]) -> Path:
    """A folder of the python-factory format for what ``build`` makes."""
    from safetensors.torch import save_file

    declare(folder, **{"vocabulary": 0, "max_length": 0, "about": "", **declared})
    save_file(build().state_dict(), folder / "model.safetensors")
    return folder
