"""The player in virtual time: what agents ask of the engine, when, and what happens when it says no."""

import pytest

from engine.events import EventKind
from engine.turn import Phase, Priority, TurnId
from engine.workload.player import Player
from engine.workload.readers import load_workload
from engine.workload.script import AgentScript, Round, ScriptedTurn, Workload
from tests.engine.workload.fake_control import FakeControl, fake_model, play

TURN = ScriptedTurn((Round(40, 6, "bash", 2000), Round(8, 4)), 500)
ONE = Workload("one", (AgentScript("a", Priority.BACKGROUND, (TURN,)),))


def playing(workload: Workload = ONE, agents: int = 1, **control: object) -> tuple[Player, FakeControl]:
    fake = FakeControl(**control)  # type: ignore[arg-type]
    player = Player(fake, workload)
    player.set_agents(agents, 0.0)
    return player, fake


def test_a_turn_blocks_on_its_tool_returns_and_the_next_one_starts() -> None:
    player, control = playing()
    play(player, control, 5.0)
    first = control.submitted[0]
    assert (first.agent, len(first.prompt), first.max_tokens, first.then_block) == ("a", 40, 6, "bash")
    assert first.ignore_eos
    waited, result = control.unblocked[0]
    assert waited == pytest.approx(2.0, abs=0.15)
    assert (len(result.tokens), result.max_tokens, result.then_block) == (8, 4, None)
    assert control.ended[0].phase is Phase.DONE
    assert control.ended[0].context == 40 + 6 + 8 + 4
    assert len(control.submitted) == 2
    assert control.submitted[1].prompt != first.prompt
    assert player.status.turns_done == 1


def test_blocked_fraction_is_that_of_the_turns() -> None:
    player, control = playing()
    assert player.status.blocked_fraction is None
    play(player, control, 60.0)
    live = sum((turn.ended_at or 0) - turn.live_at for turn in control.ended)
    assert player.status.blocked_fraction == pytest.approx(sum(t.blocked_s for t in control.ended) / live, abs=0.05)


def test_speed_divides_tool_times_and_changes_waits_under_way() -> None:
    player, control = playing()
    player.set_speed(4.0, 0.0)
    play(player, control, 4.0)
    assert control.unblocked[0][0] == pytest.approx(0.5, abs=0.15)
    slow, control = playing(Workload("w", (AgentScript("a", Priority.BACKGROUND, (
        ScriptedTurn((Round(40, 6, "build", 60_000), Round(8, 4))),)),)))  # fmt: skip
    play(slow, control, 10.0)
    assert control.unblocked == []
    slow.set_speed(50.0, control.now)
    play(slow, control, 3.0)
    assert control.unblocked[0][0] == pytest.approx(10.5, abs=1.0)


def test_fewer_agents_cancel_their_turns_and_more_arrive() -> None:
    workload = load_workload("swarm")
    player, control = playing(workload, 10)
    play(player, control, 30.0)
    live = len(control.turns)
    player.set_agents(2, control.now)
    assert len(control.turns) <= 2
    assert len(control.cancelled) >= live - 2
    player.set_agents(45, control.now)
    play(player, control, 40.0)
    names = {request.agent for request in control.submitted}
    assert {"coder-01", "coder-01.2", "coder-01.3"} <= names
    assert player.status.agents == 45
    prompts = [request.prompt for request in control.submitted]
    assert len(set(prompts)) == len(prompts)


def test_fewer_agents_send_background_away_first_and_it_comes_back() -> None:
    agents = (("bg-0", Priority.BACKGROUND), ("bg-1", Priority.BACKGROUND), ("person", Priority.FOREGROUND))
    player, control = playing(Workload("w", tuple(AgentScript(name, who, (TURN,)) for name, who in agents)), 3)

    def present() -> set[str]:
        control.submitted.clear()
        play(player, control, 10.0)
        return {request.agent for request in control.submitted}

    assert present() == {"bg-0", "bg-1", "person"}
    player.set_agents(2, control.now)
    assert present() == {"bg-0", "person"}
    player.set_agents(1, control.now)
    assert present() == {"person"}
    player.set_agents(4, control.now)
    assert present() == {"bg-0", "bg-1", "person", "bg-0.2"}


