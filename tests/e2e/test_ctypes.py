#!/usr/bin/env python3
"""The ABI from outside: another language, the shared library, nothing else.

    python3 tests/e2e/test_ctypes.py PATH/libingot.so

Creates a model, trains it for some steps, generates, and reads an error's words.
"""
import ctypes as c
import sys

lib = c.CDLL(sys.argv[1])
lib.ig_error_text.restype = c.c_char_p
lib.ig_version.restype = c.c_char_p
lib.ig_adapter_architecture.restype = c.c_char_p
lib.ig_adapter_param_count.restype = c.c_int64

Emit = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_void_p, c.c_size_t)


class Config(c.Structure):
    _fields_ = [(n, c.c_int64) for n in "d_model n_layers n_heads n_kv_heads d_ff ctx_len".split()]
    _fields_ += [("tokenizer", c.c_char_p), ("sample", c.c_void_p), ("sample_bytes", c.c_size_t)]


class Train(c.Structure):
    _fields_ = [("rate", c.c_double), ("weight_decay", c.c_double), ("clip", c.c_double),
                ("accumulate", c.c_bool), ("accumulated", c.c_int)]


class Sampling(c.Structure):
    _fields_ = [("temperature", c.c_double), ("top_k", c.c_int), ("top_p", c.c_double),
                ("min_p", c.c_double), ("repeat_penalty", c.c_double), ("repeat_last", c.c_int),
                ("seed", c.c_uint64), ("typical_p", c.c_double),
                ("frequency_penalty", c.c_double), ("presence_penalty", c.c_double),
                ("mirostat", c.c_int), ("mirostat_tau", c.c_double), ("mirostat_eta", c.c_double),
                ("biases", c.c_void_p), ("n_biases", c.c_size_t)]


class Generate(c.Structure):
    _fields_ = [("prompt", c.c_char_p), ("prompt_bytes", c.c_size_t),
                ("tokens", c.c_void_p), ("n_tokens", c.c_size_t),
                ("plain", c.c_bool), ("ignore_end", c.c_bool), ("max_tokens", c.c_int64),
                ("sampling", Sampling), ("stop", c.c_void_p), ("n_stop", c.c_size_t),
                ("session", c.c_void_p), ("sequence", c.c_int32),
                ("guess_ngram", c.c_int64), ("guess_most", c.c_int64),
                ("emit", Emit), ("token", c.c_void_p), ("user", c.c_void_p)]


class Generated(c.Structure):
    _fields_ = [("n_prompt", c.c_int64), ("n_tokens", c.c_int64), ("n_guessed", c.c_int64),
                ("n_guessed_right", c.c_int64), ("finish", c.c_int), ("prefill_ms", c.c_double),
                ("decode_ms", c.c_double), ("first_token_ms", c.c_double),
                ("tokenize_ms", c.c_double), ("detokenize_ms", c.c_double),
                ("prefill_plan_ms", c.c_double), ("decode_plan_ms", c.c_double)]


def check(status):
    if status != 0:
        sys.exit(f"status {status}: {lib.ig_error_text().decode()}")


def main():
    text = b"a rose is a rose is a rose. "
    ctx, model = c.c_void_p(), c.c_void_p()
    check(lib.ig_ctx_create(None, c.byref(ctx)))
    config = Config(d_model=32, n_layers=2, n_heads=2, ctx_len=96)
    check(lib.ig_adapter_create(ctx, b"OaLlm", c.byref(config), c.byref(model)))
    assert lib.ig_adapter_architecture(model) == b"llm"
    assert lib.ig_adapter_param_count(model) > 10000

    batch, rows, losses = 4, 32, []
    for step in range(60):
        ids = [text[(step + 5 * b + i) % len(text)] for b in range(batch) for i in range(rows + 1)]
        loss = c.c_double()
        options = Train(rate=3e-3, clip=1)
        check(lib.ig_adapter_train(model, (c.c_int32 * len(ids))(*ids), c.c_int64(batch),
                                   c.c_int64(rows), c.byref(options), c.byref(loss)))
        losses.append(loss.value)
    assert losses[-1] < 0.5 * losses[0], losses

    said = bytearray()
    emit = Emit(lambda _, piece, n: said.extend(c.string_at(piece, n)) or True)
    options = Generate(prompt=b"a rose", prompt_bytes=6, max_tokens=24, emit=emit)
    options.sampling.temperature = -1
    out = Generated()
    check(lib.ig_adapter_generate(model, c.byref(options), c.byref(out)))
    assert out.n_tokens == 24 and len(said) == 24, (out.n_tokens, said)

    other = c.c_void_p()
    assert lib.ig_adapter_create(ctx, b"parrot", None, c.byref(other)) != 0
    assert b"there is no architecture parrot" in lib.ig_error_text()
    lib.ig_adapter_destroy(model)
    lib.ig_ctx_destroy(ctx)
    print(f"ingot {lib.ig_version().decode()}: loss {losses[0]:.3f} -> {losses[-1]:.3f}, "
          f"says {said.decode()!r}")


main()
