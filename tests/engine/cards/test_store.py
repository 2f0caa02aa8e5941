"""The user's own cards: kept whole, listed with their reasons, and never outside their directory."""

import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.cards import store
from engine.cards.read import LARGEST_FILE, read_profile
from engine.cards.store import (
    DEFAULT_CARD,
    SHIPPED,
    THIS_MACHINE,
    cards_dir,
    check_writable,
    delete,
    id_of,
    import_card,
    list_cards,
    load_card,
    save,
    save_as,
    shipped_ids,
)
from engine.cards.write import profile_text
from engine.errors import Refused

CARD = load_card()


def own() -> list[str]:
    return [card.id for card in list_cards().cards if card.own]


def test_a_saved_card_is_listed_loaded_and_deleted(own_config: Path) -> None:
    assert own() == []
    saved = save_as(replace(CARD, usable=replace(CARD.usable, value=14.0)), " Cellar  box ")
    assert saved.id == "cellar-box"
    assert load_card("cellar-box") == saved
    assert own() == ["cellar-box"]
    assert [path.name for path in (own_config / "cards").iterdir()] == ["cellar-box.toml"]
    delete("cellar-box")
    assert own() == []
    with pytest.raises(Refused, match="no card 'cellar-box'"):
        delete("cellar-box")
    with pytest.raises(Refused, match="name a file or one of"):
        load_card("cellar-box")


def test_looking_whether_cards_can_be_kept_leaves_nothing(own_config: Path) -> None:
    check_writable()
    assert not list((own_config / "cards").iterdir())


def test_a_file_that_changed_is_read_anew(own_config: Path) -> None:
    save_as(CARD, "Box")
    save_as(replace(CARD, memory="12 GB"), "Box", over="box")
    assert load_card("box").memory == "12 GB"


def test_the_order_of_the_list(own_config: Path) -> None:
    save_as(CARD, "zebra")
    save_as(CARD, "Ape")
    save(replace(CARD, id=THIS_MACHINE, name="This machine"))
    assert [card.id for card in list_cards().cards] == [*shipped_ids(), THIS_MACHINE, "ape", "zebra"]
    assert list_cards().cards[0].id == DEFAULT_CARD


