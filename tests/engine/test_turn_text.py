"""End tokens, text and stop strings through the engine with the real tokenizer; the tokens are dictated (cases L4, H4,
H5)."""

from dataclasses import replace

import numpy as np
import pytest

from engine.backends.torch.executor import ArenaView
from engine.models.loaded import LoadedModel
from engine.turn import Finish, Phase, TurnId, TurnRequest, TurnUpdate
from tests.engine.backends.fake_executor import FakeExecutor
from tests.engine.lab import Lab

PROMPT = (5, 6, 7)


class Dictated(FakeExecutor):
    """Says the given tokens, whatever the context."""

    def __init__(self, model: LoadedModel, tokens: list[int]) -> None:
        super().__init__()
        self.config = replace(self.config, vocab_size=model.config.vocab_size)
        self._tokens = tokens

    def _read(self, arena: ArenaView, table: np.ndarray, count: int) -> np.ndarray:
        logits = np.zeros(self.config.vocab_size, np.float32)
        logits[self._tokens[count - len(PROMPT)]] = 9.0
        return logits


class TextLab(Lab):
    """A lab whose engine knows the real tokenizer."""

    def __init__(self, model: LoadedModel, tokens: list[int]) -> None:
        super().__init__(executor=Dictated(model, tokens))
        self.core.model = model.served
        self.updates: list[TurnUpdate] = []

    def say(self, count: int, stop: tuple[str, ...] = (), ignore_eos: bool = False) -> TurnId:
        request = TurnRequest("agent", PROMPT, count, stop=stop, ignore_eos=ignore_eos)
        turn = self.commands.submit(request, self.updates.append, "api", self.clock.now())
        self.finish([turn])
        assert self.phase(turn) is Phase.DONE
        return turn

    @property
    def text(self) -> str:
        return "".join(u.text for u in self.updates)

    @property
    def finish_reason(self) -> Finish | None:
        return self.updates[-1].finish


@pytest.mark.parametrize("end", ["<|im_end|>", "<|endoftext|>"])
def test_each_end_token_stops_without_a_marker_in_the_text(default_model: LoadedModel, end: str) -> None:
    said = default_model.tokenizer.encode("Hello there", add_bos=False)
    marker = default_model.tokenizer.token_id(end)
    assert marker is not None
    lab = TextLab(default_model, [*said, marker, *said, *said])
    lab.say(40)
    assert lab.finish_reason is Finish.STOP
    assert lab.text == "Hello there"


def test_a_start_marker_is_no_stop_and_ignore_eos_goes_on(default_model: LoadedModel) -> None:
    start, end = (default_model.tokenizer.token_id(t) for t in ("<|im_start|>", "<|im_end|>"))
    assert start is not None
    assert end is not None
    said = default_model.tokenizer.encode("one two", add_bos=False)
    lab = TextLab(default_model, [*said, start, *said, end, *said, *said])
    lab.say(3 * len(said) + 2, ignore_eos=True)
    assert lab.finish_reason is Finish.LENGTH
    assert lab.text == "one twoone twoone two"


def test_characters_split_over_tokens_come_whole(default_model: LoadedModel) -> None:
    text = "a😀你好é\n"
    said = default_model.tokenizer.encode(text, add_bos=False)
    lab = TextLab(default_model, [*said, *said])
    lab.say(len(said))
    assert lab.text == text
    assert all("�" not in u.text for u in lab.updates)


def test_cut_in_mid_character_the_broken_one_is_marked_once(default_model: LoadedModel) -> None:
    said = default_model.tokenizer.encode("a😀", add_bos=False)
    lab = TextLab(default_model, [*said, *said])
    lab.say(len(said) - 1)
    assert lab.text.startswith("a")
    assert lab.text.count("�") <= 1


def test_a_stop_string_over_several_tokens_is_never_sent(default_model: LoadedModel) -> None:
    text = "The quick brown fox jumps over the lazy dog and runs away"
    said = default_model.tokenizer.encode(text, add_bos=False)
    lab = TextLab(default_model, [*said, *said])
    lab.say(len(said), stop=("n fox ju", "fox jumps over"))
    assert lab.finish_reason is Finish.STOP
    assert lab.text == "The quick brow"
    assert "n" not in lab.text[-1]
