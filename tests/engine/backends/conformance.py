"""What every body must do, whatever runs inside it: subclass `BackendConformance` and say how to make one.

A subclass gives `make`, prompts that fit its vocabulary, and says what it can: `moves` (swap and drop leave the tokens
of a greedy turn as they were, bit for bit), `recomputes_exactly`.
"""

import gc
from collections.abc import Callable, Iterator, Sequence

import psutil
import pytest

from engine.backends.base import Backend, StepPlan, Work
from engine.calibration.probes import DecodeProbe, PrefillProbe
from engine.calibration.quick import measure_costs
from engine.errors import Refused, UnknownTurn
from engine.geometry import KVDtype, blocks_for
from engine.turn import Sampling, TurnId
from tests.engine.backends.random_deck import GREEDY, RandomDeck


def run_steps(backend: Backend, turns: Sequence[TurnId], steps: int, budget: int = 1) -> dict[TurnId, list[int]]:
    """`steps` steps with the same turns; returns what each sampled. Fails on a turn's error."""
    out: dict[TurnId, list[int]] = {turn: [] for turn in turns}
    for _ in range(steps):
        result = backend.step(StepPlan(tuple(Work(turn, budget) for turn in turns)))
        for step in result.turns:
            assert step.error is None, step.error
            if step.sampled is not None:
                out[step.turn].append(step.sampled)
    return out


def run_until(backend: Backend, turn: TurnId, tokens: int, budget: int = 64) -> list[int]:
    """Run one turn alone until it has sampled `tokens` tokens."""
    out: list[int] = []
    for _ in range(10_000):
        if len(out) >= tokens:
            return out
        out += run_steps(backend, [turn], 1, budget)[turn]
    raise AssertionError(f"turn {turn} sampled only {len(out)} of {tokens} tokens")


def resident_bytes() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def leaves_nothing(backend: Backend) -> None:
    backend.check_integrity()
    memory = backend.memory()
    assert memory.blocks_free == memory.blocks_total
    assert memory.host_used_bytes == 0


