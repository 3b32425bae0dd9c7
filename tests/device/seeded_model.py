"""Writes a sentence-transformers folder of all-MiniLM-L6-v2's shape with seeded weights: nothing has to be carried.

Its tokenizer knows the words of the load generator, one token each.
"""

import json
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel

from loadtest.payloads import ADJECTIVES, LINKS, MATERIALS, PLACES, THINGS

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
    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *dict.fromkeys(ADJECTIVES + MATERIALS + THINGS + LINKS + PLACES)]
    known += [f"w{number}" for number in range(len(known), VOCABULARY)]
    words = {word: number for number, word in enumerate(known)}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    ends = [(name, words[name]) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
