#!/usr/bin/env python3
"""The ABI from outside: another language, the shared library, nothing else.

    python3 tests/e2e/test_ctypes.py PATH/libingot.so

Creates a model, trains it for some steps, generates, and reads an error's words.  Then what a
server needs: a synthetic model's file, its tokenizer, a chat template and a session over it.
"""
import ctypes as c
import os
import sys
import tempfile

lib = c.CDLL(sys.argv[1])
lib.ig_error_text.restype = c.c_char_p
lib.ig_version.restype = c.c_char_p
lib.ig_adapter_architecture.restype = c.c_char_p
lib.ig_adapter_param_count.restype = c.c_int64

for name in "ig_adapter_tokenizer ig_session_tokens ig_gguf_find".split():
    getattr(lib, name).restype = c.c_void_p
for name in "ig_tokenizer_name ig_chat_template_name ig_chat_template_turn_end".split():
    getattr(lib, name).restype = c.c_char_p
lib.ig_adapter_vocab_size.restype = lib.ig_session_length.restype = c.c_int64
lib.ig_session_ctx_len.restype = c.c_int64
lib.ig_detokenize.restype = c.c_size_t
lib.ig_tokenizer_is_eog.restype = c.c_bool

Emit = c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_void_p, c.c_size_t)


class Config(c.Structure):
    _fields_ = [(n, c.c_int64) for n in "d_model n_layers n_heads n_kv_heads d_ff ctx_len".split()]
    _fields_ += [("tokenizer", c.c_char_p), ("sample", c.c_void_p), ("sample_bytes", c.c_size_t)]


class Train(c.Structure):
    _fields_ = [("lr", c.c_double), ("weight_decay", c.c_double), ("clip_norm", c.c_double),
                ("accumulate", c.c_bool), ("n_accumulated", c.c_int)]


class Sampling(c.Structure):
    _fields_ = [("temperature", c.c_double), ("top_k", c.c_int), ("top_p", c.c_double),
                ("min_p", c.c_double), ("repeat_penalty", c.c_double), ("repeat_last_n", c.c_int),
                ("seed", c.c_uint64), ("stream", c.c_uint64), ("typical_p", c.c_double),
                ("frequency_penalty", c.c_double), ("presence_penalty", c.c_double),
                ("mirostat", c.c_int), ("mirostat_tau", c.c_double), ("mirostat_eta", c.c_double),
                ("biases", c.c_void_p), ("n_biases", c.c_size_t)]


class Generate(c.Structure):
    _fields_ = [("prompt", c.c_char_p), ("prompt_bytes", c.c_size_t),
                ("prompt_tokens", c.c_void_p), ("n_prompt_tokens", c.c_size_t),
                ("no_parse_special", c.c_bool), ("ignore_eos", c.c_bool), ("max_tokens", c.c_int64),
                ("sampling", Sampling), ("stop", c.c_void_p), ("n_stop", c.c_size_t),
                ("session", c.c_void_p), ("sequence", c.c_int32),
                ("draft_ngram", c.c_int64), ("draft_max", c.c_int64),
                ("emit", Emit), ("token", c.c_void_p), ("user", c.c_void_p)]


class Generated(c.Structure):
    _fields_ = [("n_prompt_tokens", c.c_int64), ("n_generated", c.c_int64),
                ("n_drafted", c.c_int64),
                ("n_accepted", c.c_int64), ("finish", c.c_int), ("prefill_ms", c.c_double),
                ("decode_ms", c.c_double), ("first_token_ms", c.c_double),
                ("tokenize_ms", c.c_double), ("detokenize_ms", c.c_double),
                ("prefill_plan_ms", c.c_double), ("decode_plan_ms", c.c_double)]


class StringView(c.Structure):
    _fields_ = [("bytes", c.c_void_p), ("n_bytes", c.c_size_t)]


class Tokens(c.Structure):
    _fields_ = [("allocator", c.c_void_p), ("at", c.POINTER(c.c_int32)), ("count", c.c_size_t),
                ("room", c.c_size_t)]


class String(c.Structure):
    _fields_ = [("allocator", c.c_void_p), ("bytes", c.c_char_p), ("n_bytes", c.c_size_t),
                ("room", c.c_size_t)]


class Message(c.Structure):
    _fields_ = [("role", c.c_char_p), ("content", c.c_char_p), ("n_bytes", c.c_size_t),
                ("extra", c.c_char_p)]


class ChatOptions(c.Structure):
    _fields_ = [("tools", c.c_char_p), ("variables", c.c_char_p), ("no_reply", c.c_bool),
                ("now", c.c_int64)]


class SessionOptions(c.Structure):
    _fields_ = [("ctx_len", c.c_int64), ("n_sequences", c.c_int64), ("kv_bytes", c.c_uint64),
                ("ubatch", c.c_int64),
                ("cache_type_k", c.c_char_p), ("cache_type_v", c.c_char_p), ("hidden", c.c_bool)]


def message(role, content, extra=None):
    return Message(role, content, len(content), extra)


