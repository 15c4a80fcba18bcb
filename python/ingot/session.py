"""Session: a KV cache of several sequences, fed with tokens."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Sequence

from ._library import encoded, lib, struct
from .errors import error
from .text import ids_array

if TYPE_CHECKING:
    import numpy

    from .model import Model


class Session:
    """Runs tokens of several sequences and keeps their KV cache.

        session = model.session(ctx_len=512)
        logits = session.feed(model.tokenize("Once upon"))      # of the last token
        session.feed([int(logits.argmax())])

    Results do not depend on how a text is split into calls, nor on the other sequences.
    """

    def __init__(self, model: Model, ctx_len: int = 0, sequences: int = 1, cache: str = "f16",
                 ubatch: int = 0, hidden: bool = False) -> None:
        """Opens a session.

        ctx_len    tokens that a sequence may have; 0: what the model allows
        cache      type of the KV cache: "f32", "f16" or "q8_0"
        ubatch     tokens of a forward pass; 0: the device's default
        hidden     feed() returns hidden states instead of logits
        """
        self.model = model
        self._handle = ctypes.c_void_p()
        self._width = model.width if hidden else model.vocab_size
        kind = encoded(cache)
        options = struct("ig_session_options")(
            ctx_len=ctx_len, n_sequences=sequences, ubatch=ubatch, cache_type_k=kind,
            cache_type_v=kind, hidden=hidden)
        with model._context:
            lib.ig_session_create(model._used(), ctypes.byref(options), ctypes.byref(self._handle))
        model._sessions.append(self)

    def _used(self) -> ctypes.c_void_p:
        self.model._used()
        if not self._handle:
            raise error("IG_ERR_STATE", "session: it is closed")
        return self._handle

    @property
    def ctx_len(self) -> int:
        """Tokens that a sequence may have."""
        return int(lib.ig_session_ctx_len(self._used()))

    @property
    def sequences(self) -> int:
        return int(lib.ig_session_sequences(self._used()))

    @property
    def cache_bytes(self) -> int:
        """The size of the KV cache."""
        return int(lib.ig_session_cache_bytes(self._used()))

    @property
    def length(self) -> int:
        """Tokens in sequence 0; length_of() has those of the others."""
        return self.length_of(0)

    def length_of(self, sequence: int) -> int:
        return int(lib.ig_session_length(self._used(), sequence))

    def tokens(self, sequence: int = 0) -> list[int]:
        """The tokens that a sequence consists of."""
        with self.model._context:
            count = self.length_of(sequence)
            address = lib.ig_session_tokens(self._used(), sequence)
            return list((ctypes.c_int32 * count).from_address(address)) if count else []

    def feed(self, ids: Sequence[int], sequence: int = 0) -> "numpy.ndarray[Any, Any]":
        """Appends tokens; returns the logits after the last one, float32 [vocabulary]."""
        from ._numpy import numpy as np
        array = ids_array(ids)
        out = np.empty(self._width, np.float32)
        with self.model._context.interruptible():
            lib.ig_session_feed(self._used(), sequence, array, len(array), out.ctypes.data)
        return out

    def feed_all(self, ids: Sequence[int], sequence: int = 0) -> "numpy.ndarray[Any, Any]":
        """Appends tokens; returns the logits after each of them, float32 [tokens, vocabulary]."""
        return self.run([(sequence, token) for token in ids])

    def run(self, tokens: Sequence[tuple[int, int]]) -> "numpy.ndarray[Any, Any]":
        """Appends (sequence, token) pairs of any sequences in one batch; returns a row for each."""
        from ._numpy import numpy as np
        out = np.empty((len(tokens), self._width), np.float32)
        rows = (struct("ig_session_token") * len(tokens))()
        for i, (sequence, token) in enumerate(tokens):
            rows[i].sequence, rows[i].id = sequence, token
            rows[i].logits = out.ctypes.data + i * out.strides[0]
        with self.model._context.interruptible():
            lib.ig_session_run(self._used(), rows, len(tokens))
        return out

    def truncate(self, length: int, sequence: int = 0) -> None:
        """Removes all but the first tokens."""
        with self.model._context:
            lib.ig_session_truncate(self._used(), sequence, length)

    def fork(self, from_sequence: int, to_sequence: int) -> None:
        """Makes a sequence a copy of another one; the pages that are full are shared."""
        with self.model._context:
            lib.ig_session_fork(self._used(), from_sequence, to_sequence)

    def save(self, path: str, sequence: int = 0) -> None:
        """Writes a sequence with its KV cache to a file."""
        with self.model._context:
            lib.ig_session_save(self._used(), sequence, encoded(path))

    def load(self, path: str, sequence: int = 0) -> None:
        """Reads a sequence that a session of the same model has saved."""
        with self.model._context:
            lib.ig_session_load(self._used(), sequence, encoded(path))

    def close(self) -> None:
        """Frees the KV cache."""
        if self.model._context.forked:
            return
        with self.model._context.lock:
            if self._handle:
                lib.ig_session_destroy(self._handle)
                self._handle = ctypes.c_void_p()
                self.model._sessions.remove(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
