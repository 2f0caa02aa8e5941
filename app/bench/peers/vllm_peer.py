"""vLLM's engine core in this process, as it is by default: float32 on a CPU, torch.compile, prefix caching."""

import importlib.util
import os
import time
from typing import Any

ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # What this keeps, 0.32 cannot load again and compiles anew at each start; without it the kernels are kept.
    "VLLM_USE_AOT_COMPILE": "0",
}
KV_FLOAT_BYTES = 4
MAX_TOKENS = 1_000_000
MAX_TURNS = 16
"""One number whatever is measured: the compiled kernels are kept for it."""


class Engine:
    """One precision of KV, fp32."""

    def __init__(self) -> None:
        os.environ.update(ENVIRONMENT)
        self._core: Any = None
        self._held: list[str] = []
        self._numbered = 0

    def start(self) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise ModuleNotFoundError("No module named 'vllm'")

    def open(self, model: str, turns: int, tokens: int, kv: list[str], threads: int) -> str:
        """Load, compile, and run a little; the version. `turns` and `tokens`: the most that is held at once."""
        os.environ["OMP_NUM_THREADS"] = str(threads)
        from vllm import __version__
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.executor.abstract import Executor

        config = EngineArgs(
            model=model,
            skip_tokenizer_init=True,
            dtype="float32",
            max_model_len=-1,
            max_num_seqs=MAX_TURNS,
            kv_cache_memory_bytes=self._kv_bytes(model, turns, tokens),
            disable_log_stats=True,
            use_tqdm_on_load=False,
            seed=0,
        ).create_engine_config()
        self._core = EngineCore(config, Executor.get_class(config), log_stats=False)
        self.hold("fp32", [[number] * 40 for number in range(2, 2 + turns)])
        self.decode("fp32", 1, 3)
        self.release("fp32")
        return str(__version__)

    def hold(self, kv: str, prompts: list[list[int]]) -> None:
        """Prefill the prompts, until each has a token."""
        self._held = self._add(prompts, MAX_TOKENS)
        self._until_each_has_one(self._held)

    def decode(self, kv: str, warm: int, steps: int) -> float:
        for _ in range(warm):
            self._whole_step()
        started = time.perf_counter()
        for _ in range(steps):
            self._whole_step()
        return time.perf_counter() - started

    def release(self, kv: str) -> None:
        self._core.abort_requests(self._held)
        self._held = []

    def prefill(self, kv: str, prompts: list[list[int]]) -> float:
        started = time.perf_counter()
        self._until_each_has_one(self._add(prompts, 1))
        return time.perf_counter() - started

    def _kv_bytes(self, model: str, turns: int, tokens: int) -> int:
        from transformers import AutoConfig

        shape = AutoConfig.from_pretrained(model)
        head = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
        per_token = 2 * shape.num_hidden_layers * shape.num_key_value_heads * head * KV_FLOAT_BYTES
        # One block of vLLM's default 128 tokens more for each turn, and its null block.
        return int(per_token * (turns * (tokens + 128) + 128))

    def _add(self, prompts: list[list[int]], max_tokens: int) -> list[str]:
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        params = SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True, detokenize=False)
        names = []
        for prompt in prompts:
            self._numbered += 1
            names.append(f"turn-{self._numbered}")
            hasher = self._core.request_block_hasher
            self._core.add_request(Request(names[-1], prompt, params, None, block_hasher=hasher))
        return names

    def _step(self) -> dict[str, int]:
        """Tokens that each request got."""
        outputs, _ = self._core.step_fn()
        return {one.request_id: len(one.new_token_ids) for batch in outputs.values() for one in batch.outputs}

    def _whole_step(self) -> None:
        got = self._step()
        if sorted(got) != sorted(self._held) or set(got.values()) != {1}:
            raise RuntimeError(f"a step gave {sum(got.values())} tokens to {len(self._held)} turns")

    def _until_each_has_one(self, names: list[str]) -> None:
        waiting = set(names)
        while waiting:
            waiting -= {name for name, count in self._step().items() if count}
