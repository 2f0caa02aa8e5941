"""llama.cpp through llama-cpp-python's low-level API: one context for each KV precision, flash attention, each turn a
stream of KV of its own."""

import ctypes
import time
from dataclasses import dataclass, field
from typing import Any

KV_TYPES = {"f16": "GGML_TYPE_F16", "q8_0": "GGML_TYPE_Q8_0"}
STREAM_ROUNDING = 256
"""llama.cpp rounds a stream's tokens up to this."""


@dataclass(slots=True)
class Context:
    """`tokens`: the held turns' last tokens, `position` theirs, which is that of all of them."""

    native: Any
    memory: Any
    tokens: list[int] = field(default_factory=list)
    position: int = 0


class Engine:
    def __init__(self) -> None:
        self._lib: Any = None
        self._quiet: Any = None
        self._contexts: dict[str, Context] = {}
        self._vocab = 0
        self._step_tokens = 0

    def start(self) -> None:
        import llama_cpp

        self._lib = llama_cpp
        self._quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)

    def open(self, model: str, turns: int, tokens: int, kv: list[str], threads: int) -> str:
        """`turns` and `tokens`: the most that is held at once; the version."""
        lib = self._lib
        lib.llama_log_set(self._quiet, ctypes.c_void_p(0))
        lib.llama_backend_init()
        native = lib.llama_model_load_from_file(model.encode(), lib.llama_model_default_params())
        if not native:
            raise ValueError(f"{model} cannot be loaded")
        self._vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(native))
        for name in kv:
            self._contexts[name] = self._context(native, name, turns, tokens, threads)
        return str(lib.__version__)

    def hold(self, kv: str, prompts: list[list[int]]) -> None:
        """Prefill the first prompt and copy its KV to a stream for each other one: the same bytes, not shared. Reading
        them takes as long as reading others."""
        context = self._contexts[kv]
        self._clear(context)
        first = self._run_prompts(context, prompts[:1])
        for stream in range(1, len(prompts)):
            self._lib.llama_memory_seq_cp(context.memory, 0, stream, -1, -1)
        context.tokens = first * len(prompts)
        context.position = len(prompts[0])

    def decode(self, kv: str, warm: int, steps: int) -> float:
        context = self._contexts[kv]
        for _ in range(warm):
            self._step(context)
        started = time.perf_counter()
        for _ in range(steps):
            self._step(context)
        return time.perf_counter() - started

    def release(self, kv: str) -> None:
        self._clear(self._contexts[kv])

    def prefill(self, kv: str, prompts: list[list[int]]) -> float:
        context = self._contexts[kv]
        self._clear(context)
        started = time.perf_counter()
        self._run_prompts(context, prompts)
        seconds = time.perf_counter() - started
        self._clear(context)
        return seconds

    def _context(self, model: Any, kv: str, turns: int, tokens: int, threads: int) -> Context:
        lib = self._lib
        params = lib.llama_context_default_params()
        params.n_seq_max = turns
        params.n_ctx = turns * -(-tokens // STREAM_ROUNDING) * STREAM_ROUNDING
        params.n_threads = params.n_threads_batch = threads
        params.type_k = params.type_v = getattr(lib, KV_TYPES[kv])
        params.flash_attn_type = lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
        # A stream for each turn is its faster way by far: unified, each turn's attention passes over all turns' KV.
        params.kv_unified = False
        params.no_perf = True
        native = lib.llama_init_from_model(model, params)
        if not native:
            raise ValueError(f"no context of {turns} turns x {tokens} tokens at {kv} can be had")
        self._step_tokens = params.n_batch
        return Context(native, lib.llama_get_memory(native))

    def _clear(self, context: Context) -> None:
        self._lib.llama_memory_clear(context.memory, False)
        context.tokens, context.position = [], 0

    def _run_prompts(self, context: Context, prompts: list[list[int]]) -> list[int]:
        """Each prompt's next token."""
        rows = [
            (token, position, stream, position == len(prompt) - 1)
            for stream, prompt in enumerate(prompts)
            for position, token in enumerate(prompt)
        ]
        chosen: list[int] = []
        for first in range(0, len(rows), self._step_tokens):
            chosen += self._decode(context, rows[first : first + self._step_tokens])
        return chosen

    def _step(self, context: Context) -> None:
        rows = [(token, context.position, stream, True) for stream, token in enumerate(context.tokens)]
        context.tokens = self._decode(context, rows)
        context.position += 1

    def _decode(self, context: Context, rows: list[tuple[int, int, int, bool]]) -> list[int]:
        """The likeliest next token of each row that wants one; rows are token, position, stream, wanted."""
        import numpy as np

        batch = self._lib.llama_batch_init(len(rows), 0, 1)
        try:
            batch.n_tokens = len(rows)
            for row, (token, position, stream, wanted) in enumerate(rows):
                batch.token[row], batch.pos[row], batch.logits[row] = token, position, wanted
                batch.n_seq_id[row], batch.seq_id[row][0] = 1, stream
            status = self._lib.llama_decode(context.native, batch)
        finally:
            self._lib.llama_batch_free(batch)
        if status:
            raise RuntimeError(f"llama_decode answered {status}")
        count = sum(wanted for *_, wanted in rows)
        if not count:
            return []
        logits = np.ctypeslib.as_array(self._lib.llama_get_logits(context.native), shape=(count * self._vocab,))
        return [int(token) for token in logits.reshape(count, self._vocab).argmax(axis=1)]
