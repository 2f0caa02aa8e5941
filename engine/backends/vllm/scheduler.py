"""vLLM's scheduler under a plan from outside: it runs who is planned, as much as is planned, and nobody else.

A request that is not planned stands in none of vLLM's queues; it keeps its blocks until a verb takes them. Every
method here is called between two steps.
"""

from collections.abc import Mapping
from typing import Any

from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.request import Request, RequestStatus


class ParkingScheduler(Scheduler):
    """`scheduled`: tokens of each request in the last step; `evicted`: requests that vLLM itself preempted in it."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.scheduled: dict[str, int] = {}
        self.evicted: list[str] = []
        self._queued: set[str] = set()

    # -- the plan -------------------------------------------------------------------------------------------------

    def plan(self, budgets: Mapping[str, int]) -> None:
        """Who may run in the next step, and at most how many pending tokens of each.

        vLLM knows one bound per step for all long prefills: it becomes the smallest budget that binds, so that no turn
        ever gets more than its own.
        """
        self._queued &= self.requests.keys()
        for rid in self._queued - budgets.keys():
            self._unqueue(rid)
        for rid in budgets:
            if rid not in self._queued:
                self._queued.add(rid)
                self._enqueue_waiting_request(self.requests[rid])
        pending = {rid: self.requests[rid].num_tokens - self.requests[rid].num_computed_tokens for rid in budgets}
        bound = min((budget for rid, budget in budgets.items() if budget < pending[rid]), default=0)
        self.scheduler_config.long_prefill_token_threshold = bound
        self.max_num_scheduled_tokens = min(
            sum(min(budget, pending[rid]) for rid, budget in budgets.items()),
            self.scheduler_config.max_num_batched_tokens,
        )
        self.scheduled, self.evicted = {}, []

    def schedule(self, throttle_prefills: bool = False) -> SchedulerOutput:
        output = super().schedule(throttle_prefills)
        self.scheduled = dict(output.num_scheduled_tokens)
        return output

    def _preempt_request(self, request: Request, *args: Any, **more: Any) -> None:
        super()._preempt_request(request, *args, **more)
        self.evicted.append(request.request_id)

    def _unqueue(self, rid: str) -> None:
        """Off every queue, its blocks kept, in the state in which vLLM leaves a preempted request: the worker frees
        its row and is told everything anew when it comes back."""
        self._queued.discard(rid)
        request = self.requests[rid]
        if request.status == RequestStatus.RUNNING:
            self.running.remove(request)
            self.prev_step_scheduled_req_ids.discard(rid)
            self._inflight_prefills.discard(request)
            request.status = RequestStatus.PREEMPTED
            request.num_preemptions += 1
            self.reset_preempted_req_ids.add(rid)
            return
        self.waiting.remove_requests([request])
        self.kv_holding_waiting.remove_requests([request])
        self.deferred_waiting.discard(request)

    def has_finished_requests(self) -> bool:
        """The base class takes requests that stand in no queue for finished ones."""
        return bool(self.finished_req_ids)

    # -- turns ----------------------------------------------------------------------------------------------------

    def know(self, request: Request) -> None:
        """A request that waits for its first plan; it may hold blocks already (see `hand_over`)."""
        self.requests[request.request_id] = request

    def forget(self, rid: str) -> None:
        """End the request, if vLLM has not, and free what it holds."""
        if rid in self._queued & self.requests.keys():
            self._unqueue(rid)
        self._queued.discard(rid)
        self.finish_requests(rid, RequestStatus.FINISHED_ABORTED)

    def hand_over(self, rid: str, request: Request, keep: int) -> None:
        """`request` goes on from the first `keep` computed tokens of `rid`, which ends; what lies behind is freed.

        Under a new name, so that the worker takes the tokens from it instead of appending to what it remembers.
        """
        if rid in self._queued:
            self._unqueue(rid)
        kept = self._tables.pop(rid, [])
        count = -(-keep // self.block_size)
        self.kv_cache_manager.block_pool.free_blocks(reversed(kept[count:]))
        if kept[:count]:
            self._tables[request.request_id] = kept[:count]
        request.num_computed_tokens = keep
        self.forget(rid)
        self.know(request)

    # -- blocks ---------------------------------------------------------------------------------------------------

    def blocks(self, rid: str) -> list[int]:
        (blocks,) = self.kv_cache_manager.get_block_ids(rid)
        return list(blocks)

    def release(self, rid: str, *, forget_kv: bool) -> None:
        """Free the blocks; `forget_kv`: its tokens become pending again."""
        if rid in self._queued:
            self._unqueue(rid)
        request = self.requests[rid]
        self._free_request_blocks(request)
        if forget_kv:
            request.num_computed_tokens = 0

    def take(self, rid: str, count: int) -> list[int] | None:
        """`count` fresh blocks, for KV that is about to be copied into them; None if so many are not free."""
        pool = self.kv_cache_manager.block_pool
        if count > pool.get_num_free_blocks():
            return None
        taken = pool.get_new_blocks(count)
        self._tables[rid] = list(taken)
        return [block.block_id for block in taken]

    @property
    def free_blocks(self) -> int:
        return self.kv_cache_manager.block_pool.get_num_free_blocks()

    @property
    def total_blocks(self) -> int:
        """Without the null block, which no request ever gets."""
        return self.kv_cache_manager.block_pool.num_gpu_blocks - 1

    def faults(self) -> list[str]:
        """What is wrong in the books: sentences, none if all is well."""
        tables = {rid: self.blocks(rid) for rid in self.requests}
        held = [block for blocks in tables.values() for block in blocks]
        found = []
        if len(held) + self.free_blocks != self.total_blocks:
            found.append(f"{len(held)} blocks held + {self.free_blocks} free != {self.total_blocks}")
        if len(set(held)) != len(held):
            found.append("a block is held twice")
        for rid in self._tables.keys() - self.requests.keys():
            found.append(f"blocks are held for {rid}, which has ended")
        return found

    @property
    def _tables(self) -> dict[str, list[Any]]:
        """Request -> its blocks. There is one KV group; build.py refuses models with more."""
        (manager,) = self.kv_cache_manager.coordinator.single_type_managers
        return manager.req_to_blocks
