"""The stack's bands are sums over what the turns really hold, and say whose bytes they are."""

from engine.geometry import BlockLayout, KVDtype, blocks_for
from engine.knobs import Knobs
from engine.publish import Publisher
from engine.snapshot import Bands, BandTurns, HostState
from engine.turn import TurnId
from tests.engine.backends.fake_executor import GEOMETRY
from tests.engine.lab import Lab


def bands_of(lab: Lab) -> Bands:
    bands = Publisher("s", lab.core, None, 100, lambda _: None).snapshot(HostState.RUNNING, None, 0).bands
    assert bands is not None
    return bands


def deck() -> tuple[Lab, list[TurnId]]:
    """Two running, one paused, one on a tool, one in the host pool, one dropped; of different lengths."""
    lab = Lab(1600, 6000, Knobs())
    turns = [lab.ask(40 + 17 * salt, 400, salt) for salt in range(6)]
    lab.ticks(12)
    lab.commands.pause(turns[2], "page")
    lab.commands.block(turns[3], "pytest", "page")
    lab.commands.swap_out(turns[4], "page")
    lab.commands.drop(turns[5], "page")
    lab.tick()
    return lab, turns


def test_bytes_and_turns_of_each_band() -> None:
    lab, turns = deck()
    block = lab.core.backend.memory().block_bytes
    held = [lab.core.backend.holding(turn).blocks * block for turn in turns]
    bands = bands_of(lab)
    assert bands.turns == BandTurns(running=2, paused=1, blocked=1, forced=2)
    assert (bands.running_kv, bands.paused_kv, bands.blocked_kv) == (held[0] + held[1], held[2], held[3])
    away = [lab.core.backend.holding(turns[4]).kv_tokens, len(lab.core.ledger.find(turns[5]).tokens)]
    assert bands.forced == sum(blocks_for(tokens, lab.core.backend.block_size) for tokens in away) * block


def test_the_same_turns_at_the_other_precision_are_counted_block_by_block() -> None:
    lab, _ = deck()
    before = bands_of(lab)
    q8, fp16 = (
        BlockLayout(GEOMETRY, dtype, lab.core.backend.block_size).nbytes for dtype in (KVDtype.Q8, KVDtype.FP16)
    )
    held = before.running_kv + before.paused_kv + before.blocked_kv
    assert before.at_other_dtype * fp16 == held * q8
    lab.commands.set_knobs({"kv_dtype": "q8"}, "page")
    after = bands_of(lab)
    assert after.running_kv + after.paused_kv + after.blocked_kv == before.at_other_dtype
    assert after.at_other_dtype == held
    assert after.turns == before.turns