class BackendConformance:
    """The suite. `arena_tokens` and `host_tokens` are counted at `kv_dtype`. A body whose copies can go on beside its
    steps passes it both ways."""

    recomputes_exactly = True
    tokens_per_turn = 12
    dtypes: tuple[KVDtype, ...] = (KVDtype.FP16, KVDtype.Q8)

    def make(self, arena_tokens: int, host_tokens: int, kv_dtype: KVDtype) -> Backend:
        raise AssertionError("a conformance subclass says how its backend is made")

    def prompt(self, length: int, salt: int = 0) -> tuple[int, ...]:
        return tuple((salt * 31 + 7 * i * i + 3 * i + 1) % 96 for i in range(length))

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "dtype" in metafunc.fixturenames:
            metafunc.parametrize("dtype", metafunc.cls.dtypes, ids=str)

    @pytest.fixture
    def backend(self, dtype: KVDtype) -> Iterator[Backend]:
        made = self.make(1024, 1024, dtype)
        yield made
        made.shutdown()

    def alone(self, backend: Backend, prompt: Sequence[int], tokens: int) -> list[int]:
        """What the same turn samples on the otherwise idle backend."""
        turn = TurnId(900_000)
        backend.open(turn, prompt, GREEDY)
        try:
            return run_until(backend, turn, tokens)
        finally:
            backend.close(turn)

    def test_prefill_takes_at_most_the_budget_and_then_samples(self, backend: Backend) -> None:
        turn = TurnId(1)
        backend.open(turn, self.prompt(40), GREEDY)
        assert backend.holding(turn).blocks == 0
        seen = 0
        while True:
            step = backend.step(StepPlan((Work(turn, 16),))).turns[0]
            assert step.error is None
            assert 1 <= step.computed <= 16
            seen += step.computed
            assert backend.holding(turn).kv_tokens == seen
            if step.sampled is not None:
                break
        assert seen == 40
        assert backend.holding(turn).blocks >= blocks_for(40, backend.block_size)
        backend.check_integrity()
        backend.close(turn)
        leaves_nothing(backend)

    def test_a_paused_turn_keeps_its_blocks_and_goes_on_as_if_alone(self, backend: Backend) -> None:
        alone = self.alone(backend, self.prompt(33), self.tokens_per_turn)
        a, b = TurnId(1), TurnId(2)
        backend.open(a, self.prompt(33), GREEDY)
        backend.open(b, self.prompt(21, salt=5), GREEDY)
        first = run_until(backend, a, self.tokens_per_turn // 2)
        held = backend.holding(a)
        run_until(backend, b, 5)
        assert backend.holding(a) == held
        assert first + run_until(backend, a, self.tokens_per_turn - len(first)) == alone

    def test_batch_mates_do_not_change_a_turn(self, backend: Backend) -> None:
        prompts = [self.prompt(17 + 5 * i, salt=i) for i in range(6)]
        alone = [self.alone(backend, prompt, self.tokens_per_turn) for prompt in prompts]
        turns = [TurnId(i) for i in range(6)]
        got: dict[TurnId, list[int]] = {turn: [] for turn in turns}
        for turn, prompt in zip(turns, prompts, strict=True):
            backend.open(turn, prompt, GREEDY)
        while any(len(tokens) < self.tokens_per_turn for tokens in got.values()):
            going = [turn for turn in turns if len(got[turn]) < self.tokens_per_turn]
            for turn, tokens in run_steps(backend, going, 1, budget=64).items():
                got[turn] += tokens
        assert [got[turn] for turn in turns] == alone

    def test_a_swapped_turn_gives_the_same_tokens_and_frees_its_blocks(self, backend: Backend) -> None:
        alone = self.alone(backend, self.prompt(50), self.tokens_per_turn)
        turn, other = TurnId(1), TurnId(2)
        backend.open(turn, self.prompt(50), GREEDY)
        got = run_until(backend, turn, 4)
        moved = backend.swap_out(turn)
        assert moved is not None
        assert moved.nbytes >= blocks_for(53, backend.block_size) * backend.memory().block_bytes
        holding = backend.holding(turn)
        assert (holding.blocks, holding.kv_tokens) == (0, 53)
        assert holding.host_bytes >= moved.nbytes
        backend.open(other, self.prompt(200, salt=3), GREEDY)
        run_until(backend, other, 2, budget=256)
        backend.settle()
        back = backend.swap_in(turn)
        assert back is not None
        assert back.nbytes == moved.nbytes
        backend.settle()
        backend.check_integrity()
        assert {one.error for one in backend.landed()} <= {None}
        assert backend.memory().host_used_bytes == 0
        backend.check_integrity()
        assert got + run_until(backend, turn, self.tokens_per_turn - 4) == alone
        backend.close(turn)
        backend.close(other)
        leaves_nothing(backend)

    def test_a_dropped_turn_recomputes_all_of_it(self, backend: Backend) -> None:
        alone = self.alone(backend, self.prompt(37), self.tokens_per_turn)
        turn = TurnId(1)
        backend.open(turn, self.prompt(37), GREEDY)
        got = run_until(backend, turn, 5)
        backend.drop(turn)
        assert backend.holding(turn).kv_tokens == 0
        assert backend.memory().blocks_free == backend.memory().blocks_total
        again = run_until(backend, turn, self.tokens_per_turn - 5)
        if self.recomputes_exactly:
            assert got + again == alone
        backend.close(turn)
        leaves_nothing(backend)

    @pytest.mark.parametrize("tier", ["resident", "host", "dropped"])
    def test_extend_in_every_tier_is_the_turn_opened_anew(self, backend: Backend, tier: str) -> None:
        tail = self.prompt(9, salt=8)
        turn = TurnId(1)
        backend.open(turn, self.prompt(35), GREEDY)
        generated = run_until(backend, turn, 4)
        self._to(backend, turn, tier)
        keep = 35 + 2
        backend.extend(turn, keep, tail)
        if tier == "host":
            assert backend.holding(turn).kv_tokens == keep
            assert backend.swap_in(turn) is not None
        expected = self.alone(backend, [*self.prompt(35), *generated[:2], *tail], 6)
        got = run_until(backend, turn, 6)
        if tier != "dropped" or self.recomputes_exactly:
            assert got == expected
        backend.check_integrity()
        backend.close(turn)
        leaves_nothing(backend)

    def _to(self, backend: Backend, turn: TurnId, tier: str) -> None:
        if tier == "host":
            assert backend.swap_out(turn) is not None
        elif tier == "dropped":
            backend.drop(turn)

    @pytest.mark.parametrize("keep", [0, 1, 15, 16, 17, 31, 32, 33])
    def test_extend_cuts_blocks_behind_what_is_kept(self, backend: Backend, keep: int) -> None:
        turn = TurnId(1)
        backend.open(turn, self.prompt(40), GREEDY)
        run_until(backend, turn, 1)
        backend.extend(turn, keep, [5])
        assert backend.holding(turn).kv_tokens == keep
        assert backend.holding(turn).blocks == blocks_for(keep, backend.block_size)
        backend.check_integrity()
        assert run_until(backend, turn, 3) == self.alone(backend, [*self.prompt(40)[:keep], 5], 3)

    def test_closing_a_turn_in_the_host_pool_frees_its_copy(self, backend: Backend) -> None:
        settled = 0
        for round_ in range(50):
            turn = TurnId(round_)
            backend.open(turn, self.prompt(20, salt=round_), GREEDY)
            run_until(backend, turn, 1)
            assert backend.swap_out(turn) is not None
            backend.close(turn)
            leaves_nothing(backend)
            if round_ == 9:
                settled = resident_bytes()
        assert resident_bytes() - settled < 10 << 20

    def test_swap_needs_room_and_changes_nothing_without_it(self, dtype: KVDtype) -> None:
        backend = self.make(128, 64, dtype)
        a, b = TurnId(1), TurnId(2)
        backend.open(a, self.prompt(48), GREEDY)
        backend.open(b, self.prompt(48, salt=2), GREEDY)
        run_until(backend, a, 1)
        run_until(backend, b, 1)
        assert backend.swap_out(a) is not None
        before = backend.holding(b)
        assert backend.swap_out(b) is None
        assert backend.holding(b) == before
        backend.open(TurnId(3), self.prompt(60, salt=4), GREEDY)
        run_until(backend, TurnId(3), 1)
        before = backend.holding(a)
        assert backend.swap_in(a) is None
        assert backend.holding(a) == before
        backend.check_integrity()
        backend.shutdown()

    def test_copies_are_told_of_once_by_their_verb_or_when_they_have_landed(self, backend: Backend) -> None:
        turn = TurnId(1)
        backend.open(turn, self.prompt(50), GREEDY)
        run_until(backend, turn, 1)
        told = []
        for verb, out in ((backend.swap_out, True), (backend.swap_in, False)):
            moved = verb(turn)
            assert moved is not None
            assert (moved.seconds is None) == backend.overlap
            backend.settle()
            told = [(one.turn, one.out, one.nbytes, one.error) for one in backend.landed()]
            assert told == ([(turn, out, moved.nbytes, None)] if backend.overlap else [])
            assert backend.landed() == ()
        backend.close(turn)
        leaves_nothing(backend)

    def test_a_turn_called_back_at_once_and_one_sent_out_again_go_on_as_if_alone(self, backend: Backend) -> None:
        """Where copies go on beside steps none has ended yet: they are given up and nothing has moved."""
        alone = self.alone(backend, self.prompt(50), self.tokens_per_turn)
        turn = TurnId(1)
        backend.open(turn, self.prompt(50), GREEDY)
        got = run_until(backend, turn, 3)
        for _ in range(2):
            assert backend.swap_out(turn) is not None
            assert backend.swap_in(turn) is not None
            assert backend.swap_out(turn) is not None
            backend.check_integrity()
            assert backend.holding(turn).blocks == 0
            assert backend.holding(turn).host_bytes > 0
            assert backend.swap_in(turn) is not None
            backend.check_integrity()
            got += run_until(backend, turn, 2)
        assert got + run_until(backend, turn, self.tokens_per_turn - len(got)) == alone
        backend.close(turn)
        leaves_nothing(backend)

    @pytest.mark.parametrize("verb", ["close", "drop", "extend"])
    @pytest.mark.parametrize("way", ["out", "back"])
    def test_a_verb_right_behind_a_copy_leaves_nothing_behind(self, backend: Backend, verb: str, way: str) -> None:
        turn, mate = TurnId(1), TurnId(2)
        for each in (turn, mate):
            backend.open(each, self.prompt(60, salt=each), GREEDY)
            run_until(backend, each, 1)
        assert backend.swap_out(turn) is not None
        if way == "back":
            backend.settle()
            assert backend.swap_in(turn) is not None
        if verb == "extend":
            backend.extend(turn, 20, [4])
            backend.check_integrity()
            assert backend.holding(turn).kv_tokens == 20
            if way == "out":
                assert backend.swap_in(turn) is not None
            assert run_until(backend, turn, 3) == self.alone(backend, [*self.prompt(60, salt=1)[:20], 4], 3)
            backend.close(turn)
        else:
            getattr(backend, verb)(turn)
        backend.check_integrity()
        assert run_until(backend, mate, 4) == self.alone(backend, self.prompt(60, salt=2), 5)[1:]
        if verb == "drop":
            backend.close(turn)
        backend.close(mate)
        leaves_nothing(backend)

    def test_a_turn_comes_into_the_blocks_of_one_that_is_still_leaving(self, dtype: KVDtype) -> None:
        """The arena holds one of the two. They change places, and both go on as if alone."""
        backend = self.make(96, 512, dtype)
        turns = (TurnId(1), TurnId(2))
        prompts = [self.prompt(70, salt=turn) for turn in turns]
        alone = [self.alone(backend, prompt, 8) for prompt in prompts]
        got: list[list[int]] = []
        for turn, prompt in zip(turns, prompts, strict=True):
            backend.open(turn, prompt, GREEDY)
            got.append(run_until(backend, turn, 2))
            assert backend.swap_out(turn) is not None
        for place, turn in (0, turns[0]), (1, turns[1]), (0, turns[0]), (1, turns[1]):
            other = turns[1 - place]
            if backend.holding(other).blocks:
                assert backend.swap_out(other) is not None
            assert backend.swap_in(turn) is not None
            backend.check_integrity()
            got[place] += run_until(backend, turn, 2)
        assert [one[:6] for one in got] == [one[:6] for one in alone]
        for turn in turns:
            backend.close(turn)
        leaves_nothing(backend)
        backend.shutdown()

    def test_verbs_refuse_unknown_turns(self, backend: Backend) -> None:
        turn = TurnId(77)
        verbs: list[Callable[[], object]] = [
            lambda: backend.extend(turn, 0, [1]),
            lambda: backend.swap_out(turn),
            lambda: backend.swap_in(turn),
            lambda: backend.drop(turn),
            lambda: backend.close(turn),
            lambda: backend.holding(turn),
            lambda: backend.step(StepPlan((Work(turn, 1),))),
        ]
        for verb in verbs:
            with pytest.raises(UnknownTurn, match="77"):
                verb()

    def test_host_pool_resizes_but_not_below_what_it_holds(self, backend: Backend) -> None:
        turn = TurnId(1)
        alone = self.alone(backend, self.prompt(40), 6)
        backend.open(turn, self.prompt(40), GREEDY)
        got = run_until(backend, turn, 2)
        assert backend.swap_out(turn) is not None
        used = backend.memory().host_used_bytes
        with pytest.raises(Refused):
            backend.set_host_pool(used // 2)
        assert backend.memory().host_used_bytes == used
        backend.set_host_pool(used)
        assert backend.memory().host_total_bytes == used
        backend.set_host_pool(8 * used)
        assert backend.swap_in(turn) is not None
        backend.set_host_pool(0)
        assert backend.memory().host_total_bytes == 0
        assert backend.swap_out(turn) is None
        assert got + run_until(backend, turn, 4) == alone

    def test_calibrate_quick_costs_leave_nothing(self, backend: Backend) -> None:
        before = backend.memory()
        costs = measure_costs(backend)
        assert costs.swap_out_bytes_per_s > 0
        assert costs.swap_in_bytes_per_s > 0
        assert costs.prefill_tokens_per_s > 0
        assert costs.decode_base_s + costs.decode_per_turn_s > 0
        leaves_nothing(backend)
        assert backend.memory().host_total_bytes == before.host_total_bytes

    def test_calibrate_copies_of_every_size_there_is(self, backend: Backend) -> None:
        """Its own block among them; other sizes are refused, and so is every one beside an open turn, whose KV stays
        as it was."""
        sizes = backend.copy_sizes
        assert list(sizes) == sorted(set(sizes))
        assert backend.memory().block_bytes in sizes
        for size in sizes:
            copied = backend.probe_copy(size, 3 * size)
            assert size <= copied.nbytes <= 3 * size
            assert copied.nbytes % size == 0
            assert min(copied.out_s, copied.back_s) > 0
            leaves_nothing(backend)
        with pytest.raises(Refused, match="Blocks of 7 bytes"):
            backend.probe_copy(7, 1 << 20)
        alone = self.alone(backend, self.prompt(30), 6)
        turn = TurnId(1)
        backend.open(turn, self.prompt(30), GREEDY)
        got = run_until(backend, turn, 3)
        with pytest.raises(Refused, match="no turn is open; 1 are"):
            backend.probe_copy(sizes[0], 1 << 20)
        assert got + run_until(backend, turn, 3) == alone

    def test_calibrate_copies_without_a_host_pool(self, backend: Backend) -> None:
        backend.set_host_pool(0)
        assert backend.probe_copy(backend.memory().block_bytes, 1 << 20).nbytes > 0
        assert backend.memory().host_total_bytes == 0
        leaves_nothing(backend)

    def test_calibrate_probes_measure_what_they_say(self, backend: Backend) -> None:
        per_token = backend.geometry.bytes_per_token(backend.kv_dtype)
        point = DecodeProbe(3, 100).run(backend)
        assert (point.turns, point.context, point.kv_bytes) == (3, 100, 300 * per_token)
        assert point.seconds > 0
        prefilled = PrefillProbe(32, start=40).run(backend)
        assert prefilled.chunk == 32
        assert prefilled.tokens_per_s > 0
        leaves_nothing(backend)

    def test_calibrate_pretended_context_is_held_and_read(self, backend: Backend) -> None:
        turn = TurnId(1)
        backend.open(turn, self.prompt(40), GREEDY)
        backend.pretend(turn, 39)
        assert backend.holding(turn).kv_tokens == 39
        assert backend.holding(turn).blocks == blocks_for(39, backend.block_size)
        (step,) = backend.step(StepPlan((Work(turn, 1),))).turns
        assert (step.computed, step.error) == (1, None)
        assert step.sampled is not None
        backend.check_integrity()
        backend.close(turn)
        leaves_nothing(backend)

    def test_seeded_turn_repeats_itself_beside_others_and_after_a_swap(self, backend: Backend) -> None:
        sampling = Sampling(temperature=1.0, top_p=0.9, seed=1234)
        turn = TurnId(1)
        backend.open(turn, self.prompt(20), sampling)
        alone = run_until(backend, turn, 10)
        backend.close(turn)
        mate = TurnId(2)
        backend.open(turn, self.prompt(20), sampling)
        backend.open(mate, self.prompt(25, salt=1), Sampling(temperature=1.0, seed=99))
        run_until(backend, mate, 1)
        got = run_until(backend, turn, 3)
        got += run_steps(backend, [mate, turn], 3)[turn]
        assert backend.swap_out(turn) is not None
        assert backend.swap_in(turn) is not None
        backend.settle()
        got += run_steps(backend, [turn, mate], 4)[turn]
        assert got == alone

    def test_random_verbs_for_150_steps(self, backend: Backend) -> None:
        """Pause, swap, drop, extend, close and open at any boundary: books right after each step, and every turn says
        what it says alone."""
        deck = RandomDeck(backend, self.prompt)
        for _ in range(150):
            deck.act()
            backend.check_integrity()
        deck.come_back()
        for turn, said in deck.said.items():
            if turn not in deck.dropped or self.recomputes_exactly:
                assert said == self._alone_after(backend, deck.prompts[turn], len(said)), f"turn {turn}"
        leaves_nothing(backend)

    def _alone_after(self, backend: Backend, prompt: Sequence[int], tokens: int) -> list[int]:
        return self.alone(backend, prompt, tokens) if tokens else []


class PrecisionSwitchConformance(BackendConformance):
    """For bodies that switch KV precision live, between fp16 and q8."""

    lossless_switch = False

    def test_switch_changes_the_real_blocks_and_back(self, backend: Backend, dtype: KVDtype) -> None:
        other = KVDtype.Q8 if dtype is KVDtype.FP16 else KVDtype.FP16
        before = backend.memory()
        converted = backend.set_kv_dtype(other)
        after = backend.memory()
        assert backend.kv_dtype is other
        assert after.arena_bytes == before.arena_bytes
        assert after.block_bytes == backend.block_bytes_at(other)
        assert converted.blocks == after.blocks_total == backend.blocks_at(other)
        assert (after.blocks_total > before.blocks_total) == (other is KVDtype.Q8)
        backend.set_kv_dtype(dtype)
        assert backend.memory() == before

    def test_switch_is_refused_with_the_sizes_when_held_blocks_do_not_fit(self) -> None:
        backend = self.make(256, 256, KVDtype.Q8)
        turn = TurnId(1)
        backend.open(turn, self.prompt(250), GREEDY)
        run_until(backend, turn, 1, budget=256)
        before = backend.holding(turn)
        assert before.blocks > backend.blocks_at(KVDtype.FP16)
        with pytest.raises(Refused, match=str(before.blocks)):
            backend.set_kv_dtype(KVDtype.FP16)
        assert backend.kv_dtype is KVDtype.Q8
        assert backend.holding(turn) == before
        backend.check_integrity()
        backend.shutdown()

    def test_turns_in_every_state_live_through_toggles(self, backend: Backend, dtype: KVDtype) -> None:
        other = KVDtype.Q8 if dtype is KVDtype.FP16 else KVDtype.FP16
        decoding, prefilling, swapped, gone = (TurnId(i) for i in range(4))
        prompts = {turn: self.prompt(46 + 7 * turn, salt=turn) for turn in (decoding, prefilling, swapped, gone)}
        alone = {turn: self.alone(backend, prompt, 8) for turn, prompt in prompts.items()}
        for turn, prompt in prompts.items():
            backend.open(turn, prompt, GREEDY)
        run_until(backend, gone, 1)
        got = {decoding: run_until(backend, decoding, 2), prefilling: [], swapped: run_until(backend, swapped, 2)}
        run_steps(backend, [prefilling], 1, budget=16)
        assert backend.swap_out(swapped) is not None
        backend.close(gone)
        # `decoding` grows into a block that `gone` freed: its table is out of order when blocks are renumbered.
        got[decoding] += run_until(backend, decoding, 2)
        for target in (other, dtype, other):
            backend.set_kv_dtype(target)
            backend.check_integrity()
            for turn, tokens in run_steps(backend, [decoding], 1).items():
                got[turn] += tokens
        assert backend.holding(swapped).host_dtype is dtype
        assert backend.swap_in(swapped) is not None
        backend.settle()
        assert backend.memory().host_used_bytes == 0
        for turn in (decoding, prefilling, swapped):
            got[turn] += run_until(backend, turn, 8 - len(got[turn]))
            assert len(got[turn]) == 8
            if self.lossless_switch:
                assert got[turn] == alone[turn]
            backend.close(turn)
        leaves_nothing(backend)
