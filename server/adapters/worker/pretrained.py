"""transformers' own loading, with everything off that reaches beyond the folder: hub, pickle, remote code."""

from typing import Any

import torch
from transformers.utils import logging as transformers_logging

from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.folder import ModelFolder


def from_pretrained(kind: Any, folder: ModelFolder, **options: Any) -> Any:
    """A transformers model in float32, all of its weights there. Raises EngineFailed."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        # Eager attention: the fused kernel lowers to a call that only a TPU has, and one form serves all devices.
        model, loading = kind.from_pretrained(
            folder.path,
            attn_implementation="eager",
            dtype=torch.float32,
            local_files_only=True,
            output_loading_info=True,
            use_safetensors=True,
            trust_remote_code=False,
            **options,
        )
    except Exception as error:  # transformers raises many kinds; the person needs the text
        raise EngineFailed(f"model.path: {folder.path} does not load: {error}") from error
    lacking = {name: sorted(map(str, loading.get(name) or ())) for name in ("missing_keys", "mismatched_keys")}
    for name, keys in lacking.items():
        if keys:
            raise EngineFailed(f"model.path: {folder.path} has {name.replace('_', ' ')}: {', '.join(keys[:3])}")
    return model
