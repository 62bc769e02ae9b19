"""Makes a tiny T5 with random weights, its tokenizer and generated dialogues, to try the example without a network:

  python3 make_tiny.py /tmp/flan

writes /tmp/flan/model and /tmp/flan/data/train.csv, as fetch.sh does for the real ones.
"""
import csv
import itertools
import os
import pathlib
import shutil
import sys
import tempfile

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

NAMES = ("ann", "ben", "cleo", "dora", "emil", "finn")
THINGS = ("lamp", "book", "ladder", "bicycle", "kettle", "map", "tent")
DAYS = ("monday", "tuesday", "thursday", "friday", "sunday")
SPECIAL = ("<pad>", "</s>", "<unk>")  # with the numbers that T5 gives them: 0, 1, 2


def dialogues():
    for asker, helper, thing, day in itertools.product(NAMES, NAMES, THINGS, DAYS):
        if asker != helper:
            yield (f"{asker} : can you bring the {thing} on {day} ? {helper} : yes , i will .",
                   f"{helper} will bring {asker} the {thing} on {day} .")


def make_tokenizer(texts):
    words = sorted({word for text in texts for word in ("summarize : " + text).split()})
    vocabulary = {word: number for number, word in enumerate([*SPECIAL, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def make(folder):
    rows = list(dialogues())
    tokenizer = make_tokenizer([text for row in rows for text in row])
    torch.manual_seed(1)
    model = T5ForConditionalGeneration(T5Config(
        vocab_size=len(tokenizer), d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
        feed_forward_proj="gated-gelu", decoder_start_token_id=0))
    tokenizer.save_pretrained(folder / "model")
    model.save_pretrained(folder / "model")
    (folder / "data").mkdir()
    with open(folder / "data/train.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["dialogue", "summary"])
        writer.writerows(rows)


def main():
    target = pathlib.Path(sys.argv[1]).resolve()
    if target.exists():
        return
    # Under the final name the folder is always whole: nodes of `muster local` run this at the same time.
    target.parent.mkdir(parents=True, exist_ok=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix=target.name, dir=target.parent))
    try:
        make(work)
        os.rename(work, target)
    except OSError:
        if not target.exists():
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
