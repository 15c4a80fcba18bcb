#!/usr/bin/env python3
"""tokenizer.py BUILD [MEGABYTES] [MERGES]: BPE training, Ingot beside the PyPI package `tokenizers`.

BUILD is a build folder with libingot_all.a.  Both train alternately on the same text, words
of made-up syllables with the frequencies of a natural language. Prints medians as one JSON line,
with the ratio peer / Ingot and how many merges agree. Equally frequent pairs may be merged in
another order, since the peer numbers bytes differently.
"""
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

ROUNDS = 3
ENCODE_BYTES = 1_000_000  # as in tokenizer.c


def make_text(size):
    rng = random.Random(1)
    syllables = [c + v + e for c in "b d f g k l m n p r s t v w st tr".split()
                 for v in "a e i o u ai ou".split() for e in ["", "n", "r", "s", "l"]]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(60000)]
    shares = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(words))))
    out, length = [], 0
    while length < size:
        sentence = rng.choices(words, cum_weights=shares, k=rng.randint(4, 18))
        sentence[0] = sentence[0].capitalize()
        if rng.random() < 0.1:
            sentence.append(str(rng.randint(0, 3000)))
        text = " ".join(sentence) + rng.choice([". ", ". ", "! ", "? ", ".\n", ", it's so.\n\n"])
        out.append(text)
        length += len(text)
    return "".join(out)[:size]


def byte_of():
    """Maps the peer's byte characters (GPT-2 style) back to bytes."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return {**{chr(b): b for b in kept}, **{chr(256 + i): b for i, b in enumerate(others)}}


def run_peer(text, merges):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=256 + merges, min_frequency=2, show_progress=False,
                                  initial_alphabet=alphabet)
    wall, cpu = time.monotonic(), time.process_time()
    tokenizer.train_from_iterator([text], trainer)
    wall, cpu = time.monotonic() - wall, time.process_time() - cpu
    begin = time.process_time()
    ids = len(tokenizer.encode(text[:ENCODE_BYTES]).ids)
    encode = time.process_time() - begin
    table = byte_of()
    found = [tuple(bytes(table[c] for c in side) for side in pair)
             for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
    return {"learn_s": wall, "learn_cpu_s": cpu, "encode_cpu_s": encode, "ids": ids}, found


def run_ours(program, path, merges, out):
    run = subprocess.run([program, path, str(merges), out], check=True, capture_output=True)
    pieces, found = [bytes([b]) for b in range(256)], []
    with open(out) as file:
        for left, right in json.load(file)["merges"]:
            found.append((pieces[left], pieces[right]))
            pieces.append(pieces[left] + pieces[right])
    return json.loads(run.stdout), found


def main():
    build = sys.argv[1]
    size = int(float(sys.argv[2]) * 1e6) if len(sys.argv) > 2 else 10_000_000
    merges = int(sys.argv[3]) if len(sys.argv) > 3 else 8192
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory() as folder:
        program, path = f"{folder}/tokenizer", f"{folder}/text"
        subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", f"-I{here}/include", f"-I{here}/src", "-o",
                        program, f"{here}/bench/tokenizer.c", f"{build}/libingot_all.a", "-ljansson",
                        "-lxxhash", "-lm", "-ldl", "-lpthread"], check=True)
        text = make_text(size)
        with open(path, "w") as file:
            file.write(text)
        ours, peers = [], []
        for _ in range(ROUNDS):
            row, our_merges = run_ours(program, path, merges, f"{folder}/json")
            ours.append(row)
            row, peer_merges = run_peer(text, merges)
            peers.append(row)

    same = 0
    while same < min(len(our_merges), len(peer_merges)) and our_merges[same] == peer_merges[same]:
        same += 1
    result = {"bytes": size, "merges": len(our_merges), "peer_merges": len(peer_merges),
              "first_equal": same, "common": len(set(our_merges) & set(peer_merges))}
    for key in ours[0]:
        mine, other = (statistics.median(r[key] for r in rows) for rows in (ours, peers))
        result[key] = {"ingot": round(mine, 4), "tokenizers": round(other, 4),
                       "ratio": round(other / mine, 2)}
    print(json.dumps(result))


main()
