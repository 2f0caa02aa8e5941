"""The torch backend under any order of verbs."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.backends.base import StepPlan, Work
from engine.backends.torch.executor import KV_DTYPES
from engine.errors import Refused
from engine.geometry import KVDtype
from engine.turn import TurnId
from tests.engine.backends.conformance import GREEDY, leaves_nothing
from tests.engine.backends.fake_executor import expected_logits
from tests.engine.backends.lab import layout, make


class AnyVerbs(RuleBasedStateMachine):
    """Any order of verbs keeps the books right and every turn's tokens those of an undisturbed run."""

    @initialize(arena=st.integers(6, 24), host=st.integers(0, 20), overlap=st.booleans())
    def start(self, arena: int, host: int, overlap: bool) -> None:
        self.backend = make(arena, host)
        self.backend.set_overlap(overlap)
        self.tokens: dict[TurnId, list[int]] = {}
        self.next = 0

    def pick(self, index: int) -> TurnId:
        return sorted(self.tokens)[index % len(self.tokens)]

    @rule(length=st.integers(1, 60), salt=st.integers(0, 90))
    def open(self, length: int, salt: int) -> None:
        turn = TurnId(self.next)
        self.next += 1
        prompt = [(salt + i * i) % 97 for i in range(length)]
        self.backend.open(turn, prompt, GREEDY)
        self.tokens[turn] = prompt

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), budget=st.sampled_from([1, 7, 16, 40]), steps=st.integers(1, 6))
    def step(self, data: st.DataObject, budget: int, steps: int) -> None:
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.tokens)), max_size=5))
        for _ in range(steps):
            work, room = [], self.backend.memory().blocks_free
            for turn in sorted(chosen):
                held = self.backend.holding(turn)
                if held.host_dtype:
                    continue
                end = held.kv_tokens + min(budget, len(self.tokens[turn]) - held.kv_tokens)
                need = -(-end // 16) - held.blocks
                if need <= room:
                    room -= need
                    work.append(Work(turn, budget))
            for done in self.backend.step(StepPlan(tuple(work))).turns:
                assert done.error is None
                if done.sampled is not None:
                    assert done.sampled == int(np.argmax(expected_logits(self.tokens[done.turn])))
                    self.tokens[done.turn].append(done.sampled)

    @precondition(lambda self: self.tokens)
    @rule(index=st.integers(0, 50), keep=st.integers(0, 80), more=st.lists(st.integers(0, 96), max_size=20))
    def extend(self, index: int, keep: int, more: list[int]) -> None:
        turn = self.pick(index)
        keep = min(keep, len(self.tokens[turn]))
        if keep + len(more):
            before = self.backend.holding(turn).kv_tokens
            self.backend.extend(turn, keep, more)
            self.tokens[turn] = self.tokens[turn][:keep] + more
            assert self.backend.holding(turn).kv_tokens == min(before, keep, keep + len(more) - 1)

    @precondition(lambda self: self.tokens)
    @rule(index=st.integers(0, 50))
    def swap(self, index: int) -> None:
        turn = self.pick(index)
        held = self.backend.holding(turn)
        if held.host_dtype:
            room = self.backend.memory().blocks_free >= -(-held.kv_tokens // 16)
            assert (self.backend.swap_in(turn) is not None) == room
        elif held.blocks:
            memory = self.backend.memory()
            free, unit = memory.host_total_bytes - memory.host_used_bytes, layout(KVDtype.Q8).nbytes
            need = -(-held.blocks * memory.block_bytes // unit) * unit
            assert (self.backend.swap_out(turn) is not None) == (need <= free)

    @precondition(lambda self: self.tokens)
    @rule(index=st.integers(0, 50))
    def drop(self, index: int) -> None:
        self.backend.drop(self.pick(index))

    @precondition(lambda self: self.tokens)
    @rule(index=st.integers(0, 50))
    def close(self, index: int) -> None:
        turn = self.pick(index)
        self.backend.close(turn)
        del self.tokens[turn]

    @rule()
    def hear(self) -> None:
        assert all(one.error is None for one in self.backend.landed())

    @rule(on=st.booleans())
    def overlap(self, on: bool) -> None:
        self.backend.set_overlap(on)
        assert self.backend.overlap is on

    @rule(dtype=st.sampled_from(sorted(KV_DTYPES)))
    def switch(self, dtype: KVDtype) -> None:
        memory = self.backend.memory()
        if memory.blocks_total - memory.blocks_free <= self.backend.blocks_at(dtype):
            self.backend.set_kv_dtype(dtype)
        else:
            with pytest.raises(Refused):
                self.backend.set_kv_dtype(dtype)

    @rule(blocks=st.integers(0, 30))
    def resize(self, blocks: int) -> None:
        nbytes = blocks * layout(KVDtype.FP16).nbytes
        self.backend.settle()
        unit = layout(KVDtype.Q8).nbytes
        if nbytes // unit * unit >= self.backend.memory().host_used_bytes:
            self.backend.set_host_pool(nbytes)
        else:
            with pytest.raises(Refused):
                self.backend.set_host_pool(nbytes)

    @invariant()
    def books_add_up(self) -> None:
        if hasattr(self, "backend"):
            self.backend.check_integrity()
            for turn, tokens in self.tokens.items():
                assert list(self.backend.tokens(turn)) == tokens

    def teardown(self) -> None:
        if hasattr(self, "backend"):
            for turn in list(self.tokens):
                self.backend.close(turn)
            leaves_nothing(self.backend)
            self.backend.shutdown()


AnyVerbs.TestCase.settings = settings(max_examples=40, stateful_step_count=40, suppress_health_check=list(HealthCheck))
TestAnyVerbs = AnyVerbs.TestCase
