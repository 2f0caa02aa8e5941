"""`parkdeck calibrate`: measures the engine that it starts and writes the card profile of this machine."""

import json
import os
import threading
from dataclasses import asdict
from typing import Any

import typer

from app.columns import print_columns
from app.interrupt import interruptible
from app.measuring import measure
from app.progress import Said
from app.settings import config_from
from engine.calibration.plan import DEFAULT, QUICK, Depth
from engine.cards.profile import Calibration, CardProfile
from engine.cards.store import cards_dir
from engine.errors import Refused
from engine.host import Host
from engine.snapshot import HostState
from engine.words import percent
from panels.units import link, rate, seconds, size

STOPS_WITHIN_S = 4.0
LOOK_EVERY_S = 0.1


def run_calibrate(model: str | None, backend: str | None, *, quick: bool, as_json: bool) -> None:
    """Raises Refused when it cannot run, KeyboardInterrupt on Ctrl-C; nothing is written then."""
    given = {"PARKDECK_MODEL": model, "PARKDECK_BACKEND": backend}
    config = config_from({**os.environ, **{name: value for name, value in given.items() if value is not None}})
    host = Host(config.host)
    with interruptible() as ending:
        host.start()
        try:
            while host.snapshot.state is HostState.STARTING:
                if ending.wait(LOOK_EVERY_S):
                    raise KeyboardInterrupt
            host.wait_ready()
            card = _measured(host, QUICK if quick else DEFAULT, ending)
        finally:
            host.stop(STOPS_WITHIN_S)
    if as_json:
        typer.echo(json.dumps(card_object(card)))
    else:
        _print(card)


def _measured(host: Host, depth: Depth, ending: threading.Event) -> CardProfile:
    try:
        with Said() as said:
            return measure(host, depth, lambda p: said(p.fraction, p.note), ending.is_set)
    except Refused:
        if ending.is_set():
            raise KeyboardInterrupt from None
        raise


def card_object(card: CardProfile) -> dict[str, Any]:
    """Everything that was measured and fitted, in seconds and bytes, and where it was written."""
    calibration = _calibration(card)
    return {
        "card": card.id,
        "path": str(cards_dir() / f"{card.id}.toml"),
        "device": card.architecture,
        **asdict(calibration),
        "decode_base_s": card.decode_base.amount,
        "decode_per_turn_s": card.decode_per_turn.amount,
        "decode_per_kv_byte_s": card.decode_per_kv_byte.amount,
        "prefill_tokens_per_s": card.prefill.amount,
        "link_out_bytes_per_s": card.link_out.amount,
        "link_back_bytes_per_s": card.link_back.amount,
        "usable_bytes": card.usable.amount,
        "weights_bytes": card.weights.amount,
        "runtime_bytes": card.runtime.amount,
        "pinned_host_bytes": card.pinned_host.amount,
    }


def _print(card: CardProfile) -> None:
    calibration = _calibration(card)
    typer.echo(f"{calibration.model} on {calibration.backend}: {card.architecture}, {card.memory}\n")
    copies = [(size(p.block_bytes), link(p.out_bytes_per_s), link(p.back_bytes_per_s)) for p in calibration.copies]
    print_columns("block", "copy to host", "copy from host", rows=copies)
    typer.echo()
    print_columns("chunk", "prefill", rows=[(f"{p.chunk:,} tok", rate(p.tokens_per_s)) for p in calibration.prefills])
    typer.echo()
    decodes = []
    for p in calibration.decodes:
        fitted = card.decode_step_s(p.turns, p.kv_bytes)
        off = f"{fitted / p.seconds - 1:+.1%}"
        decodes.append((f"{p.turns}", f"{p.context:,} tok", size(p.kv_bytes), seconds(p.seconds), seconds(fitted), off))
    print_columns("turns", "context", "KV", "decode step", "fitted", "off", rows=decodes)
    base, per_turn, per_kv = card.decode_base, card.decode_per_turn, card.decode_per_kv_byte
    typer.echo(
        f"\nDecode step = {seconds(base.amount)} + turns x {seconds(per_turn.amount)} + KV x {per_kv.value:.3g} ms/GB; "
        f"the fit is off by {percent(calibration.decode_error, 1)} rms, "
        f"{percent(calibration.decode_worst, 1)} at worst."
    )
    typer.echo(f"Card {card.id} written to {cards_dir() / f'{card.id}.toml'}")


def _calibration(card: CardProfile) -> Calibration:
    if card.calibration is None:
        raise AssertionError("a card of this machine carries its calibration")
    return card.calibration
