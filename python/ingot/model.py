"""Model: a model file, opened for one text at a time.  LLM serves many."""
from __future__ import annotations

import ctypes
import os
import queue
import threading
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

from . import runtime
from ._library import ENUMS, callback, encoded, lib, struct
from .errors import error
from .sampling import SamplingParams
from .text import ChatTemplate, Message, Tokenizer, ids_array, text_bytes

if TYPE_CHECKING:
    import numpy

    from .session import Session

POOLINGS = {None: "DEFAULT", "mean": "MEAN", "cls": "CLS", "last": "LAST"}


class Adapter:
    """A model file in a context of its own: what Model and LLM have in common."""

    def __init__(self, path: str | os.PathLike[str], device: str | None = None,
                 pre_tokenizer: str | None = None, **context: Any) -> None:
        self.path = os.fspath(path)
        self.name = self.path
        self._adapter = ctypes.c_void_p()
        self._chat: ChatTemplate | None = None
        made = runtime.current()
        self._context = made.new_context(device, **context)
        options = struct("ig_model_options")(pre_tokenizer=encoded(pre_tokenizer))
        given = ctypes.byref(options) if pre_tokenizer else None
        try:
            with self._context.interruptible() as handle:
                lib.ig_adapter_open(handle, encoded(self.path), given, ctypes.byref(self._adapter))
        except BaseException:
            self._context.close()
            raise
        made.opened.add(self)
        runtime.trace(f"{self.path} runs on {self._context.device}")

    @property
    def architecture(self) -> str:
        """Such as "llama"."""
        return str(lib.ig_adapter_architecture(self._used()).decode())

    @property
    def parameters(self) -> int:
        """The number of weights."""
        return int(lib.ig_adapter_param_count(self._used()))

    @property
    def vocab_size(self) -> int:
        return int(lib.ig_adapter_vocab_size(self._used()))

    @property
    def context_length(self) -> int:
        """The longest context that the model was made for, in tokens."""
        return int(lib.ig_adapter_config(self._used()).ctx_len)

    @property
    def width(self) -> int:
        """The length of a hidden state, and so of an embedding."""
        return int(lib.ig_adapter_config(self._used()).d_model)

    @property
    def device(self) -> str:
        """The device that it runs on, such as "cpu:0"."""
        return self._context.device

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer._borrowed(lib.ig_adapter_tokenizer(self._used()), self)

    @property
    def chat_template(self) -> ChatTemplate:
        """The chat template of the model's file; FormatError: it has none."""
        if self._chat is None:
            self._chat = ChatTemplate(self.path)
        return self._chat

    @chat_template.setter
    def chat_template(self, template: ChatTemplate | str) -> None:
        """Another one: a ChatTemplate, a built-in one by name, or Jinja text."""
        if isinstance(template, str):
            jinja = "{" in template
            template = ChatTemplate(text=template) if jinja else ChatTemplate(name=template)
        self._chat = template

    def tokenize(self, text: str, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """The tokens of a text: see Tokenizer.encode()."""
        return self.tokenizer.encode(text, add_special, parse_special)

    def detokenize(self, ids: Iterable[int]) -> str:
        return self.tokenizer.decode(ids)

    def _used(self) -> Any:
        self._context.check()
        if not self._adapter:
            raise error("IG_ERR_STATE", f"{self.path}: it is closed")
        return self._adapter

    def switch_device(self, device: str) -> None:
        """Moves the model to another device."""
        self._context.switch_device(device)

    def report(self) -> dict[str, Any]:
        """The library's report of this model: docs/telemetry.md has the fields."""
        return self._context.report()

    def close(self) -> None:
        """Frees everything; using the model afterwards is a StateError."""
        self._destroy()
        self._context.close()

    def _destroy(self) -> None:
        if self._adapter and not self._context.forked:
            lib.ig_adapter_destroy(self._adapter)
            self._adapter = ctypes.c_void_p()


class Model(Adapter):
    """A .gguf or .oam file.

        model = ingot.Model("model.gguf", device="cpu")
        model.generate("Once upon a time", max_tokens=40, temperature=0)

    Threads may share a model; its calls run one after the other.
    """

    def __init__(self, path: str | os.PathLike[str], device: str | None = None, *,
                 pre_tokenizer: str | None = None, **session_options: Any) -> None:
        """Opens a model.

        device           as in init(), for this model; None: that of init()
        session_options  options of the Session that generate() uses: ctx_len, cache, ubatch
        """
        super().__init__(path, device, pre_tokenizer)
        self._sessions: list[Any] = []
        self._options = session_options
        self._own: Session | None = None
        self._hidden: Session | None = None

    def generate(self, prompt: str | Sequence[int], max_tokens: int | None = None,
                 temperature: float = 0.7, stop: str | Sequence[str] = (), seed: int | None = None,
                 **sampling: Any) -> str:
        """Continues a prompt, a text or token ids, and returns the new text.

        max_tokens None: until the text ends, or the context is full.  temperature 0: greedy.
        `sampling` has further fields of SamplingParams: top_p, top_k, min_p, ...
        """
        pieces: list[str] = []
        self._run(prompt, self._params(max_tokens, temperature, stop, seed, sampling), pieces.append)
        return "".join(pieces)

    def stream(self, prompt: str | Sequence[int], max_tokens: int | None = None,
               temperature: float = 0.7, stop: str | Sequence[str] = (), seed: int | None = None,
               **sampling: Any) -> Iterator[str]:
        """As generate(), but yields the text piece by piece.  Closing the iterator ends it."""
        params = self._params(max_tokens, temperature, stop, seed, sampling)
        return self._stream(prompt, params)

    def chat(self, messages: Sequence[Message], max_tokens: int | None = None,
             temperature: float = 0.7, stop: str | Sequence[str] = (), seed: int | None = None, *,
             tools: Sequence[Any] | None = None, variables: Mapping[str, Any] | None = None,
             **sampling: Any) -> str:
        """Answers a conversation, rendered by the model's chat template."""
        template = self.chat_template
        ids = template.tokens(self.tokenizer, messages, tools=tools, variables=variables)
        stops = [stop] if isinstance(stop, str) else list(stop)
        return self.generate(ids, max_tokens, temperature, with_turn_end(stops, template), seed,
                             **sampling)

    def session(self, **options: Any) -> Session:
        """A Session: a KV cache that the caller fills token by token."""
        from .session import Session
        return Session(self, **options)

    def logits(self, ids: Sequence[int]) -> "numpy.ndarray[Any, Any]":
        """The logits after each of these tokens, float32 [tokens, vocabulary]."""
        session = self._session()
        session.truncate(0)
        return session.feed_all(ids)

    def embed(self, texts: str | Sequence[str],
              pooling: str | None = None) -> "numpy.ndarray[Any, Any]":
        """Texts as unit vectors, float32 [texts, width]; of one text [width].

        pooling: "mean", "cls" or "last"; None: as the file says.
        """
        from ._numpy import numpy as np
        if pooling not in POOLINGS:
            raise error("IG_ERR_ARGUMENT", f"pooling {pooling!r}: expected mean, cls or last")
        many = [texts] if isinstance(texts, str) else list(texts)
        out = np.empty((len(many), self.width), np.float32)
        if self._hidden is None:
            self._hidden = self.session(hidden=True, **self._options)
        for row, text in zip(out, many):
            data = text_bytes(text)
            with self._context.interruptible():
                lib.ig_session_embed(self._hidden._used(), data, len(data),
                                     ENUMS["IG_POOL_" + POOLINGS[pooling]], row.ctypes.data, None)
        return out[0] if isinstance(texts, str) else out

    def close(self) -> None:
        """Frees everything; using the model afterwards is a StateError."""
        if self._context.forked:
            return
        with self._context.lock:
            for session in list(self._sessions):
                session.close()
            super().close()

    def __del__(self) -> None:
        if getattr(self, "_sessions", None) is not None:
            self.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    # ---- generating ----

    def _session(self) -> Session:
        self._used()
        if self._own is None:
            self._own = self.session(**self._options)
        return self._own

    @staticmethod
    def _params(max_tokens: int | None, temperature: float, stop: str | Sequence[str],
                seed: int | None, sampling: dict[str, Any]) -> SamplingParams:
        made = SamplingParams(max_tokens=max_tokens, temperature=temperature, stop=stop, seed=seed,
                              **sampling)
        if made.n != 1 or made.logprobs or made.prompt_logprobs or made.stop_token_ids:
            raise error("IG_ERR_UNSUPPORTED", "Model.generate: n, logprobs, prompt_logprobs and "
                        "stop_token_ids are options of ingot.LLM")
        return made

    def _run(self, prompt: str | Sequence[int], params: SamplingParams, emit: Any,
             stopped: Any = None) -> Any:
        """Calls emit(text) for each piece; what it raises ends generation and is raised here."""
        failures: list[BaseException] = []
        context = self._context

        def receive(user: Any, text: int, n_bytes: int) -> bool:
            try:
                emit(ctypes.string_at(text, n_bytes).decode("utf-8", "replace"))
                return not context.stopping
            except BaseException as problem:  # it would be lost in C
                failures.append(problem)
                return False

        made = struct("ig_generated")()
        session = self._session()
        sampling, kept = params.sampling(session.ctx_len)
        stops = params.stops
        array = (ctypes.c_char_p * len(stops))(*stops)
        options = struct("ig_generate_options")(
            max_tokens=params.max_tokens or 0, sampling=sampling, session=session._used(),
            ignore_eos=params.ignore_eos, stop=ctypes.addressof(array) if stops else None,
            n_stop=len(stops), emit=callback("ig_generate_options", "emit")(receive))
        keep = set_prompt(options, prompt)
        with context.interruptible():
            context.stop_asked = stopped
            try:
                session.truncate(0)
                lib.ig_adapter_generate(self._used(), ctypes.byref(options), ctypes.byref(made))
            finally:
                context.stop_asked = None
        del keep, kept
        if failures:
            raise failures[0]
        return made

    def _stream(self, prompt: str | Sequence[int], params: SamplingParams) -> Iterator[str]:
        """The library pushes text into a queue from a thread of its own; this pulls it."""
        pieces: queue.SimpleQueue[Any] = queue.SimpleQueue()
        closed = threading.Event()

        def work() -> None:
            try:
                self._run(prompt, params, pieces.put, closed.is_set)
                pieces.put(None)
            except BaseException as problem:
                pieces.put(problem)

        thread = threading.Thread(target=work, name="ingot-stream", daemon=True)
        thread.start()
        try:
            while (piece := pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            closed.set()
            thread.join()


def with_turn_end(stops: list[str], template: ChatTemplate) -> list[str]:
    """Stop strings and what ends a turn in this template."""
    end = template.turn_end
    return stops + [end] if end and end not in stops else stops


def set_prompt(options: Any, prompt: str | Sequence[int]) -> Any:
    """Puts a text or token ids into ig_generate_options; returns what these borrow."""
    if isinstance(prompt, str):
        data = text_bytes(prompt)
        options.prompt, options.prompt_bytes = data, len(data)
        return data
    array = ids_array(prompt, "prompt")
    options.prompt_tokens, options.n_prompt_tokens = ctypes.addressof(array), len(array)
    return array
