"""The states of the page, each a scripted deck."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from engine.events import Event, EventKind, MoveCost
from engine.geometry import KVDtype
from engine.knobs import Knobs
from engine.snapshot import HostState, Sample, Snapshot, Startup
from engine.telemetry.gpu import GpuSample, GpuState
from engine.turn import TurnId
from panels.deck_view import CalibrationState, SwarmState
from tests.panels import fake_control
from tests.panels.fake_control import OFFLINE, FakeControl
from tests.panels.fake_deck import FakeDeck, FakeSwarm


def running(at: float = 112.0) -> FakeDeck:
    dtype = KVDtype.Q8 if at >= 90 else KVDtype.FP16
    knobs = Knobs(host_pool_bytes=fake_control.HOST, kv_dtype=dtype, high_watermark=0.95)
    return FakeDeck(FakeControl(at=at, knobs=knobs, start_utc=time.time() - at))


NO_ENGINE = "no-engine"
"""The scene without a deck."""
STAGES = {
    "download": (0.62, "58 of 93 MB"),
    "check": (None, "checking SmolLM2-135M-Instruct.Q4_1.gguf"),
    "convert": (0.4, "layer 12 of 30, 61 MiB of 129 MiB"),
    "load": (None, "laying out the weights"),
    "compile": (0.3, "kernel 4 of 13"),
    "calibrate": (None, "measuring copies, prefill and decode"),
}
"""Stage of a start -> its progress and what it says."""


def starting(stage: str = "convert") -> FakeDeck:
    return FakeDeck(FakeControl(state=HostState.STARTING, at=2.0, startup=Startup(stage, *STAGES[stage])))


def stopped() -> FakeDeck:
    return FakeDeck(
        FakeControl(state=HostState.STOPPED, at=0.0, empty=True, start_utc=time.time()),
        FakeSwarm(SwarmState(False, 16, 1.0, "swarm")),
    )


def noise() -> FakeDeck:
    """A change that does nothing, measured."""
    deck = running(87.0)
    deck.control.advance(-12.0)
    deck.control.set_knobs({"low_watermark": 0.85}, author="tab 2")
    deck.control.advance(12.0)
    return deck


def measuring() -> FakeDeck:
    deck = moving()
    deck.calibration.now = CalibrationState(True, 0.42, "prefill behind 1,024 tokens, round 2 of 3")
    return deck


def empty() -> FakeDeck:
    return FakeDeck(
        FakeControl(state=HostState.IDLE, at=9.0, empty=True, start_utc=time.time() - 9.0),
        FakeSwarm(SwarmState(False, 16, 1.0, "swarm")),
    )


@dataclass(slots=True)
class MovingControl(FakeControl):
    """Its clock goes on with each look at the moves, so that a page that looks sees more of them."""

    def moves(self) -> Sequence[MoveCost]:
        self.advance(5.0)
        return FakeControl.moves(self)


def moving() -> FakeDeck:
    return FakeDeck(MovingControl(at=30.0, start_utc=time.time() - 30.0))


@dataclass(slots=True)
class TickingControl(FakeControl):
    """Its clock goes on with each look at the samples, so that every chart is a new one."""

    def samples(self, since: float = float("-inf")) -> Sequence[Sample]:
        self.advance(0.5)
        return FakeControl.samples(self, since)


HOSTILE = ('=HYPERLINK("http://127.0.0.1:9","look")', 'a comma, a "quote"\r\nand a line', "@SUM(A1)", "<img src=x>")


class HostileControl(TickingControl):
    """Its agents, model and card have names that a spreadsheet or a page could take for more than names."""

    def moves(self) -> Sequence[MoveCost]:
        moved = enumerate(FakeControl.moves(self))
        return tuple(replace(move, agent=HOSTILE[index % len(HOSTILE)]) for index, move in moved)


def hostile() -> FakeDeck:
    card = replace(fake_control.CARD, card='=1+1, "a <b>card</b>"')
    return FakeDeck(HostileControl(at=60.0, start_utc=time.time() - 60.0, model_name=HOSTILE[0], card=card))


def ticking() -> FakeDeck:
    return FakeDeck(TickingControl(at=30.0, start_utc=time.time() - 30.0))


class LivingControl(FakeControl):
    """Its clock goes on a little with each look at the snapshot, so that each refresh is one."""

    @property
    def snapshot(self) -> Snapshot:
        self.advance(0.02)
        return super().snapshot


class BusyControl(LivingControl):
    """The play goes round by another swap out every 0.4 s of its clock, between a refused turn and a failed one."""

    def events(self) -> Sequence[Event]:
        since = self.start_utc + 57.0
        more = [
            Event(57.0, since, 1140, EventKind.REFUSE, "swarm",
                  "a turn of agent 9 was refused: the prompt has 9,000 tokens; send fewer"),
            Event(57.1, since, 1142, EventKind.FAIL, "engine", "agent 3: the step failed", TurnId(3)),
        ]  # fmt: skip
        for i in range(12):
            high = 99 - i
            more.append(Event(57.2, since, 1144, EventKind.KNOB, "page", f"High watermark {high + 1} → {high} %",
                              name="high_watermark", new=str(high / 100)))  # fmt: skip
        for i in range(int((self.at - 57.0) / 0.4)):
            at = 57.3 + 0.4 * i
            more.append(Event(at, since + 0.4 * i, int(20 * at), EventKind.SWAP_OUT, "governor",
                              "agent 7 to host: watermark", TurnId(11), nbytes=18 << 20))  # fmt: skip
        return (*LivingControl.events(self), *more)


def busy() -> FakeDeck:
    """A list of events that goes on growing."""
    knobs = Knobs(host_pool_bytes=fake_control.HOST, high_watermark=0.88, low_watermark=0.8)
    return FakeDeck(BusyControl(at=60.0, knobs=knobs, start_utc=time.time() - 60.0))


def crowded() -> FakeDeck:
    """500 turns."""
    knobs = Knobs(host_pool_bytes=fake_control.HOST, high_watermark=0.95)
    return FakeDeck(LivingControl(at=58.0, knobs=knobs, start_utc=time.time() - 58.0, crowd=488))


def stalled() -> FakeDeck:
    deck = running(70.0)
    deck.control.state = HostState.STALLED
    return deck


def failed() -> FakeDeck:
    deck = running(80.0)
    deck.control.state = HostState.FAILED
    deck.control.error = "the engine stopped on a fault: IntegrityError: block 17 is held twice"
    return deck


def offline() -> FakeDeck:
    return FakeDeck(FakeControl(state=HostState.FAILED, empty=True, error=OFFLINE, start_utc=time.time()))


def young() -> FakeDeck:
    """A few seconds after the start."""
    return running(4.0)


def full() -> FakeDeck:
    return running(75.0)


def no_card() -> FakeDeck:
    deck = running(112.0)
    assert deck.reading is not None
    gpu = GpuSample(
        "0000:03:00.0", "AMD Radeon RX 9070 XT", GpuState.ACTIVE, False, 16 << 30, 14 << 30, usable_bytes=16 << 30,
        gfx_percent=97.0, temperature_c=61.0, power_w=283.0,
    )  # fmt: skip
    deck.reading = replace(deck.reading, gpus=(gpu,))
    deck.control.card = None
    return deck


def twin() -> FakeDeck:
    """A modelled card, one of its figures changed, that does not keep its pace."""
    deck = running(70.0)
    now = tuple((name, 25e9 if name == "link_out" else own) for name, own in fake_control.OWN)
    deck.control.modelled = replace(fake_control.MODELLED, now=now, pace=100.0, kept=42.0)
    return deck


SCENES: dict[str, Callable[[], FakeDeck]] = {
    "running": running,
    "young": young,
    "full": full,
    "crowded": crowded,
    "busy": busy,
    "starting": starting,
    **{f"starting-{stage}": partial(starting, stage) for stage in STAGES},
    "stopped": stopped,
    "growing": partial(running, 98.0),
    "done": partial(running, 125.0),
    "noise": noise,
    "measuring": measuring,
    "empty": empty,
    "moving": moving,
    "ticking": ticking,
    "hostile": hostile,
    "stalled": stalled,
    "failed": failed,
    "offline": offline,
    "no-card": no_card,
    "twin": twin,
}
