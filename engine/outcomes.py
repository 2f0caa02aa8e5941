"""What each tier policy came to in this session, while it was in force. Pure over events and samples.

    policy A          change          policy B            change        policy A
    |--s----s-----s----s|s-----s-----s------s-----s----------|s----s-----s------> now

The session is cut at the changes of the policy. Between two samples of one span the counters' differences are that
policy's; what lies between two samples of which one is before a change and one behind it is nobody's. The engine takes
a sample at each change, so that is little, as long as its samples are whole (engine/thinning.py).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.events import Event, EventKind
from engine.histogram import quantile_of
from engine.snapshot import Sample


@dataclass(frozen=True, slots=True)
class Outcome:
    """`in_force_s`: as long as it was the policy in all; `measured_s`: of that, between samples that are there. Counts
    are over the measured time; `swapped_bytes`: out and back; `first_tokens`: how many foreground TTFTs there were,
    whose p95 is in seconds, None without any. `now`: it is in force."""

    policy: str
    in_force_s: float
    measured_s: float
    generated_tokens: int
    swaps: int
    swapped_bytes: int
    recomputed_tokens: int
    first_tokens: int
    ttft_foreground_p95_s: float | None
    now: bool

    @property
    def tokens_per_s(self) -> float | None:
        return self.generated_tokens / self.measured_s if self.measured_s > 0 else None


def outcomes(policy: str, events: Sequence[Event], samples: Sequence[Sample], now: float) -> tuple[Outcome, ...]:
    """Of each policy that was in force, in the order in which they first were. `policy`: the one in force; `events`
    and `samples` of the session, oldest first; `now`: engine clock, seconds."""
    if not samples:
        return ()
    changes = [event for event in events if event.kind is EventKind.KNOB and event.name == "policy"]
    cuts = [event.at for event in changes]
    names = [*(event.old or policy for event in changes), policy]
    # The first sample comes when the engine is up; what is known begins there.
    edges = [samples[0].at, *cuts, max(now, samples[-1].at)]
    steps = [(bisect_right(cuts, late.at), early, late) for early, late in _of_one_span(samples, cuts)]
    return tuple(
        _outcome(name, names, edges, [(early, late) for span, early, late in steps if names[span] == name], policy)
        for name in dict.fromkeys(names)
    )


def _of_one_span(samples: Sequence[Sample], cuts: Sequence[float]) -> list[tuple[Sample, Sample]]:
    """Neighbours with no change between them."""
    pairs = pairwise(samples)
    return [(early, late) for early, late in pairs if bisect_right(cuts, early.at) == bisect_right(cuts, late.at)]


def _outcome(
    name: str, names: Sequence[str], edges: Sequence[float], steps: Sequence[tuple[Sample, Sample]], policy: str
) -> Outcome:
    spans = [(edges[place], edges[place + 1]) for place, one in enumerate(names) if one == name]
    generated = swaps = nbytes = recomputed = 0
    counts: list[int] = []
    for early, late in steps:
        was, since = early.counters, late.counters
        generated += since.generated_tokens - was.generated_tokens
        swaps += since.swaps_out + since.swaps_in - was.swaps_out - was.swaps_in
        nbytes += since.swap_out_bytes + since.swap_in_bytes - was.swap_out_bytes - was.swap_in_bytes
        recomputed += since.recomputed_tokens - was.recomputed_tokens
        if early.ttft_counts and late.ttft_counts:
            counts = counts or [0] * len(late.ttft_counts)
            for place, (less, more) in enumerate(zip(early.ttft_counts, late.ttft_counts, strict=True)):
                counts[place] += more - less
    return Outcome(
        policy=name,
        in_force_s=sum(max(0.0, end - start) for start, end in spans),
        measured_s=sum(late.at - early.at for early, late in steps),
        generated_tokens=generated,
        swaps=swaps,
        swapped_bytes=nbytes,
        recomputed_tokens=recomputed,
        first_tokens=sum(counts),
        ttft_foreground_p95_s=quantile_of(counts, 0.95),
        now=name == policy,
    )
