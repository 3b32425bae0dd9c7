"""Loads a checked sentence-transformers folder: safetensors only, nothing from the hub."""

import torch
from torch import nn
from transformers import BertModel

from server.adapters.worker.dtypes import WEIGHTS
from server.adapters.worker.folder import ModelFolder
from server.adapters.worker.pretrained import from_pretrained
from server.core.signature import embedding
from server.core.types import DtypeName


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
        bert = from_pretrained(BertModel, folder, add_pooling_layer=False)
        self.module: nn.Module = Encoder(bert).eval()
        self.revision = folder.revision
        self.vocabulary = int(bert.config.vocab_size)
        self.dim = int(bert.config.hidden_size)
        self.max_length = int(bert.config.max_position_embeddings)
        self.signature = embedding(self.dim)

    def place(self, torch_name: str, dtype: DtypeName) -> nn.Module:
        """See Model."""
        self.module.bert.to(WEIGHTS[dtype])
        return self.module.to(torch_name)
