"""LLM: one model that serves many prompts, with vLLM's names.

It runs on the library's engine: a scheduler thread batches the sequences that run, and every prompt
joins and leaves between two steps (continuous batching).  Prompts that begin alike share their pages.
"""
from __future__ import annotations

import ctypes
import dataclasses
import itertools
import os
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence, Union

from . import runtime
from ._library import ENUMS, encoded, lib, struct, view_of
from .errors import BusyError, error, from_library
from .model import POOLINGS, Adapter, with_turn_end
from .sampling import SamplingParams
from .text import Message, Tokenizer, ids_array

if TYPE_CHECKING:
    import numpy

Prompt = Union[str, Sequence[int], Mapping[str, Any]]  # a text, ids, or {"prompt_token_ids": ids}
WAIT_MS = 100.0  # Python runs the handler of Ctrl-C between two waits
FINISH_REASONS = ("length", "stop", "abort")  # by ig_finish


@dataclasses.dataclass
class Logprob:
    """The log-probability of a token, before sampling options."""

    logprob: float
    rank: int | None = None  # 1: the most likely token; None: not among those asked for
    decoded_token: str = ""


@dataclasses.dataclass
class CompletionOutput:
    """One reply to a prompt."""

    index: int
    text: str = ""
    token_ids: list[int] = dataclasses.field(default_factory=list)
    cumulative_logprob: float | None = None
    logprobs: list[dict[int, Logprob]] | None = None
    finish_reason: str | None = None  # "stop", "length" or "abort"; None: it is not finished
    stop_reason: str | None = None  # the stop string that ended it