def test_a_broken_file_has_its_reason_and_hides_no_other(own_config: Path) -> None:
    save_as(CARD, "good")
    folder = cards_dir()
    (folder / "broken.toml").write_text("id = ")
    (folder / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (folder / "huge.toml").write_bytes(b"#" * (LARGEST_FILE + 1))
    (folder / f"{DEFAULT_CARD}.toml").write_text(profile_text(CARD))
    (folder / "folder.toml").mkdir()
    (folder / "note.txt").write_text("nothing")
    os.symlink(folder / "nowhere", folder / "gone.toml")
    listed = {card.name: card.problem for card in list_cards().cards if card.own}
    assert listed.pop("good") is None
    assert set(listed) == {"broken.toml", "binary.toml", "huge.toml", f"{DEFAULT_CARD}.toml"}
    assert all(problem and problem.startswith(name) for name, problem in listed.items())
    assert "good" in {card.name for card in list_cards().usable()}
    assert load_card(DEFAULT_CARD) == CARD
    with pytest.raises(Refused, match=r"broken\.toml"):
        load_card("broken")
    delete("broken")
    assert not (folder / "broken.toml").exists()


def test_a_files_name_is_its_id_whatever_it_says(own_config: Path) -> None:
    cards_dir().mkdir(parents=True)
    (cards_dir() / "mine.toml").write_text(profile_text(CARD))
    assert load_card("mine").id == "mine"


@pytest.mark.parametrize("name", ["a\0b", "x" * 5_000, "../none", "/nowhere/at/all.toml"])
def test_a_card_that_is_not_there_is_one_sentence(own_config: Path, name: str) -> None:
    with pytest.raises(Refused, match="there is no card"):
        load_card(name)


@pytest.mark.parametrize(
    "card_id",
    [DEFAULT_CARD, "../up", "a/b", "/etc/passwd", "", ".", "..", "A", "con", "lpt1", "a.b", "x" * 49, "é", "a\0"],
)
def test_an_id_that_cannot_be_is_refused(own_config: Path, card_id: str) -> None:
    with pytest.raises(Refused):
        save(replace(CARD, id=card_id))
    assert not (own_config / "cards").exists()


@pytest.mark.parametrize("card_id", ["../secret", "/etc/passwd", "..", "", "sub/../../secret", DEFAULT_CARD])
def test_only_own_cards_are_deleted(own_config: Path, card_id: str) -> None:
    save_as(CARD, "good")
    secret = own_config / "secret.toml"
    secret.write_text("keep")
    with pytest.raises(Refused):
        delete(card_id)
    assert secret.exists()
    assert (SHIPPED / f"{DEFAULT_CARD}.toml").exists()


@settings(max_examples=300)
@given(st.text(max_size=120))
def test_any_name_makes_a_safe_id_or_is_refused(name: str) -> None:
    try:
        card_id = id_of(name)
    except Refused:
        assert not name.strip()
        return
    assert store._ID.fullmatch(card_id)
    assert card_id not in store._DEVICES
    assert id_of(name) == card_id


def test_ids_of_names() -> None:
    assert id_of("Café  RX 9070 XT!") == "cafe-rx-9070-xt"
    assert id_of("../../etc/passwd") == "etc-passwd"
    assert id_of("NUL") == "card-nul"
    assert id_of("显卡") != id_of("顯卡")


@pytest.mark.parametrize("name", ["RX 9070 XT", "rx 9070 xt", "rx9070xt", "This machine", "THIS-machine", "", "  "])
def test_names_that_are_taken_or_kept(own_config: Path, name: str) -> None:
    with pytest.raises(Refused):
        save_as(CARD, name)


def test_another_card_is_never_replaced_by_accident(own_config: Path) -> None:
    first = save_as(CARD, "Box one")
    for name in ("Box one", "box-one", "BOX ONE"):
        with pytest.raises(Refused, match="there is a card 'Box one' already"):
            save_as(replace(CARD, memory="other"), name)
    assert load_card("box-one") == first
    assert save_as(replace(CARD, memory="other"), "Box one", over="box-one").memory == "other"


def test_a_card_that_is_deleted_while_all_are_listed_is_no_broken_one(
    own_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_as(CARD, "here")
    gone = own_config / "cards" / "gone.toml"
    files = store._own_files
    monkeypatch.setattr(store, "_own_files", lambda: [gone, *files()])
    assert own() == ["here"]


def test_long_names_that_begin_alike_are_two_cards(own_config: Path) -> None:
    for ending in ("one", "two"):
        import_card(profile_text(replace(CARD, name=f"{'a' * 60} {ending}")).encode(), "upload.toml")
    assert len(own()) == 2
    assert all(len(card_id) <= store.LONGEST_ID for card_id in own())


def test_import_and_export_pass_a_card_on(own_config: Path) -> None:
    exported = profile_text(save_as(replace(CARD, memory="12 GB"), "Box")).encode()
    assert import_card(exported, "box.toml").id == "box"
    assert own() == ["box"]
    delete("box")
    assert import_card(exported, "anything.toml").id == "box"
    other = profile_text(replace(CARD, name="Box", memory="8 GB")).encode()
    assert import_card(other, "box.toml").name == "Box 2"
    assert import_card(other, "box.toml").name == "Box 2"
    assert own() == ["box", "box-2"]


def test_importing_a_shipped_card_finds_it_and_a_calibrated_one_gets_a_name_of_its_own(own_config: Path) -> None:
    assert import_card(profile_text(CARD).encode(), "x.toml") == CARD
    machine = replace(CARD, id=THIS_MACHINE, name="This machine", memory="theirs")
    imported = import_card(profile_text(machine).encode(), "x.toml")
    assert imported.id == "this-machine-2"
    assert THIS_MACHINE not in own()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "missing|empty"),
        (b"\x89PNG\r\n\x1a\n\xff", "no text in UTF-8"),
        (b"#" * (LARGEST_FILE + 1), "larger than 256 KiB"),
        (b"id = ", "cannot be read"),
        (profile_text(CARD).replace("value = 15.5", "value = -1").encode(), "out of range"),
    ],
)
def test_an_upload_that_is_no_profile_is_refused_by_name(own_config: Path, content: bytes, words: str) -> None:
    with pytest.raises(Refused, match=words) as caught:
        import_card(content, "up.toml")
    assert str(caught.value).startswith("up.toml")
    assert own() == []