def check(status):
    if status != 0:
        sys.exit(f"status {status}: {lib.ig_error_text().decode()}")


def use_tokenizer(path):
    """Text to tokens and back; the tokenizer is the caller's."""
    tokenizer, tokens = c.c_void_p(), Tokens()
    check(lib.ig_tokenizer_open(path, None, c.byref(tokenizer)))
    assert lib.ig_tokenizer_name(tokenizer) == b"llama"
    assert lib.ig_tokenizer_vocab_size(tokenizer) == 320
    text = b"the cat"
    check(lib.ig_tokenize(tokenizer, text, c.c_size_t(len(text)), 0, c.byref(tokens)))
    back = c.create_string_buffer(64)
    n = lib.ig_detokenize(tokenizer, tokens.at, c.c_size_t(tokens.count), 2, back, c.c_size_t(64))
    assert back.raw[:n] == text, back.raw[:n]
    assert lib.ig_tokenizer_is_eog(tokenizer, lib.ig_tokenizer_special(tokenizer, 1))
    lib.ig_tokens_deinit(c.byref(tokens))
    assert lib.ig_tokenizer_open(path + b".none", None, c.byref(c.c_void_p())) != 0
    assert b".none" in lib.ig_error_text()
    return tokenizer


def use_templates(tokenizer):
    """A built-in template as tokens, and one with tools as text; returns the tokens."""
    chat, tokens, text = c.c_void_p(), Tokens(), String()
    messages = (Message * 2)(message(b"system", b"Be brief."), message(b"user", b"Hi"))
    check(lib.ig_chat_template_builtin(b"chatml", None, c.byref(chat)))
    assert lib.ig_chat_template_turn_end(chat) == b"<|im_end|>"
    check(lib.ig_chat_tokenize(chat, tokenizer, messages, c.c_size_t(2), None, c.byref(tokens)))
    ids = tokens.at[:tokens.count]
    lib.ig_tokens_deinit(c.byref(tokens))
    lib.ig_chat_template_destroy(chat)

    jinja = b"{{ tools[0].name }}:{% for m in messages %}{{ m.content }};{% endfor %}{{ mood }}"
    check(lib.ig_chat_template_parse(jinja, c.c_size_t(len(jinja)), None, c.byref(chat)))
    options = ChatOptions(tools=b'[{"name": "sky"}]', variables=b'{"mood": "!"}')
    check(lib.ig_chat_render(chat, tokenizer, messages, c.c_size_t(2), c.byref(options),
                             c.byref(text)))
    assert text.bytes == b"sky:Be brief.;Hi;!", text.bytes
    lib.ig_string_deinit(c.byref(text))
    options.tools = b"{"
    assert lib.ig_chat_render(chat, tokenizer, messages, c.c_size_t(2), c.byref(options),
                              c.byref(text)) != 0
    assert b"tools is not JSON" in lib.ig_error_text(), lib.ig_error_text()
    lib.ig_chat_template_destroy(chat)
    return ids


def use_session(path, ids):
    """The prompt as two sequences, one token by token: equal logits."""
    ctx, model, session = c.c_void_p(), c.c_void_p(), c.c_void_p()
    check(lib.ig_ctx_create(None, c.byref(ctx)))
    check(lib.ig_adapter_open(ctx, path, None, c.byref(model)))
    options = SessionOptions(n_sequences=2)
    check(lib.ig_session_create(model, c.byref(options), c.byref(session)))
    vocabulary = lib.ig_adapter_vocab_size(model)
    logits = [(c.c_float * vocabulary)() for _ in range(2)]
    prompt = (c.c_int32 * len(ids))(*ids)
    check(lib.ig_session_feed(session, 0, prompt, c.c_int64(len(ids)), logits[0]))
    for i in range(len(ids)):
        check(lib.ig_session_feed(session, 1, (c.c_int32 * 1)(ids[i]), c.c_int64(1), logits[1]))
    assert bytes(logits[0]) == bytes(logits[1])
    assert lib.ig_session_length(session, 1) == len(ids) < lib.ig_session_ctx_len(session)
    lib.ig_session_destroy(session)
    lib.ig_adapter_destroy(model)
    lib.ig_ctx_destroy(ctx)


def use_files():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "llama.gguf").encode()
        check(lib.ig_synthetic_model_write(b"llama", 0, path))
        tokenizer = use_tokenizer(path)
        use_session(path, use_templates(tokenizer))
        lib.ig_tokenizer_destroy(tokenizer)


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
        options = Train(lr=3e-3, clip_norm=1)
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
    assert out.n_generated == 24 and len(said) == 24, (out.n_generated, said)

    other = c.c_void_p()
    assert lib.ig_adapter_create(ctx, b"parrot", None, c.byref(other)) != 0
    assert b"unknown architecture parrot" in lib.ig_error_text()
    lib.ig_adapter_destroy(model)
    lib.ig_ctx_destroy(ctx)
    use_files()
    print(f"ingot {lib.ig_version().decode()}: loss {losses[0]:.3f} -> {losses[-1]:.3f}, "
          f"says {said.decode()!r}")


main()
