"""Where card profiles are: those that ship, in assets/cards, and the user's own, in the user's config directory.

An id is a file's name without `.toml`. Own files are written beside their place and renamed into it, so a file is
whole or absent and of two that save at once the last one wins.
"""

import hashlib
import os
import re
import time
import unicodedata
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import platformdirs

from engine.cards.profile import CardProfile
from engine.cards.read import profile_from_bytes, read_profile
from engine.cards.write import HEAD, profile_text
from engine.errors import Refused

SHIPPED = Path(__file__).resolve().parents[2] / "assets" / "cards"
DEFAULT_CARD = "rx9070xt"
THIS_MACHINE = "this-machine"
LONGEST_ID = 48
ABANDONED_AFTER_S = 3600.0
_ID = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{LONGEST_ID - 1}}}")
# Names that Windows gives to devices, whatever their suffix.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))}


@dataclass(frozen=True, slots=True)
class CardEntry:
    """One card that is there. `problem`: why it cannot be read, one sentence; its name is then the file's."""

    id: str
    name: str
    own: bool
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class CardList:
    """The default first, then what ships, then this machine, then the user's own by name. `problem`: why the user's
    own cannot be looked for."""

    cards: tuple[CardEntry, ...]
    problem: str | None = None

    def usable(self) -> tuple[CardEntry, ...]:
        return tuple(card for card in self.cards if card.problem is None)

    def find(self, card_id: str) -> CardEntry | None:
        return next((card for card in self.cards if card.id == card_id), None)


def cards_dir() -> Path:
    """`cards` in PARKDECK_CONFIG_DIR, or in the user's config directory of this platform. Raises Refused where the
    user has no home."""
    override = os.environ.get("PARKDECK_CONFIG_DIR")
    root = Path(os.path.expanduser(override or platformdirs.user_config_dir("parkdeck", appauthor=False)))
    if str(root).startswith("~"):
        raise Refused("there is no home directory to keep cards in; set PARKDECK_CONFIG_DIR to a directory")
    return root / "cards"


def shipped_ids() -> tuple[str, ...]:
    return tuple(sorted((path.stem for path in SHIPPED.glob("*.toml")), key=lambda name: (name != DEFAULT_CARD, name)))


def list_cards() -> CardList:
    """Every card; one that cannot be read is there with its reason and hides no other."""
    shipped = [CardEntry(name, _read(SHIPPED / f"{name}.toml").name, own=False) for name in shipped_ids()]
    try:
        own = [card for path in _own_files() if (card := _entry(path)) is not None]
    except Refused as refusal:
        return CardList(tuple(shipped), str(refusal))
    own.sort(key=lambda card: (card.id != THIS_MACHINE, card.name.casefold(), card.id))
    return CardList((*shipped, *own))


def load_card(id_or_path: str | Path = DEFAULT_CARD) -> CardProfile:
    """A card by its id, or a file. Raises Refused naming the file and what is wrong in it."""
    wanted = str(id_or_path)
    if wanted in shipped_ids():
        return _read(SHIPPED / f"{wanted}.toml")
    path = Path(id_or_path)
    cards = list_cards()
    if (entry := cards.find(wanted)) is not None and entry.own:
        return replace(_read(cards_dir() / f"{wanted}.toml"), id=wanted)
    if not _is_file(path):
        if wanted == THIS_MACHINE:
            raise Refused("this machine has not been measured yet; run `parkdeck calibrate`")
        names = ", ".join(card.id for card in cards.usable())
        raise Refused(f"there is no card {wanted[:80]!r}; name a file or one of {names}")
    return read_profile(path)


def save(profile: CardProfile) -> CardProfile:
    """Keeps the profile under its id, in place of an own one that has it, and returns it as it will be read. Raises
    Refused for an id that ships or is no safe name of a file, and where it cannot be written."""
    _checked_id(profile.id)
    content = _content(profile)
    read_back = profile_from_bytes(content, profile.name)
    folder = cards_dir()
    with _drafted(folder, content) as draft:
        draft.replace(folder / f"{profile.id}.toml")
    return read_back


def check_writable() -> None:
    """Raises Refused where `save` could keep no card."""
    with _drafted(cards_dir(), HEAD.encode()):
        pass


def save_as(profile: CardProfile, name: str, over: str | None = None) -> CardProfile:
    """Saves under `name` and the id that is made of it. `over`: the own card that may be replaced. Raises Refused where
    another card has the name or the id, and for the calibrated machine's."""
    card_id, stated = id_of(name), name.strip()
    if card_id == THIS_MACHINE:
        raise Refused(f"the name {stated!r} is kept for the calibrated machine; choose another")
    for card in list_cards().cards:
        if card.id != over and (card.id == card_id or card.name.casefold() == stated.casefold()):
            raise Refused(f"there is a card {card.name!r} already; choose another name, or open that one and save it")
    return save(replace(profile, id=card_id, name=stated))