@dataclasses.dataclass
class RequestOutput:
    """A prompt with its replies."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool = False
    prompt_logprobs: list[float | None] | None = None
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class EmbeddingRequestOutput:
    """A prompt with its embedding."""

    request_id: str
    prompt_token_ids: list[int]
    embedding: "numpy.ndarray[Any, Any]"


class LLM(Adapter):
    """A model file for many prompts.

        llm = ingot.LLM("model.gguf")
        outputs = llm.generate(["One", "Two"], ingot.SamplingParams(max_tokens=20))
        print(outputs[0].outputs[0].text)

    Any thread may call it, and the prompts of all of them are batched together.
    """

    def __init__(self, model: str | os.PathLike[str], tokenizer: str | None = None,
                 dtype: str | None = None, tensor_parallel_size: int | None = None,
                 gpu_memory_utilization: float | None = None, max_model_len: int | None = None,
                 seed: int | None = 0, device: str | None = None, *, max_num_seqs: int | None = None,
                 cache: str = "f16", enable_prefix_caching: bool = True) -> None:
        """Opens a model and starts its engine.

        model                    a .gguf or .oam file
        tokenizer                None, since the file has its tokenizer
        dtype                    "auto": weights keep the type of their file
        tensor_parallel_size     1: a model runs on one device
        gpu_memory_utilization   the share of a GPU's memory that it may use; None: no limit.  No effect
                                 on a CPU
        max_model_len            context length; None: what the model allows
        seed                     of requests without one; None: another one each time
        device                   None: that of init()
        max_num_seqs             sequences that run at a time, 32
        cache                    type of the KV cache: "f32", "f16" or "q8_0"
        """
        if tokenizer is not None and os.fspath(tokenizer) != os.fspath(model):
            raise error("IG_ERR_UNSUPPORTED", f"LLM: tokenizer {tokenizer!r}: the model's file has its "
                        "tokenizer; expected None")
        options = dict(runtime.current().engine_options)
        given = {"dtype": dtype, "tensor_parallel_size": tensor_parallel_size,
                 "gpu_memory_utilization": gpu_memory_utilization}
        options.update((name, value) for name, value in given.items() if value is not None)
        runtime.check_engine_options(options)
        self._engine: Any = ctypes.c_void_p()
        super().__init__(model, device, memory_bytes=memory_limit(device, options))
        self.seed = seed
        self._request_ids = itertools.count()
        kind = encoded(cache)
        made = struct("ig_engine_options")(
            ctx_len=max_model_len or 0, n_sequences=max_num_seqs or 0, cache_type_k=kind,
            cache_type_v=kind, no_prefix_cache=not enable_prefix_caching)
        try:
            lib.ig_engine_create(self._adapter, ctypes.byref(made), ctypes.byref(self._engine))
        except BaseException:
            self.close()
            raise
        self._device = str(lib.ig_ctx_device(self._context.handle).decode())

    # ---- generating ----

    def generate(self, prompts: Prompt | Sequence[Prompt],
                 sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
                 use_tqdm: bool = False) -> list[RequestOutput]:
        """Continues prompts; the outputs are in the order of the prompts.

        A prompt is a text, a list of token ids, or {"prompt_token_ids": ids}.  `sampling_params` are
        those of all prompts, or one for each.  use_tqdm shows progress, if tqdm is installed.
        """
        many = as_prompts(prompts)
        requests = [self._request(prompt, params) for prompt, params in
                    zip(many, as_params(sampling_params, len(many)))]
        bar = progress_bar(len(requests)) if use_tqdm else None
        for output, *_ in self._events(requests):
            if bar is not None and output.finished:
                bar.update()
        if bar is not None:
            bar.close()
        return [request.output for request in requests]

    def stream(self, prompts: Prompt | Sequence[Prompt],
               sampling_params: SamplingParams | Sequence[SamplingParams] | None = None
               ) -> Iterator[tuple[int, int, str]]:
        """Yields (prompt, reply, text) as text is generated, of all prompts side by side.

        Closing the iterator ends the generation.
        """
        many = as_prompts(prompts)
        requests = [self._request(prompt, params) for prompt, params in
                    zip(many, as_params(sampling_params, len(many)))]
        places = {id(request.output): i for i, request in enumerate(requests)}
        for output, choice, text in self._events(requests):
            if text:
                yield places[id(output)], choice, text

    def chat(self, messages: Sequence[Message] | Sequence[Sequence[Message]],
             sampling_params: SamplingParams | None = None, use_tqdm: bool = False, *,
             tools: Sequence[Any] | None = None,
             chat_template_kwargs: Mapping[str, Any] | None = None) -> list[RequestOutput]:
        """Answers conversations, one or a list of them, by the model's chat template."""
        many: Sequence[Any] = messages
        if messages and isinstance(messages[0], Mapping):
            many = [messages]
        template, params = self.chat_template, sampling_params or SamplingParams()
        stops = [params.stop] if isinstance(params.stop, str) else list(params.stop or [])
        params = dataclasses.replace(params, stop=with_turn_end(stops, template))
        prompts = [template.tokens(self.tokenizer, one, tools=tools, variables=chat_template_kwargs)
                   for one in many]
        return self.generate(prompts, params, use_tqdm)

    # ---- embeddings ----

    def embed(self, prompts: Prompt | Sequence[Prompt],
              pooling: str | None = None) -> list[EmbeddingRequestOutput]:
        """Embeds prompts as unit vectors, float32 [width]."""
        if pooling not in POOLINGS:
            raise error("IG_ERR_ARGUMENT", f"pooling {pooling!r}: expected mean, cls or last")
        requests = [self._request(prompt, SamplingParams(), POOLINGS[pooling])
                    for prompt in as_prompts(prompts)]
        for _ in self._events(requests):
            pass
        return [EmbeddingRequestOutput(one.output.request_id, one.output.prompt_token_ids,
                                       one.embedding) for one in requests]

    def score(self, text_1: str | Sequence[str],
              text_2: str | Sequence[str]) -> "numpy.ndarray[Any, Any]":
        """Cosine similarities of embeddings: of one text with each other one, or of pairs."""
        from ._numpy import numpy as np
        left = [text_1] if isinstance(text_1, str) else list(text_1)
        right = [text_2] if isinstance(text_2, str) else list(text_2)
        if len(left) == 1:
            left *= len(right)
        if len(left) != len(right):
            raise error("IG_ERR_ARGUMENT", f"score: {len(left)} texts and {len(right)}: expected one "
                        "text, or as many")
        unique = list(dict.fromkeys(left + right))
        rows = dict(zip(unique, (one.embedding for one in self.embed(unique))))
        return np.array([float(rows[a] @ rows[b]) for a, b in zip(left, right)], np.float32)

    # ---- the rest ----

    @property
    def max_model_len(self) -> int:
        """The context length of a sequence."""
        return int(lib.ig_engine_ctx_len(self._running()))

    @property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer._borrowed(lib.ig_engine_tokenizer(self._running()), self)

    def get_tokenizer(self) -> Tokenizer:
        return self.tokenizer

    @property
    def device(self) -> str:
        """The device that it runs on, such as "cpu:0"."""
        return self._device

    def switch_device(self, device: str) -> None:
        """Moves the model to another device between two steps."""
        def move() -> None:
            lib.ig_switch_device(self._context.handle, encoded(device))
            self._device = str(lib.ig_ctx_device(self._context.handle).decode())
        self._between_steps(move)

    def report(self) -> dict[str, Any]:
        """The library's report of this model: docs/telemetry.md has the fields."""
        reports: list[dict[str, Any]] = []
        self._between_steps(lambda: reports.append(self._context.report()))
        return reports[0]

    def stats(self) -> dict[str, Any]:
        """Counters of the engine: steps, tokens, sequences, pages."""
        made = struct("ig_engine_stats")()
        lib.ig_engine_get_stats(self._running(), ctypes.byref(made))
        return {name: getattr(made, name) for name, kind in made._fields_
                if kind in (ctypes.c_int64, ctypes.c_uint64, ctypes.c_double)}

    def close(self) -> None:
        """Ends running requests and frees everything."""
        if self._context.forked:
            return
        if self._engine:
            lib.ig_engine_destroy(self._engine)
            self._engine = ctypes.c_void_p()
        super().close()

    def __del__(self) -> None:
        if getattr(self, "_context", None) is not None:
            self.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def _running(self) -> Any:
        self._used()
        if not self._engine:
            raise error("IG_ERR_STATE", f"{self.path}: it is closed")
        return self._engine

    def _between_steps(self, work: Any) -> None:
        """Runs work() on the scheduler thread, which owns the context."""
        failures: list[BaseException] = []

        def call(adapter: Any, user: Any) -> int:
            try:
                work()
            except BaseException as problem:  # it would be lost in C
                failures.append(problem)
            return 0

        function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(call)
        lib.ig_engine_call(self._running(), ctypes.cast(function, ctypes.c_void_p), None)
        if failures:
            raise failures[0]

    def _request(self, prompt: Prompt, params: SamplingParams, pooling: str | None = None) -> Request:
        if isinstance(prompt, Mapping):
            prompt = prompt.get("prompt_token_ids") or prompt.get("prompt") or ()
        text = prompt if isinstance(prompt, str) else None
        ids = self.tokenizer.encode_prompt(text) if text is not None else [int(one) for one in prompt]
        return Request(str(next(self._request_ids)), text, ids, params, pooling)

    def _events(self, requests: list[Request]) -> Iterator[tuple[RequestOutput, int, str]]:
        """Submits requests and yields (output, choice, text) for each of their events.

        The queue of the engine is shared and finite, so a request may have to wait for one of ours.
        """
        waiting, active = list(reversed(requests)), list(requests[:0])
        try:
            while waiting or active:
                while waiting:
                    try:
                        waiting[-1].submit(self)
                    except BusyError:
                        if not active:
                            raise
                        break
                    active.append(waiting.pop())
                busy = False
                for request in active:
                    for choice, text in request.poll(self):
                        busy = True
                        yield request.output, choice, text
                active = [request for request in active if not request.output.finished]
                if active and not busy:
                    lib.ig_job_wait(active[0].job, WAIT_MS if len(active) == 1 else WAIT_MS / 10)
        finally:
            for request in requests:
                request.release()


