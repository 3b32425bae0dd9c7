"""Writes a sentence-transformers folder of all-MiniLM-L6-v2's shape with seeded weights: nothing has to be carried."""

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel

VOCABULARY = 30522


def main(folder: Path) -> None:
    """The same bytes on every machine with the same torch."""
    torch.manual_seed(20261)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    BertModel(config, add_pooling_layer=False).eval().save_pretrained(folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    words = {"[UNK]": 0, **{f"w{number}": number for number in range(1, VOCABULARY)}}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
