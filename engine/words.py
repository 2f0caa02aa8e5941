"""Figures in the sentences that a person reads: counts with their noun, bytes with their scale, shares in percent."""


def counted(number: int, noun: str) -> str:
    """'1 block', '2 blocks'."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def took(seconds: float) -> str:
    """'1.7 s', '38 ms'."""
    return f"{seconds:,.1f} s" if seconds >= 0.95 else f"{seconds * 1e3:.3g} ms"


def percent(share: float, digits: int = 0) -> str:
    """'43 %', '2.1 %'."""
    return f"{100 * share:.{digits}f} %"


def mib(nbytes: int, *, twin: bool = False) -> str:
    """The engine knows no other scale than its machine's, or its card's, and a page may show another beside it: so it
    is named."""
    return f"{nbytes / 2**20:,.1f} MiB of {'the card' if twin else 'this machine'}"