def delete(card_id: str) -> None:
    """Removes an own card, whole or broken. Raises Refused for one that ships or is not there."""
    if card_id in shipped_ids():
        raise Refused(f"card {card_id} ships with Parkdeck and stays; only your own can be deleted")
    folder = cards_dir()
    for path in _own_files():
        if path.stem == card_id:
            with _writing(folder):
                path.unlink(missing_ok=True)
            return
    raise Refused(f"there is no card {card_id[:80]!r} of yours; it may be deleted already")


def import_card(content: bytes, file: str) -> CardProfile:
    """Keeps an uploaded profile under its own name, or that name and a number where another card has it. One that is
    there already, figure for figure, is returned as it is. Raises Refused."""
    profile = profile_from_bytes(content, file)
    cards = list_cards()
    named = {card.name.casefold(): card for card in cards.usable()}
    taken = {card.id for card in cards.cards} | {THIS_MACHINE}
    number = 1
    while True:
        name = profile.name if number == 1 else f"{profile.name} {number}"
        if (card := named.get(name.casefold())) is not None:
            there = load_card(card.id)
            if replace(there, id=profile.id, name=profile.name) == profile:
                return there
        elif (card_id := id_of(name)) not in taken:
            return save(replace(profile, id=card_id, name=name))
        number += 1


def id_of(name: str) -> str:
    """A name as the id of a file: small letters, digits and dashes. Raises Refused for a name without any text."""
    stated = name.strip()
    if not stated:
        raise Refused("the name is empty; give the card a name")
    plain = unicodedata.normalize("NFKD", stated).encode("ascii", "ignore").decode().lower()
    card_id = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    mark = hashlib.sha256(stated.encode(errors="replace")).hexdigest()[:8]
    if not card_id:
        return f"card-{mark}"
    if len(card_id) > LONGEST_ID:
        # Cut names that begin alike stay apart.
        return f"{card_id[: LONGEST_ID - len(mark) - 1].rstrip('-')}-{mark}"
    return f"card-{card_id}" if card_id in _DEVICES else card_id


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        # A name that no file can have.
        return False


def _checked_id(card_id: str) -> None:
    if card_id in shipped_ids():
        raise Refused(f"card {card_id} ships with Parkdeck; save yours under another name")
    if not _ID.fullmatch(card_id) or card_id in _DEVICES:
        raise Refused(f"{card_id[:80]!r} cannot be a card's id; give small letters, digits and dashes")


def _content(profile: CardProfile) -> bytes:
    try:
        return profile_text(profile).encode()
    except UnicodeEncodeError:
        raise Refused(f"{profile.id}: a text of this card cannot be stored as UTF-8; type it anew") from None


def _own_files() -> list[Path]:
    """Raises Refused where the directory is there and cannot be looked into."""
    folder = cards_dir()
    try:
        return sorted(path for path in folder.iterdir() if path.suffix == ".toml" and path.is_file())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Refused(f"{folder}: your cards cannot be read ({error.strerror or error})") from None


def _entry(path: Path) -> CardEntry | None:
    """None for a file that somebody deleted since it was listed."""
    if path.stem in shipped_ids():
        return CardEntry(path.stem, path.name, True, f"{path.name}: a shipped card has this id; rename the file")
    try:
        return CardEntry(path.stem, _read(path).name, own=True)
    except Refused as refusal:
        return CardEntry(path.stem, path.name, True, str(refusal)) if os.path.lexists(path) else None


def _read(path: Path) -> CardProfile:
    """As `read_profile`; a page asks again at each click, so a file is read once as long as it does not change."""
    try:
        stat = path.stat()
    except OSError as error:
        raise Refused(f"{path.name}: cannot be read as a card profile ({error.strerror or error})") from None
    return _read_once(path, stat.st_ino, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=64)
def _read_once(path: Path, inode: int, changed_ns: int, size: int) -> CardProfile:
    return read_profile(path)


def _drop_abandoned(folder: Path) -> None:
    """Removes drafts whose process was killed while it wrote."""
    for draft in folder.glob(".draft-*"):
        with suppress(OSError):
            if time.time() - draft.stat().st_mtime > ABANDONED_AFTER_S:
                draft.unlink()


@contextmanager
def _drafted(folder: Path, content: bytes) -> Iterator[Path]:
    """A file of `content` in `folder`, on the disk, that is gone afterwards unless it was renamed."""
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        _drop_abandoned(folder)
        draft = folder / f".draft-{uuid.uuid4().hex[:12]}"
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            yield draft
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refused(
            f"{folder}: cards cannot be kept here ({error.strerror or error}); make room, check its permissions, or "
            "set PARKDECK_CONFIG_DIR to another directory"
        ) from None
