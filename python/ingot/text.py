"""Text to tokens and back, and conversations to prompts."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Iterable, Mapping, Sequence

from ._library import ENUMS, encoded, lib, struct, view_of
from .errors import error

Message = Mapping[str, Any]  # {"role": "user", "content": "Hi"}


def ids_array(ids: Iterable[int], what: str = "tokens") -> Any:
    """Token ids as an array of int32."""
    numbers = [int(one) for one in ids]
    for number in numbers:
        if not 0 <= number < 1 << 31:
            raise error("IG_ERR_ARGUMENT", f"{what}: id {number} is out of range")
    return (ctypes.c_int32 * len(numbers))(*numbers)


def text_bytes(text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"expected str, got {type(text).__name__}")
    return text.encode("utf-8", "surrogateescape")


class Tokenizer:
    """The tokenizer of a model: immutable, so any number of threads may use it."""

    def __init__(self, path: str) -> None:
        """Reads the tokenizer of a .gguf or .oam file, a model folder, or a tokenizer.json."""
        self._handle: Any = ctypes.c_void_p()
        self._owner: Any = None
        self._release = lib.ig_tokenizer_destroy
        lib.ig_tokenizer_open(encoded(path), None, ctypes.byref(self._handle))

    @classmethod
    def _borrowed(cls, handle: int, owner: Any) -> Tokenizer:
        """The tokenizer that an adapter lends, which `owner` keeps."""
        made = cls.__new__(cls)
        made._handle, made._owner, made._release = ctypes.c_void_p(handle), owner, None
        return made

    def __del__(self) -> None:
        if getattr(self, "_release", None) and self._handle:
            self._release(self._handle)

    @property
    def name(self) -> str:
        """The algorithm: "llama", "gpt2", "bert", "byte", "char" or "bpe"."""
        return str(lib.ig_tokenizer_name(self._handle).decode())

    @property
    def vocab_size(self) -> int:
        return int(lib.ig_tokenizer_vocab_size(self._handle))

    def special(self, name: str) -> int | None:
        """The id of "bos", "eos", "eot", "unknown", "padding" or "mask"; None: there is none."""
        number = ENUMS.get(f"IG_SPECIAL_{name.upper()}")
        if number is None or name == "count":
            raise error("IG_ERR_ARGUMENT", f"special token {name!r}: expected bos, eos, eot, unknown, "
                        "padding or mask")
        found = int(lib.ig_tokenizer_special(self._handle, number))
        return found if found >= 0 else None

    def is_end(self, token: int) -> bool:
        """Whether a token ends generation."""
        return bool(lib.ig_tokenizer_is_eog(self._handle, token))

    def encode(self, text: str, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """The tokens of a text.

        add_special    add BOS and EOS where the model's file says so
        parse_special  names of control tokens in the text are these tokens; not for untrusted text
        """
        flags = ENUMS["IG_TOKENIZE_ADD_SPECIAL"] * add_special
        flags |= ENUMS["IG_TOKENIZE_PARSE_SPECIAL"] * parse_special
        return self._tokens(text, flags)

    def encode_prompt(self, text: str) -> list[int]:
        """The tokens of a prompt, as generate() makes them."""
        return self._tokens(text, ENUMS["IG_TOKENIZE_PROMPT"])

    def _tokens(self, text: str, flags: int) -> list[int]:
        data = text_bytes(text)
        tokens = struct("ig_tokens")()
        lib.ig_tokenize(self._handle, data, len(data), flags, ctypes.byref(tokens))
        return taken(tokens)

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """The text of tokens; `special` shows control tokens as their names."""
        array = ids_array(ids)
        flags = ENUMS["IG_DETOKENIZE_START"] | (ENUMS["IG_DETOKENIZE_SPECIAL"] if special else 0)
        room = lib.ig_detokenize(self._handle, array, len(array), flags, None, 0)
        buffer = ctypes.create_string_buffer(room)
        lib.ig_detokenize(self._handle, array, len(array), flags, buffer, room)
        return buffer.raw[:room].decode("utf-8", "replace")

    def piece(self, token: int) -> bytes:
        """The bytes of one token."""
        return view_of(lib.ig_tokenizer_piece(self._handle, token))


def taken(tokens: Any) -> list[int]:
    """The ids of an ig_tokens, which is freed."""
    try:
        array = ctypes.cast(tokens.at, ctypes.POINTER(ctypes.c_int32))
        return array[:tokens.count] if tokens.count else []
    finally:
        lib.ig_tokens_deinit(ctypes.byref(tokens))


class ChatTemplate:
    """A chat template, from a model's file, by name, or as Jinja text."""

    def __init__(self, path: str | None = None, name: str | None = None,
                 text: str | None = None) -> None:
        self._handle = ctypes.c_void_p()
        out = ctypes.byref(self._handle)
        if name is not None:
            lib.ig_chat_template_builtin(encoded(name), None, out)
        elif text is not None:
            data = text_bytes(text)
            lib.ig_chat_template_parse(data, len(data), None, out)
        else:
            lib.ig_chat_template_open(encoded(path), None, out)

    def __del__(self) -> None:
        if self._handle:
            lib.ig_chat_template_destroy(self._handle)

    @property
    def turn_end(self) -> str | None:
        """What ends a turn of the assistant, as a stop string for models without a token for it."""
        found = lib.ig_chat_template_turn_end(self._handle)
        return found.decode() if found else None

    def tokens(self, tokenizer: Tokenizer, messages: Sequence[Message], **options: Any) -> list[int]:
        """The prompt of a conversation, up to where the answer begins."""
        array, kept = messages_array(messages)
        tokens = struct("ig_tokens")()
        lib.ig_chat_tokenize(self._handle, tokenizer._handle, array, len(array),
                             ctypes.byref(chat_options(**options)), ctypes.byref(tokens))
        del kept
        return taken(tokens)

    def render(self, tokenizer: Tokenizer, messages: Sequence[Message], **options: Any) -> str:
        """The same as text, for people to read."""
        array, kept = messages_array(messages)
        out = struct("ig_string")()
        try:
            lib.ig_chat_render(self._handle, tokenizer._handle, array, len(array),
                               ctypes.byref(chat_options(**options)), ctypes.byref(out))
            return view_of(out).decode("utf-8", "replace")
        finally:
            del kept
            lib.ig_string_deinit(ctypes.byref(out))


