"""The verbs over vLLM's own engine core, stepped in this thread. Each turn is one vLLM request that never stops by
itself; extending a turn hands its blocks to a new request. vLLM samples, chunks and preempts; the plan is its bound."""

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from vllm.sampling_params import SamplingParams
from vllm.v1.engine.core import EngineCore
from vllm.v1.request import Request

from engine.backends.base import Converted, Copied, DeviceMemory, Holding, Landed, Moved, StepPlan, StepResult, TurnStep
from engine.backends.limits import check_keep, check_new, check_probe, check_tokens, validated
from engine.backends.vllm.hostpool import HostPool
from engine.backends.vllm.probe import probe_copy
from engine.backends.vllm.scheduler import ParkingScheduler
from engine.backends.vllm.turns import OpenTurn
from engine.errors import IntegrityError, Refused, UnknownTurn
from engine.geometry import KVDtype, KVGeometry, blocks_for
from engine.turn import Sampling, TurnId

log = logging.getLogger(__name__)


class VllmBackend:
    """`Backend` over an `EngineCore` whose scheduler is a `ParkingScheduler` and whose workers are `ParkedCopies`.

    `host_asked` is what was asked for the host pool, `host_bytes` what it may have, `room` tells how much larger it
    may get; `runtime_bytes` is what the engine takes beside weights and KV, where the device cannot tell.
    """

    name = "vllm"

    def __init__(
        self,
        core: EngineCore,
        geometry: KVGeometry,
        kv_dtype: KVDtype,
        vocab_size: int,
        host_bytes: int,
        host_asked: int,
        weights_bytes: int,
        runtime_bytes: int,
        room: Callable[[], int],
    ) -> None:
        self._core = core
        self._scheduler: ParkingScheduler = core.scheduler
        self._turns: dict[TurnId, OpenTurn] = {}
        self._room = room
        self._weights, self._runtime = weights_bytes, runtime_bytes
        self._sizes: dict[str, int] = self._sum(self._call("parkdeck_sizes"))
        self._pool = HostPool(self._call, self._sizes["block"], host_bytes, host_asked)
        self.geometry = geometry
        self.kv_dtype = kv_dtype
        self.block_size: int = self._scheduler.block_size
        # One token stays free: at its own limit vLLM ends a request by itself.
        self.max_context: int = self._scheduler.max_model_len - 1
        self.vocab_size = vocab_size

    @property
    def kv_dtypes(self) -> frozenset[KVDtype]:
        return frozenset({self.kv_dtype})

    # -- turns --------------------------------------------------------------------------------------------------------

    def open(self, turn: TurnId, tokens: Sequence[int], sampling: Sampling) -> None:
        """Raises Refused for an id that is open, no tokens, a token outside the vocabulary, too many tokens for the
        model's context, or sampling values out of range."""
        check_new(turn, self._turns, tokens)
        check_tokens(tokens, len(tokens), self.max_context, self.vocab_size)
        params = self._params(validated(sampling))
        state = OpenTurn(turn, self._request(turn, 0, tokens, params), params)
        self._scheduler.know(state.request)
        self._turns[turn] = state

    def extend(self, turn: TurnId, keep: int, tokens: Sequence[int]) -> None:
        """Raises Refused, with nothing changed, for a `keep` outside the turn, bad tokens, or nothing left at all."""
        state = self._turn(turn)
        before = state.request
        total = keep + len(tokens)
        check_keep(turn, before.num_tokens, keep, len(tokens))
        check_tokens(tokens, total, self.max_context, self.vocab_size)
        kept = min(before.num_computed_tokens, keep, total - 1)
        request = self._request(turn, state.requests, [*before.all_token_ids[:keep], *tokens], state.params)
        self._scheduler.hand_over(before.request_id, request, kept)
        state.request = request
        state.requests += 1
        self._pool.trim(turn, blocks_for(kept, self.block_size))

    def drop(self, turn: TurnId) -> None:
        state = self._turn(turn)
        self._scheduler.release(state.rid, forget_kv=True)
        self._pool.trim(turn, 0)

    def close(self, turn: TurnId) -> None:
        state = self._turn(turn)
        self._scheduler.forget(state.rid)
        self._pool.trim(turn, 0)
        del self._turns[turn]

    def holding(self, turn: TurnId) -> Holding:
        state = self._turn(turn)
        kv_tokens = state.request.num_computed_tokens
        if here := self._pool.of(turn):
            return Holding(kv_tokens, 0, here * self._sizes["block"], self.kv_dtype)
        return Holding(kv_tokens, len(self._scheduler.blocks(state.rid)))

    # -- steps --------------------------------------------------------------------------------------------------------

    def step(self, plan: StepPlan) -> StepResult:
        """Raises IntegrityError for a plan that names a turn twice or one that cannot run. Where vLLM runs nobody, the
        planned turn that holds most is put off and loses its KV; alone, it fails."""
        started = time.perf_counter()
        states = self._planned(plan)
        pending = {state.id: state.pending for state in states}
        self._scheduler.plan({state.rid: work.budget for state, work in zip(states, plan.work, strict=True)})
        outputs, _ = self._core.step()
        made = {output.request_id: output for batch in outputs.values() for output in batch.outputs}
        evicted = frozenset(self._scheduler.evicted)
        if states and not self._scheduler.scheduled and not evicted:
            return self._break_stall(states, started)
        steps = [self._settle(state, made.get(state.rid)) for state in states if state.rid not in evicted]
        return StepResult(
            tuple(steps),
            time.perf_counter() - started,
            prefill_tokens=sum(step.computed for step in steps if pending[step.turn] > 1),
            decode_tokens=sum(step.computed for step in steps if pending[step.turn] == 1),
            preempted=tuple(state.id for state in states if state.rid in evicted),
        )

    def _break_stall(self, states: Sequence[OpenTurn], started: float) -> StepResult:
        free, total = self._scheduler.free_blocks, self._scheduler.total_blocks
        log.warning("vLLM ran none of %d planned turns, %d of %d blocks are free", len(states), free, total)
        most = max(states, key=lambda state: len(self._scheduler.blocks(state.rid)))
        if len(states) > 1:
            self.drop(most.id)
            return StepResult((), time.perf_counter() - started, preempted=(most.id,))
        error = f"vLLM could not run the turn of {most.request.num_tokens:,} tokens with {free} of {total} blocks free."
        return StepResult((TurnStep(most.id, 0, error=error),), time.perf_counter() - started)

    def _planned(self, plan: StepPlan) -> list[OpenTurn]:
        states = [self._turn(work.turn) for work in plan.work]
        for state, work in zip(states, plan.work, strict=True):
            if work.budget < 1 or state.pending < 1 or self._pool.of(state.id):
                raise IntegrityError(
                    f"turn {state.id} cannot run: budget {work.budget}, {state.pending} tokens pending, "
                    f"KV {'in the host pool' if self._pool.of(state.id) else 'resident'}"
                )
        if len({state.id for state in states}) != len(states):
            raise IntegrityError("a plan names a turn twice")
        return states

    def _settle(self, state: OpenTurn, output: Any) -> TurnStep:
        """`output`: vLLM's for this request, None where it made none."""
        computed = self._scheduler.scheduled.get(state.rid, 0)
        if output is None:
            return TurnStep(state.id, computed)
        if output.finish_reason is not None:
            return TurnStep(state.id, computed, error=f"vLLM ended the turn: {output.finish_reason}.")
        sampled = output.new_token_ids[0] if output.new_token_ids else None
        return TurnStep(state.id, computed, sampled)

    # -- tiers --------------------------------------------------------------------------------------------------------

    def swap_out(self, turn: TurnId) -> Moved | None:
        """Raises Refused if the turn holds no block of the arena."""
        state = self._turn(turn)
        blocks = self._scheduler.blocks(state.rid)
        if not blocks:
            raise Refused(f"Turn {turn} holds nothing in the arena; only a resident turn can be swapped out.")
        started = time.perf_counter()
        nbytes = self._pool.store(turn, blocks)
        if nbytes is None:
            return None
        self._scheduler.release(state.rid, forget_kv=False)
        return Moved(nbytes, time.perf_counter() - started)

    def swap_in(self, turn: TurnId) -> Moved | None:
        """Raises Refused if the turn has no host copy."""
        state = self._turn(turn)
        if not self._pool.of(turn):
            raise Refused(f"Turn {turn} has no copy in the host pool; only a swapped turn can be brought back.")
        started = time.perf_counter()
        blocks = self._scheduler.take(state.rid, self._pool.of(turn))
        if blocks is None:
            return None
        return Moved(self._pool.load(turn, blocks), time.perf_counter() - started)

    @property
    def can_overlap(self) -> bool:
        return False

    @property
    def overlap(self) -> bool:
        return False

    def set_overlap(self, on: bool) -> None:
        if on:
            raise Refused("On vLLM the engine stands still for its copies; leave overlapped copies off.")

    def landed(self) -> tuple[Landed, ...]:
        return ()

    def settle(self) -> None:
        """No copy outlasts its verb."""

    def check_host_pool(self, nbytes: int) -> None:
        """A size below 0 and growth beyond half of what the host has available are refused."""
        self._pool.check(nbytes, self._room())

    def set_host_pool(self, nbytes: int) -> None:
        self._pool.ask(nbytes, self._room())

    # -- precision ----------------------------------------------------------------------------------------------------

    def set_kv_dtype(self, dtype: KVDtype) -> Converted:
        if dtype is not self.kv_dtype:
            raise Refused(
                f"vLLM fixes the KV precision when it starts, here at {self.kv_dtype}; start again with --kv-dtype "
                f"{dtype}, or choose the torch backend."
            )
        return Converted(0, 0.0, self._scheduler.total_blocks)

    def blocks_at(self, dtype: KVDtype) -> int:
        self._only(dtype)
        return self._scheduler.total_blocks

    def block_bytes_at(self, dtype: KVDtype) -> int:
        self._only(dtype)
        return self._sizes["block"]

    def _only(self, dtype: KVDtype) -> None:
        if dtype is not self.kv_dtype:
            raise Refused(f"KV precision {dtype} is not offered here; vLLM was started at {self.kv_dtype}.")

    # -- the whole ----------------------------------------------------------------------------------------------------

    def memory(self) -> DeviceMemory:
        block = self._sizes["block"]
        live = self._sum(self._call("parkdeck_sizes")) if "device_total" in self._sizes else self._sizes
        return DeviceMemory(
            weights_bytes=self._weights,
            runtime_bytes=max(0, live["held"] - live["weights"] - live["kv"]) if "held" in live else self._runtime,
            arena_bytes=self._sizes["kv"],
            block_bytes=block,
            blocks_total=self._scheduler.total_blocks,
            blocks_free=self._scheduler.free_blocks,
            host_total_bytes=self._pool.total_bytes,
            host_used_bytes=self._pool.used_bytes,
            host_unit_bytes=block,
            device_total=live.get("device_total"),
            device_used=live.get("device_used"),
            host_asked_bytes=self._pool.asked,
        )

    def warning(self) -> str | None:
        return None

    @property
    def copy_sizes(self) -> tuple[int, ...]:
        return (self._sizes["block"],)

    def probe_copy(self, block_bytes: int, nbytes: int) -> Copied:
        check_probe(block_bytes, self.copy_sizes, len(self._turns))
        return probe_copy(self._pool, self._scheduler.total_blocks, block_bytes, nbytes)

    def pretend(self, turn: TurnId, kv_tokens: int) -> None:
        """Blocks of whatever bytes they hold."""
        state = self._turn(turn)
        if self._scheduler.take(state.rid, blocks_for(kv_tokens, self.block_size)) is None:
            raise IntegrityError(f"the arena has no room for a context of {kv_tokens} tokens")
        state.request.num_computed_tokens = kv_tokens

    def check_integrity(self) -> None:
        faults = self._scheduler.faults() + self._pool.faults(self._turns)
        for state in self._turns.values():
            parked, blocks = self._pool.of(state.id), len(self._scheduler.blocks(state.rid))
            need = blocks_for(state.request.num_computed_tokens, self.block_size)
            if parked + blocks != need or (parked and blocks):
                faults.append(f"turn {state.id} holds {blocks} + {parked} blocks, its KV tokens need {need}")
        if faults:
            raise IntegrityError("vllm: " + "; ".join(faults))

    def tokens(self, turn: TurnId) -> tuple[int, ...]:
        """All tokens of the turn, prompt and generated."""
        return tuple(self._turn(turn).request.all_token_ids)

    def shutdown(self) -> None:
        for turn in list(self._turns):
            self.close(turn)
        self._core.shutdown()

    # -- below --------------------------------------------------------------------------------------------------------

    def _call(self, method: str, *args: object) -> list[Any]:
        return self._core.collective_rpc(method, args=args)

    @staticmethod
    def _sum(answers: list[dict[str, int]]) -> dict[str, int]:
        """Over the workers: each holds its share."""
        return {key: sum(answer[key] for answer in answers) for key in answers[0]}

    def _turn(self, turn: TurnId) -> OpenTurn:
        if turn not in self._turns:
            raise UnknownTurn(f"Turn {turn} is not open; it never was, or it has ended.")
        return self._turns[turn]

    def _params(self, sampling: Sampling) -> SamplingParams:
        return SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=secrets.randbits(62) if sampling.seed is None else sampling.seed,
            max_tokens=self._scheduler.max_model_len,
            ignore_eos=True,
            detokenize=False,
        )

    def _request(self, turn: TurnId, number: int, tokens: Sequence[int], params: SamplingParams) -> Request:
        return Request(f"turn-{turn}-{number}", list(tokens), params, pooling_params=None)