class Request:
    """A prompt on its way: the job of the engine, and the output that its events fill."""

    def __init__(self, number: str, prompt: str | None, ids: list[int], params: SamplingParams,
                 pooling: str | None) -> None:
        self.params, self.pooling = params, pooling
        self.job = ctypes.c_void_p()
        self.embedding: Any = None
        outputs = [] if pooling else [CompletionOutput(i) for i in range(params.n)]
        for output in outputs:
            if params.logprobs is not None:
                output.logprobs, output.cumulative_logprob = [], 0.0
        self.output = RequestOutput(number, prompt, ids, outputs)
        if params.prompt_logprobs:
            self.output.prompt_logprobs = []

    def submit(self, llm: LLM) -> None:
        params, ids = self.params, ids_array(self.output.prompt_token_ids, "prompt")
        stops, ends = params.stops, ids_array(params.stop_token_ids or (), "stop_token_ids")
        array = (ctypes.c_char_p * len(stops))(*stops)
        sampling, biases = params.sampling(llm.max_model_len, llm.seed)
        request = struct("ig_request")(
            tokens=ctypes.addressof(ids), n_tokens=len(ids), max_tokens=params.max_tokens or 0,
            min_tokens=params.min_tokens, n_choices=params.n, sampling=sampling,
            stop=ctypes.addressof(array) if stops else None, n_stop=len(stops),
            stop_tokens=ctypes.addressof(ends) if len(ends) else None, n_stop_tokens=len(ends),
            ignore_eos=params.ignore_eos, logprobs=params.logprobs is not None,
            top_logprobs=params.logprobs or 0, prompt_logprobs=params.prompt_logprobs)
        if self.pooling:
            request = struct("ig_request")(
                tokens=ctypes.addressof(ids), n_tokens=len(ids), embed=True,
                pooling=ENUMS["IG_POOL_" + self.pooling])
        lib.ig_engine_submit(llm._running(), ctypes.byref(request), ctypes.byref(self.job))
        del biases

    def poll(self, llm: LLM) -> Iterator[tuple[int, str]]:
        """The events that are queued, as (choice, new text)."""
        event = struct("ig_job_event")()
        while not self.output.finished and lib.ig_job_poll(self.job, ctypes.byref(event)):
            yield event.choice, self._take(event, llm)

    def _take(self, event: Any, llm: LLM) -> str:
        kind = event.type
        if kind == ENUMS["IG_JOB_EVENT_TOKEN"] or kind == ENUMS["IG_JOB_EVENT_FINISH"]:
            return self._take_text(event, llm)
        if kind == ENUMS["IG_JOB_EVENT_PROMPT"] and self.output.prompt_logprobs is not None:
            value = event.logprob
            self.output.prompt_logprobs.append(None if value != value else value)
        elif kind == ENUMS["IG_JOB_EVENT_EMBEDDING"]:
            from ._numpy import numpy as np
            row = (ctypes.c_float * event.d_model).from_address(event.embedding)
            self.embedding = np.array(row, np.float32)
        elif kind == ENUMS["IG_JOB_EVENT_DONE"]:
            self._end(event)
        return ""

    def _take_text(self, event: Any, llm: LLM) -> str:
        reply = self.output.outputs[event.choice]
        text = view_of(event.text).decode("utf-8", "replace")
        reply.text += text
        if event.type == ENUMS["IG_JOB_EVENT_FINISH"]:
            reply.finish_reason = FINISH_REASONS[event.finish]
            reply.stop_reason = event.stop.decode() if event.stop else None
            return text
        reply.token_ids.append(event.token)
        if reply.logprobs is not None:
            reply.cumulative_logprob = (reply.cumulative_logprob or 0.0) + event.logprob
            reply.logprobs.append(self._logprobs(event, llm))
        return text

    def _logprobs(self, event: Any, llm: LLM) -> dict[int, Logprob]:
        """The token with its log-probability, and the most likely ones."""
        tokenizer = llm.tokenizer
        rows = {event.token: Logprob(event.logprob)}
        top = ctypes.cast(event.top, ctypes.POINTER(struct("ig_logprob")))
        for i in range(event.n_top):
            rows[top[i].token] = Logprob(top[i].logprob, i + 1)
        for token, row in rows.items():
            row.decoded_token = tokenizer.piece(token).decode("utf-8", "replace")
        return rows

    def _end(self, event: Any) -> None:
        self.output.finished = True
        if event.status != 0:
            raise from_library(event.status, (event.error or b"").decode(errors="replace"),
                               "ig_engine_submit")
        stats = lib.ig_job_get_stats(self.job)
        self.output.metrics = {name: getattr(stats, name) for name, _ in stats._fields_}

    def release(self) -> None:
        """Cancels the job if it has not ended."""
        if self.job:
            lib.ig_job_release(self.job)
            self.job = ctypes.c_void_p()


