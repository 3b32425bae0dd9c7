"""Loads a checked transformers folder for sequence classification: safetensors only, logits out."""

import torch
from torch import nn
from transformers import AutoModelForSequenceClassification

from server.adapters.worker.dtypes import WEIGHTS
from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.folder import ModelFolder
from server.adapters.worker.pretrained import from_pretrained
from server.core.signature import VARIABLE, TensorSpec, of_tokens
from server.core.types import DtypeName

# RoBERTa counts positions from the padding id + 1, so its table is that much longer than its longest text.
OFFSET_POSITIONS = ("roberta", "xlm-roberta")


class Classifier(nn.Module):  # type: ignore[misc]  # mypy does not follow torch, so its classes are Any
    """Token ids and mask, both [rows, length] int32, to float32 logits [rows, labels]. One segment: token type 0."""

    def __init__(self, classifier: nn.Module) -> None:
        super().__init__()
        self.classifier = classifier

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.classifier(input_ids=ids, attention_mask=mask).logits.to(torch.float32)


class SequenceClassificationModel:
    """A Model (see engine.py). Raises EngineFailed."""

    def __init__(self, folder: ModelFolder) -> None:
        classifier = from_pretrained(AutoModelForSequenceClassification, folder)
        config = classifier.config
        if int(config.num_labels) != len(folder.labels):
            raise EngineFailed(
                f"model.path: {folder.path} has {config.num_labels} logits, its config.json names {len(folder.labels)}"
            )
        self.module: nn.Module = Classifier(classifier).eval()
        self.revision = folder.revision
        self.vocabulary = int(config.vocab_size)
        self.dim = len(folder.labels)
        offset = int(config.pad_token_id) + 1 if config.model_type in OFFSET_POSITIONS else 0
        self.max_length = int(config.max_position_embeddings) - offset
        self.signature = of_tokens(
            TensorSpec("logits", "FP32", (VARIABLE, self.dim)),
            task="classification",
            labels=folder.labels,
            scores=folder.scores,
            about=f"float32[{self.dim}] logits, no softmax applied",
        )

    def place(self, torch_name: str, dtype: DtypeName) -> nn.Module:
        """See Model."""
        self.module.classifier.to(WEIGHTS[dtype])
        return self.module.to(torch_name)