def test_refused_submissions_back_off_are_counted_and_shown() -> None:
    player, control = playing(refuse=lambda request: "the arena holds 100 tokens, this turn needs 400")
    play(player, control, 120.0)
    assert 6 <= len(control.submitted) <= 12
    assert player.status.refused == len(control.submitted)
    assert player.status.problem == "the arena holds 100 tokens, this turn needs 400"
    assert player.status.live == 0
    assert control.noted == [
        ("a turn of a was refused: the arena holds 100 tokens, this turn needs 400", "swarm", EventKind.REFUSE),
    ]
    control.refuse = lambda request: None
    play(player, control, 60.0)
    assert player.status.turns_done > 3


def test_a_failed_turn_is_counted_and_the_agent_goes_on() -> None:
    player, control = playing()
    play(player, control, 1.0)
    assert control.turns[TurnId(1)].phase is Phase.BLOCKED
    control.fail(TurnId(1), "abandoned after 900 s")
    play(player, control, 10.0)
    assert player.status.failed == 1
    assert player.status.problem == "abandoned after 900 s"
    assert all(result.turn != TurnId(1) for _, result in control.unblocked)
    assert player.status.turns_done > 0


def test_a_refused_return_ends_the_turn_and_leaves_nothing_behind() -> None:
    player, control = playing(unblock_refusal="turn 1 is not known; it was abandoned")
    play(player, control, 4.0)
    assert player.status.refused >= 1
    assert TurnId(1) in control.cancelled
    assert TurnId(1) not in control.turns


def test_an_operator_cancels_or_blocks_a_turn_of_the_swarm() -> None:
    player, control = playing()
    play(player, control, 0.2)
    control.cancel(TurnId(1), "page")
    play(player, control, 2.0)
    assert player.status.cancelled == 1
    while control.turns[TurnId(2)].then_block is not None:
        play(player, control, 0.05)
    control.block(TurnId(2), "page-tool")
    play(player, control, 5.0)
    assert TurnId(2) not in control.turns
    assert player.status.turns_done >= 1


def test_waits_for_the_model_and_cuts_to_its_context() -> None:
    player, control = playing(model=None)
    play(player, control, 5.0)
    assert control.submitted == []
    control.model = fake_model(max_context=30)
    play(player, control, 5.0)
    assert len(control.submitted[0].prompt) + control.submitted[0].max_tokens <= 30
    assert player.status.notes[0].startswith("1 of 1 turns were longer than the context of 30 tokens")


def test_one_more_agent_takes_its_turn_once() -> None:
    player, control = playing(agents=0)
    player.once(AgentScript("now", Priority.FOREGROUND, (TURN,)), control.now)
    play(player, control, 20.0)
    assert [request.agent for request in control.submitted] == ["now"]
    assert control.ended[0].phase is Phase.DONE
    assert control.submitted[0].priority is Priority.FOREGROUND


def test_close_leaves_no_turn_even_when_its_submission_is_under_way() -> None:
    player, control = playing(load_workload("swarm"), 20)
    play(player, control, 20.0)
    assert control.turns
    player.set_agents(30, control.now)
    player.close(control.now)
    assert control.turns == {}
    player.advance(control.now + 100)
    assert control.turns == {}
    assert not player.status.running


def test_same_seed_same_requests() -> None:
    runs = []
    for _ in range(2):
        player, control = playing(load_workload("swarm"), 8)
        play(player, control, 30.0)
        runs.append(control.submitted)
    assert runs[0] == runs[1]


def test_agents_that_play_once_take_each_of_their_turns_and_leave() -> None:
    """Five agents of a workload of two: copies take as many turns as the script has, though they start at another."""
    other = AgentScript("b", Priority.FOREGROUND, (TURN, TURN, TURN))
    control = FakeControl()
    player = Player(control, Workload("two", (*ONE.agents, other)))
    player.play_once(5, 0.0)
    assert not player.idle
    play(player, control, 60.0)
    assert player.idle
    names = [request.agent for request in control.submitted]
    assert {name: names.count(name) for name in names} == {"a": 1, "a.2": 1, "a.3": 1, "b": 3, "b.2": 3}
    assert player.status.turns_done == 9


def test_what_is_posted_is_told_until_it_is_read() -> None:
    player, control = playing(agents=0)
    assert player.idle
    player.post(lambda now: None)
    assert player.posted
    assert not player.idle
    player.advance(control.now)
    assert not player.posted
