#!/usr/bin/env python3
"""check_tokenizers.py INGOT: `ingot tokenize` against tokenizers and sentencepiece.

Trains small vocabularies, byte-level BPE behind published patterns, WordPiece and SentencePiece's
BPE, writes each as a GGUF file, and compares the ids of awkward texts.

Run with the interpreter of tests/peers/venv transformers; tools/test --e2e does.
"""
import io
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import gguf
import sentencepiece
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

CASELESS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT4 = CASELESS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+%s|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER
    + r"*%s|%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
WORDS = pre_tokenizers.ByteLevel(add_prefix_space=False)  # with GPT-2's pattern
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def split(*patterns):
    return [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns] + [BYTES]


# Name: how its makers split, and whether words that are pieces stay whole.
PRES = {
    "gpt-2": ([WORDS], False),
    "starcoder": ([pre_tokenizers.Digits(individual_digits=True), WORDS], False),
    "llama-bpe": (split(GPT4 % r"\p{N}{1,3}"), True),
    "qwen2": (split(GPT4 % r"\p{N}"), False),
    "gpt-4o": (split(GPT4O % (CASELESS + "?", CASELESS + "?", r"\p{N}{1,3}")), False),
    "tekken": (split(GPT4O % ("", "", r"\p{N}")), True),
    "deepseek-coder": (
        split("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"),
        False,
    ),
    "falcon": (
        [pre_tokenizers.Punctuation("contiguous"), WORDS]
        + [pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")],
        False,
    ),
}

TEXTS = [
    "", " ", "   ", "\n\n", "\t x", "Hello, world!", "I'M DON'T you'LL We've he's 'Tis it'ſ",
    "1234567890 12 1,234.56 0x1F ½ Ⅷ ٣٤٥ １２３", "line\r\nline2\r\n\r\nx", "a\u00a0b \u2003d\u3000e",
    "x\u180ey \u180e z", "naïve café e\u0301 o\u0308\u0301 ñ", "日本語のテキスト。中文，标点。한국어 텍스트",
    "😀👍🏽👨‍👩‍👧 🇩🇪", "def f(x):\n    return x**2  # y\n\n\nclass A:\n\tpass\n", "ß İ ΑΒΓ ςσ ДЖ ǅ ʰ ªº",
    "हिन्दी ไทย עברית العربية ۔،।", "…‘quotes’“x”—–", "a_b__c -- ++ <=> ~~~ ``` |||", "\u200b\u200d\ufeff",
    "A" * 50, "aA" * 20, "1" * 40, " " * 40 + "x", "ﬁ Å K \u1ebf\u0323", "𝐇𝐞𝐥𝐥𝐨 𐐀𐐨", "x/\n/y!\r\n?", "漢1漢 2",
]  # fmt: skip
POOLS = [
    "abcdefghij", "ABCDEFGHIJ", "0123456789", " \t\n\r\u00a0\u3000", "'\".,;:!?-_()<>/\\|@#$%^&*+=~`",
    "äöüßéñçøåÀÉÎ", "漢字かなカナ한국어", "😀👍🏽\u200d\u0301\u0308", "абвгАБВГ", "ابت१२३٣", "'s't're've'm'll'd'S'RE",
]  # fmt: skip


def mixtures(count, seed):
    r = random.Random(seed)
    for _ in range(count):
        text = ""
        while len(text) < r.randint(1, 60):
            pool = r.choice(POOLS)
            text += "".join(r.choice(pool) for _ in range(r.choice([1, 1, 2, 3, 5, 9]))) + " " * r.randint(0, 1)
        yield text


class Check:
    def __init__(self, ingot, folder):
        self.ingot, self.path, self.bad = ingot, folder / "vocab.gguf", 0

    def write(self, arch, model, tokens, kinds, more):
        w = gguf.GGUFWriter(self.path, arch)
        w.add_tokenizer_model(model)
        w.add_token_list(tokens)
        w.add_token_types(kinds)
        more(w)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.close()

    def compare(self, name, encode, texts):
        differ = 0
        for text in texts:
            command = [self.ingot, "tokenize", "-m", self.path, "--ids"]
            got = subprocess.run(command, input=text.encode(), capture_output=True, check=True)
            want = encode(text)
            if [int(i) for i in got.stdout.split()] != want:
                differ += 1
                print(f"  {text!r}: {got.stdout.decode().strip()}, not {want}")
        print(f"{name:32} {len(texts):5} texts, {differ} differ")
        self.bad += differ


def check_bpe(check, texts, corpus):
    for name, (parts, whole) in PRES.items():
        t = Tokenizer(models.BPE(ignore_merges=whole))
        t.pre_tokenizer = pre_tokenizers.Sequence(parts)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        t.train_from_iterator(
            corpus, trainers.BpeTrainer(vocab_size=1500, initial_alphabet=alphabet, show_progress=False)
        )
        model = json.loads(t.to_str())["model"]
        tokens = sorted(model["vocab"], key=model["vocab"].get)
        merges = [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]

        def more(w):
            w.add_tokenizer_pre(name)
            w.add_token_merges(merges)

        check.write("llama", "gpt2", tokens, [1] * len(tokens), more)
        check.compare(f"BPE {name}", lambda text: t.encode(text).ids, texts)


def check_wordpiece(check, texts, corpus):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.train_from_iterator(
        corpus, trainers.WordPieceTrainer(vocab_size=1500, special_tokens=specials, show_progress=False)
    )
    tokens = sorted(t.get_vocab(), key=t.get_vocab().get)
    marked = [p if p in specials else p[2:] if p.startswith("##") else "▁" + p for p in tokens]
    kinds = [3 if p in specials else 1 for p in tokens]
    for form, list_ in (("▁", marked), ("##", tokens)):
        check.write("bert", "bert", list_, kinds, lambda w: w.add_unk_token_id(1))
        check.compare(f"WordPiece {form}", lambda text: t.encode(text).ids, texts)


def check_sentencepiece(check, texts, corpus):
    for trims in (False, True):
        made = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus), model_writer=made, model_type="bpe", vocab_size=1500,
            byte_fallback=True, normalization_rule_name="identity", character_coverage=0.99,
            remove_extra_whitespaces=trims, allow_whitespace_only_pieces=not trims, minloglevel=2,
        )  # fmt: skip
        sp = sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())
        ids = range(sp.vocab_size())

        def kind(i):
            rows = ((sp.is_unknown, 2), (sp.is_control, 3), (sp.is_byte, 6), (sp.is_unused, 5))
            return next((number for test, number in rows if test(i)), 1)

        def more(w):
            w.add_token_scores([sp.get_score(i) for i in ids])
            w.add_bool("tokenizer.ggml.remove_extra_whitespaces", trims)

        check.write("llama", "llama", [sp.id_to_piece(i) for i in ids], [kind(i) for i in ids], more)
        check.compare(f"SentencePiece, trims {trims}", sp.encode, texts)


def main():
    texts = TEXTS + list(mixtures(200, 1))
    corpus = TEXTS * 3 + list(mixtures(2000, 2))
    with tempfile.TemporaryDirectory() as folder:
        check = Check(sys.argv[1], pathlib.Path(folder))
        check_bpe(check, texts, corpus)
        check_wordpiece(check, texts, corpus)
        check_sentencepiece(check, texts, corpus)
    sys.exit(check.bad > 0)


main()