def test_a_byte_order_mark_is_no_mistake(own_config: Path) -> None:
    renamed = profile_text(replace(CARD, name="From a notepad"))
    assert import_card(b"\xef\xbb\xbf" + renamed.encode(), "x.toml").name == "From a notepad"


def test_a_full_disk_is_one_sentence_and_leaves_the_old_file(own_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = save_as(CARD, "Box")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match=r"No space left on device.*PARKDECK_CONFIG_DIR"):
        save_as(replace(CARD, memory="other"), "Box", over="box")
    assert load_card("box") == kept
    assert [path.name for path in cards_dir().iterdir()] == ["box.toml"]


def test_a_directory_that_cannot_be_written_or_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file where the directory should be: root may write everywhere else."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PARKDECK_CONFIG_DIR", str(tmp_path / "file"))
    with pytest.raises(Refused, match="cannot be kept here"):
        save_as(CARD, "Box")
    with pytest.raises(Refused, match="cannot be kept here"):
        check_writable()
    listed = list_cards()
    assert listed.problem is not None
    assert [card.id for card in listed.cards] == list(shipped_ids())
    assert load_card() == CARD


def test_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PARKDECK_CONFIG_DIR")
    monkeypatch.setattr("platformdirs.user_config_dir", lambda *_, **__: "~/.config/parkdeck")
    monkeypatch.setattr(os.path, "expanduser", str)
    with pytest.raises(Refused, match="set PARKDECK_CONFIG_DIR"):
        save_as(CARD, "Box")
    assert "home" in (list_cards().problem or "")


def test_a_text_that_no_file_can_hold(own_config: Path) -> None:
    with pytest.raises(Refused, match="UTF-8"):
        save(replace(CARD, id="box", name="lone \ud800"))
    assert own() == []


def test_a_card_that_would_not_be_read_back_is_not_saved(own_config: Path) -> None:
    with pytest.raises(Refused, match="out of range"):
        save(replace(CARD, id="box", slots=replace(CARD.slots, value=0)))
    assert own() == []


def test_abandoned_drafts_go_and_young_ones_stay(own_config: Path) -> None:
    cards_dir().mkdir(parents=True)
    old, young = cards_dir() / ".draft-old", cards_dir() / ".draft-young"
    for draft in (old, young):
        draft.write_text("half")
    os.utime(old, (1, 1))
    save_as(CARD, "Box")
    assert not old.exists()
    assert young.exists()


SAVE_OFTEN = """
import sys
from dataclasses import replace
from engine.cards.store import load_card, save
card = load_card()
for _ in range(30):
    save(replace(card, id="box", memory=sys.argv[1]))
"""


def test_two_that_save_at_once_leave_one_whole_file(own_config: Path) -> None:
    save(replace(CARD, id="box", memory="first"))
    there = os.environ | {"PARKDECK_CONFIG_DIR": str(own_config), "PYTHONPATH": os.pathsep.join(sys.path)}
    writers = [subprocess.Popen([sys.executable, "-c", SAVE_OFTEN, memory], env=there) for memory in ("one", "two")]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(read_profile(cards_dir() / "box.toml").memory)
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen <= {"first", "one", "two"}
    assert load_card("box").memory in {"one", "two"}
    assert [path.name for path in cards_dir().iterdir()] == ["box.toml"]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_no_upload_gets_past_the_reader(own_config: Path, content: bytes) -> None:
    with pytest.raises(Refused):
        import_card(content, "up.toml")
