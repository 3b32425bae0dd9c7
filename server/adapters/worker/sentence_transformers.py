"""Loads a checked sentence-transformers folder: safetensors only, nothing from the hub."""

from typing import Any

import torch
from torch import nn
from transformers import BertModel
from transformers.utils import logging as transformers_logging

from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.folder import ModelFolder


class Encoder(nn.Module):  # type: ignore[misc]  # mypy does not follow torch, so its classes are Any
    """Token ids and mask, both [rows, length] int32, to float32 vectors [rows, dim] of length 1.

    Pooling and normalisation are inside, in float32 whatever the encoder's dtype, so that the program is whole.
    """

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state.to(torch.float32)
        weights = mask.unsqueeze(-1).to(torch.float32)
        mean = (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1e-9)
        return nn.functional.normalize(mean, p=2.0, dim=1)


class SentenceTransformersModel:
    """A Model (see engine.py). Raises EngineFailed."""

    def __init__(self, folder: ModelFolder) -> None:
        bert = _load_bert(folder)
        self.module: nn.Module = Encoder(bert).eval()
        self.revision = folder.revision
        self.vocabulary = int(bert.config.vocab_size)
        self.dim = int(bert.config.hidden_size)
        self.max_length = int(bert.config.max_position_embeddings)


def _load_bert(folder: ModelFolder) -> Any:
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        # Eager attention: the fused kernel lowers to a call that only a TPU has, and one form serves all devices.
        bert, loading = BertModel.from_pretrained(
            folder.path,
            add_pooling_layer=False,
            attn_implementation="eager",
            dtype=torch.float32,
            local_files_only=True,
            output_loading_info=True,
            use_safetensors=True,
        )
    except Exception as error:  # transformers raises many kinds; the person needs the text
        raise EngineFailed(f"model.path: {folder.weights} does not load: {error}") from error
    if loading["missing_keys"]:
        missing = ", ".join(sorted(loading["missing_keys"])[:3])
        raise EngineFailed(f"model.path: {folder.weights} lacks weights: {missing}")
    return bert