def chat_options(tools: Sequence[Any] | None = None, variables: Mapping[str, Any] | None = None,
                 no_reply: bool = False) -> Any:
    return struct("ig_chat_options")(tools=json.dumps(list(tools)).encode() if tools else None,
                                     variables=json.dumps(dict(variables)).encode() if variables else None,
                                     no_reply=no_reply)


def messages_array(messages: Sequence[Message]) -> tuple[Any, list[bytes]]:
    """Messages as structs, and the bytes that they borrow."""
    if not messages or isinstance(messages, (str, Mapping)):
        raise error("IG_ERR_ARGUMENT", "chat: expected a list of messages such as "
                    '{"role": "user", "content": "Hi"}')
    kept, rows = [], []
    for message in messages:
        if "role" not in message:
            raise error("IG_ERR_ARGUMENT", f"chat: a message has no role: {dict(message)}")
        content = message.get("content")
        role, data = text_bytes(message["role"]), None if content is None else text_bytes(content)
        extra = {key: value for key, value in message.items() if key not in ("role", "content")}
        more = json.dumps(extra).encode() if extra else None
        kept += [role, data or b"", more or b""]
        rows.append(struct("ig_chat_message")(role=role, content=data, n_bytes=len(data or b""),
                                              extra=more))
    return (struct("ig_chat_message") * len(rows))(*rows), kept
