"""vLLM's engine core in this process, with agents that play against it: each round's prompt is the whole context so far
with the tool's result behind it, so that prefix caching, on as by default, can hit what is left of it."""

import heapq
import importlib
import importlib.util
import itertools
import os
import time
from collections.abc import Callable
from typing import Any

KV_FLOAT_BYTES = 4
BLOCK = 32
"""Its default of 128 would leave much of so small a memory empty, and find only half of a short context again; this is
the least that its CPU kernels are made for."""


class Engine:
    """Use once: one scheduling, one program."""

    def __init__(self) -> None:
        os.environ.update(importlib.import_module("vllm_peer").ENVIRONMENT)
        self._core: Any = None
        self._scheduled = self._preempted = 0

    def start(self) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise ModuleNotFoundError("No module named 'vllm'")

    def open(self, model: str, scheduling: str, kv_tokens: int, threads: int) -> dict[str, Any]:
        """Load and compile. `scheduling`: fcfs or priority; `kv_tokens`: what its KV holds, in whole blocks."""
        os.environ["OMP_NUM_THREADS"] = str(threads)
        from vllm import __version__
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.core import EngineCore
        from vllm.v1.executor.abstract import Executor

        blocks = -(-kv_tokens // BLOCK)
        config = EngineArgs(
            model=model,
            skip_tokenizer_init=True,
            dtype="float32",
            block_size=BLOCK,
            max_model_len=-1,
            # Its null block is one more.
            kv_cache_memory_bytes=self._kv_bytes(model, (blocks + 1) * BLOCK),
            scheduling_policy=scheduling,
            disable_log_stats=True,
            use_tqdm_on_load=False,
            seed=0,
        ).create_engine_config()
        self._core = EngineCore(config, Executor.get_class(config), log_stats=False)
        self._count()
        cache = config.cache_config
        return {
            "version": str(__version__),
            "kv_tokens": (cache.num_gpu_blocks - 1) * cache.block_size,
            "max_num_seqs": config.scheduler_config.max_num_seqs,
            "chunk": config.scheduler_config.max_num_batched_tokens,
            "prefix_caching": bool(cache.enable_prefix_caching),
        }

    def play(self, agents: list[dict[str, Any]]) -> dict[str, Any]:
        """Each takes its turns once; times in seconds from the first submit. Before it, a little of the same, which is
        forgotten."""
        few = [{**agent, "turns": agent["turns"][:1]} for agent in agents[:4]]
        _Play(self._core, few).run()
        self._core.reset_prefix_cache()
        self._scheduled = self._preempted = 0
        play = _Play(self._core, agents)
        play.run()
        # The last token of a round is not computed in it: of n outputs n - 1 are scheduled.
        prefilled = self._scheduled - (play.generated - play.rounds)
        return {
            "makespan_s": play.ended - play.began,
            "foreground_ttft_s": play.ttft[0],
            "background_ttft_s": play.ttft[1],
            "generated": play.generated,
            "prefilled": prefilled,
            "preemptions": self._preempted,
        }

    def _count(self) -> None:
        """Keep account of what each step is made of."""
        scheduler = self._core.scheduler
        schedule: Callable[..., Any] = scheduler.schedule

        def counted(*args: Any, **kwargs: Any) -> Any:
            output = schedule(*args, **kwargs)
            self._scheduled += output.total_num_scheduled_tokens
            self._preempted += len(output.preempted_req_ids or ())
            return output

        scheduler.schedule = counted

    def _kv_bytes(self, model: str, tokens: int) -> int:
        from transformers import AutoConfig

        shape = AutoConfig.from_pretrained(model)
        head = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
        return int(2 * shape.num_hidden_layers * shape.num_key_value_heads * head * KV_FLOAT_BYTES * tokens)


class _Agent:
    def __init__(self, script: dict[str, Any]) -> None:
        self.priority = int(script["priority"])
        self.turns = script["turns"]
        self.turn = self.round = 0
        self.context: list[int] = []
        self.got = 0
        self.asked_at = 0.0

    @property
    def now(self) -> dict[str, Any]:
        """The round that it is at."""
        one: dict[str, Any] = self.turns[self.turn]["rounds"][self.round]
        return one


class _Play:
    """`ttft`: of foreground (0) and background (1), from the boundary at which a round was taken to its first token."""

    def __init__(self, core: Any, agents: list[dict[str, Any]]) -> None:
        self._core = core
        self._due: list[tuple[float, int, _Agent]] = []
        self._order = itertools.count()
        self._asked: dict[str, _Agent] = {}
        self.ttft: tuple[list[float], list[float]] = ([], [])
        self.generated = self.rounds = 0
        self.began = self.ended = time.perf_counter()
        for script in agents:
            agent = _Agent(script)
            self._later(script["arrival_s"], agent)

    def run(self) -> None:
        while self._due or self._asked:
            now = time.perf_counter()
            while self._due and self._due[0][0] <= now:
                self._ask(heapq.heappop(self._due)[2], now)
            if self._asked:
                self._step()
            else:
                time.sleep(max(0.0, self._due[0][0] - time.perf_counter()))

    def _later(self, seconds: float, agent: _Agent) -> None:
        heapq.heappush(self._due, (time.perf_counter() + seconds, next(self._order), agent))

    def _ask(self, agent: _Agent, now: float) -> None:
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        one = agent.now
        agent.context = (agent.context if agent.round else []) + one["tokens"]
        agent.got, agent.asked_at = 0, now
        params = SamplingParams(temperature=0.0, max_tokens=one["output"], ignore_eos=True, detokenize=False)
        name = f"round-{id(self)}-{next(self._order)}"
        hasher = self._core.request_block_hasher
        request = Request(
            name, list(agent.context), params, None, block_hasher=hasher, priority=agent.priority, arrival_time=now
        )
        self._core.add_request(request)
        self._asked[name] = agent
        self.rounds += 1

    def _step(self) -> None:
        outputs, _ = self._core.step_fn()
        now = time.perf_counter()
        for batch in outputs.values():
            for one in batch.outputs:
                self._got(one.request_id, one.new_token_ids, now)

    def _got(self, name: str, tokens: list[int], now: float) -> None:
        agent = self._asked.get(name)
        if agent is None or not tokens:
            return
        if not agent.got:
            self.ttft[agent.priority].append(now - agent.asked_at)
        agent.got += len(tokens)
        agent.context += tokens
        self.generated += len(tokens)
        if agent.got >= agent.now["output"]:
            del self._asked[name]
            self.ended = now
            self._next(agent)

    def _next(self, agent: _Agent) -> None:
        waits = agent.now["wait_s"]
        agent.round += 1
        if agent.round == len(agent.turns[agent.turn]["rounds"]):
            agent.turn, agent.round = agent.turn + 1, 0
            if agent.turn == len(agent.turns):
                return
            waits = agent.turns[agent.turn]["think_s"]
        self._later(waits, agent)
