"""SamplingParams, with vLLM's names, and the library's struct that it becomes."""
from __future__ import annotations

import ctypes
import dataclasses
import random
from typing import Any, Mapping, Sequence

from ._library import struct
from .errors import error


@dataclasses.dataclass
class SamplingParams:
    """How to sample; temperature and max_tokens have other defaults than in vLLM."""

    n: int = 1  # replies to each prompt
    temperature: float = 0.7  # 0: greedy
    top_p: float = 1.0  # 1: off
    top_k: int = -1  # -1 or 0: all
    min_p: float = 0.0  # 0: off
    max_tokens: int | None = 256  # None: until the context is full
    stop: str | Sequence[str] | None = None
    stop_token_ids: Sequence[int] | None = None
    seed: int | None = None  # None: another one each time
    repetition_penalty: float = 1.0  # 1: off
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logprobs: int | None = None  # the N most likely tokens beside each token, up to 20
    prompt_logprobs: bool = False  # log-probabilities of the prompt's tokens
    ignore_eos: bool = False
    min_tokens: int = 0
    logit_bias: Mapping[int, float] | None = None

    def __post_init__(self) -> None:
        if self.temperature < 0:
            raise error("IG_ERR_ARGUMENT", f"temperature {self.temperature}: expected 0 or more")
        if not 0 < self.top_p <= 1:
            raise error("IG_ERR_ARGUMENT", f"top_p {self.top_p}: expected a share above 0 and up to 1")
        if not 0 <= self.min_p <= 1:
            raise error("IG_ERR_ARGUMENT", f"min_p {self.min_p}: expected 0 to 1")
        if self.n < 1:
            raise error("IG_ERR_ARGUMENT", f"n {self.n}: expected 1 or more")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise error("IG_ERR_ARGUMENT", f"max_tokens {self.max_tokens}: expected 1 or more")

    @property
    def stops(self) -> list[bytes]:
        """The stop strings, in UTF-8."""
        given = [self.stop] if isinstance(self.stop, str) else list(self.stop or [])
        return [text.encode() for text in given]

    def sampling(self, context: int, seed: int | None = None) -> tuple[Any, Any]:
        """ig_sampling, where 0 means a default and not "off", and the biases that it borrows.

        Penalties look back at `context` tokens.
        """
        biases = struct("ig_logit_bias") * len(self.logit_bias or {})
        rows = biases(*[struct("ig_logit_bias")(int(token), float(bias))
                        for token, bias in (self.logit_bias or {}).items()])
        chosen = self.seed if self.seed is not None else seed
        made = struct("ig_sampling")(
            temperature=self.temperature or -1, top_k=self.top_k if self.top_k > 0 else -1,
            top_p=self.top_p if self.top_p < 1 else -1, min_p=self.min_p or -1,
            repeat_penalty=self.repetition_penalty, repeat_last_n=max(int(context), 1),
            seed=(random.getrandbits(63) if chosen is None else chosen) & (1 << 64) - 1,
            frequency_penalty=self.frequency_penalty, presence_penalty=self.presence_penalty,
            biases=ctypes.addressof(rows) if rows else None, n_biases=len(rows))
        return made, rows
