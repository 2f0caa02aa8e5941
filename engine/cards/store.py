"""Where card profiles are: those that ship, in assets/cards."""

from pathlib import Path

from engine.cards.profile import CardProfile
from engine.cards.read import read_profile
from engine.errors import Refused

SHIPPED = Path(__file__).resolve().parents[2] / "assets" / "cards"
DEFAULT_CARD = "rx9070xt"


def card_names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.toml")))


def load_card(name_or_path: str | Path = DEFAULT_CARD) -> CardProfile:
    """A profile by its name, or a file. Raises Refused naming the file and what is wrong in it."""
    if str(name_or_path) in card_names():
        return read_profile(SHIPPED / f"{name_or_path}.toml")
    path = Path(name_or_path)
    if not path.is_file():
        raise Refused(f"there is no card {str(name_or_path)!r}; name a file or one of {', '.join(card_names())}")
    return read_profile(path)
