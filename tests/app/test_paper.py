"""`parkdeck plan` and `parkdeck prices`: what scripts read, and every refusal in one sentence."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli import MAKE
from engine.cards.store import SHIPPED

FIT = {
    "bytes_per_token",
    "turn_gib",
    "running_gib",
    "used_gib",
    "headroom_gib",
    "paused_fit",
    "long_turn_gib",
    "long_fits",
    "fill_context",
}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(MAKE, arguments)


def test_plan_as_json() -> None:
    done = run("plan", *["--card", "rx9070xt", "--preset", "ceiling", "--context", "6144", "--long", "16384", "--json"])
    assert done.exit_code == 0
    told = json.loads(done.output)
    assert set(told) == {"fp16", "q8", "q8_half"}
    assert all(set(fit) >= FIT for fit in told.values())
    fp16 = told["fp16"]
    assert [fp16[key] for key in ("turn_gib", "running_gib", "used_gib", "headroom_gib")] == [0.9375, 7.5, 13.5, 2.0]
    assert (fp16["paused_fit"], fp16["long_fits"], fp16["fill_context"]) == (2, False, 7_782)
    assert (told["q8"]["paused_fit"], told["q8"]["fill_context"]) == (11, 15_093)
    assert (told["q8_half"]["paused_fit"], told["q8_half"]["long_fits"]) == (12, True)


def test_plan_in_words() -> None:
    done = run("plan")
    assert done.exit_code == 0
    assert "modelled from the card's profile, nothing measured" in done.output
    assert "0.9375 GiB" in done.output
    assert "2.50 GiB" in done.output


def test_prices_as_json() -> None:
    done = run("prices", *["--card", "rx9070xt", "--preset", "swap", "--json"])
    assert done.exit_code == 0
    told = json.loads(done.output)
    assert [row["tokens"] for row in told["rows"]] == [2_000, 6_900, 16_000, 32_000, 55_000]
    row = told["rows"][1]
    assert row["swap_ms"] == pytest.approx(40.572)
    assert row["recompute_s"] == pytest.approx(7.17256, abs=1e-5)
    assert told["break_even_prefill_tok_s"] == pytest.approx(170_068.03, abs=0.01)
    assert told["break_even_restore_only_tok_s"] == pytest.approx(340_136.05, abs=0.01)
    assert (told["card_tokens"], told["host_tokens"]) == (55_102, 326_530)


def test_prices_take_contexts_and_rates() -> None:
    command = "prices --preset swap --context 1000 --context 3000 --link 25 --prefill 1924 --host 0 --exact --json"
    told = json.loads(run(*command.split()).output)
    assert [row["tokens"] for row in told["rows"]] == [1_000, 3_000]
    assert told["rows"][0]["swap_ms"] == pytest.approx(2 * 147_456_000 / 25e9 * 1e3)
    assert told["rows"][0]["recompute_s"] == pytest.approx(1_000 / 1_924)
    assert told["host_tokens"] == 0


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("plan --card nope", "there is no card 'nope'"),
        ("plan --preset nope", "has no preset 'nope'; choose ceiling"),
        ("plan --weights much", "'much' is no size"),
        ("plan --weights 40GiB", "leave no bytes for KV"),
        ("plan --card this-machine", "run `parkdeck calibrate`"),
        ("plan --context 0", "Mean context 0 tokens is out of range"),
        ("plan --long -1", "Long context -1 tokens is out of range"),
        ("plan --slots 99999999999999999999999", "Slots 99999999999999999999999 turns is out of range"),
        ("plan nowhere.gguf", "no such file"),
        ("plan nowhere.gguf --preset swap", "exclude each other"),
        ("prices --link 0", "Copy to host 0 GB/s is out of range"),
        ("prices --link nan", "is not a number"),
        ("prices --prefill -3", "Prefill rate -3 tok/s is out of range"),
        ("prices --host -1", "Pinned host memory -1 GB is out of range"),
        ("prices --context 0", "Mean context 0 tokens is out of range"),
        ("prices --kv-dtype int4", "choose fp16 or q8"),
        ("plan --context many", "Invalid value for '--context'"),
        ("plan --context", "--context"),
        ("plan --sloots 8", "No such option"),
        ("prices --link lots", "Invalid value for '--link'"),
        ("plan one two", "two"),
        ("plane", "No such command"),
    ],
)
def test_what_cannot_be_is_one_sentence(command: str, words: str) -> None:
    done = run(*command.split())
    assert done.exit_code == 2
    assert words in done.output
    assert "Traceback" not in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_no_text_of_a_profile_reaches_the_terminal_as_control_characters(tmp_path: Path) -> None:
    text = (SHIPPED / "rx9070xt.toml").read_text(encoding="utf-8")
    text = text.replace('name = "RX 9070 XT"', 'name = "RX\\u001b[31m"').replace("notes = [", 'notes = ["a\\u001b[2J",')
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    for command in ("plan", "prices"):
        done = run(command, "--card", str(file))
        assert done.exit_code == 0
        assert "\x1b" not in done.output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_the_output_is_one_sentence(unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "app.cli", "prices", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_cards_lists_what_there_is() -> None:
    done = run("cards")
    assert done.exit_code == 0
    assert "rx9070xt" in done.output
    assert "ceiling, swap, qwen3.5-9b" in done.output


def test_a_model_by_its_config_alone_keeps_the_cards_weights_and_says_so(tmp_path: Path) -> None:
    config = {"model_type": "llama", "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
              "hidden_size": 4096, "max_position_embeddings": 131072}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    told = run("plan", str(tmp_path)).output
    assert "131,072 B" in told
    assert "Weights, decode step and prefill rate are the card's, which are of 9B at Q4_K_M" in told
    given = run("plan", str(tmp_path), "--weights", "4.5GiB").output
    assert "weights 4.5 GiB" in given
    assert "Decode step and prefill rate are the card's" in given


def test_a_studys_notes_stand_at_its_own_load_alone() -> None:
    assert "11 paused turns fit and not 12" in run("plan").output
    assert "11 paused turns fit" not in run("plan", "--context", "32768").output
    assert "340,000" in run("prices", "--preset", "swap").output
    assert "340,000" not in run("prices", "--preset", "swap", "--link", "25").output
