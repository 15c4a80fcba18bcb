#!/usr/bin/env python3
"""check_perplexity.py INGOT: what quantizing costs a model that has learned something.

Trains a small llama with PyTorch on the stories that `ingot stories` tells, saves it as a folder,
converts it to F16, quantizes that, and compares perplexities of other stories.

Run with the interpreter of tests/peers/venv transformers; tools/test --e2e does.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

transformers.utils.logging.disable_progress_bar()
STEPS, ROWS, LENGTH, TOKENS = 300, 8, 64, 800

# What the issue promises: perplexity by that of F16.
MOST = {"Q8_0": 1.001, "Q6_K": 1.005, "Q5_K_M": 1.01, "Q4_K_M": 1.02, "Q4_0": 1.05}


def run(*args):
    return subprocess.run(args, capture_output=True, text=True, check=True).stdout


def perplexity(ingot, model, text):
    """In pieces as long as those that were learned from."""
    out = run(ingot, "perplexity", "-q", "-m", model, "-f", str(text), "-c", str(LENGTH), "--json")
    return json.loads(out)["perplexity"]


def learn_tokens(text):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(text.split("\n"), trainers.BpeTrainer(vocab_size=TOKENS, initial_alphabet=alphabet,
                                                                show_progress=False))
    return t


def train(ids):
    torch.manual_seed(3)
    config = transformers.LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=8,
                                      num_key_value_heads=4, max_position_embeddings=512, vocab_size=TOKENS,
                                      tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(STEPS):
        at = torch.randint(0, len(ids) - LENGTH, (ROWS,)).tolist()
        batch = torch.stack([ids[i:i + LENGTH] for i in at])
        loss = model(batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * (1 - step / STEPS)
    print(f"trained: loss {loss.item():.3f}")
    return model


def main():
    ingot, bad = sys.argv[1], 0
    text = run(ingot, "stories", "-q", "--bytes", "1M", "--seed", "1")
    with tempfile.TemporaryDirectory() as tmp:
        folder, held_out = pathlib.Path(tmp) / "model", pathlib.Path(tmp) / "text"
        t = learn_tokens(text)
        train(torch.tensor(t.encode(text).ids)).save_pretrained(folder)
        t.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text("{}")
        held_out.write_text(run(ingot, "stories", "-q", "--bytes", "64K", "--seed", "2"))

        exact = str(folder / "f16.gguf")
        run(ingot, "convert", "-q", str(folder), exact, "--type", "F16")
        base = perplexity(ingot, exact, held_out)
        print(f"F16     {base:.4f}")
        for name, most in MOST.items():
            path = str(folder / (name + ".gguf"))
            run(ingot, "quantize", "-q", exact, path, name)
            one = perplexity(ingot, path, held_out)
            bad += not one / base <= most
            print(f"{name:7} {one:.4f}  {100 * (one / base - 1):+.3f} %{'' if one / base <= most else '  TOO MUCH'}")
    sys.exit(bad > 0)


main()