def as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Any]:
    """One prompt, or several, as a list."""
    if isinstance(prompts, (str, Mapping)):
        return [prompts]
    many: list[Any] = list(prompts)
    return [many] if many and isinstance(many[0], int) else many


def as_params(given: SamplingParams | Sequence[SamplingParams] | None,
              count: int) -> list[SamplingParams]:
    if given is None or isinstance(given, SamplingParams):
        return [given or SamplingParams()] * count
    if len(given) != count:
        raise error("IG_ERR_ARGUMENT",
                    f"generate: {count} prompts and {len(given)} sampling_params")
    return list(given)


def memory_limit(device: str | None, options: Mapping[str, Any]) -> int:
    """The share of a GPU's memory as bytes; 0: no limit."""
    share = options.get("gpu_memory_utilization")
    requested = device or runtime.current().requested or os.environ.get("INGOT_DEVICE") or ""
    if share is None or not requested.startswith(("gpu", "vulkan")):
        return 0
    sizes = [one.memory_bytes for one in runtime.devices()
             if one.available and one.name.startswith("vulkan")]
    return int(share * sizes[0]) if sizes else 0


def progress_bar(total: int) -> Any:
    """tqdm's bar; None: it is not installed."""
    try:
        from tqdm import tqdm  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        return None
    return tqdm(total=total, desc="prompts")
