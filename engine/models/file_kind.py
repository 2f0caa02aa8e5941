"""What a file that is not the expected model seems to be, for the message that refuses it."""

from pathlib import Path

from engine.errors import ModelError

GGUF_MAGIC = b"GGUF"
PICKLES = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})


def looks_like(head: bytes) -> str:
    """Told from the first bytes."""
    start = head.lstrip().lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "an HTML page"
    if start.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer"
    if head.startswith((b"\x80", b"PK\x03\x04")):
        return "a pickle or zip archive"
    if head.startswith(GGUF_MAGIC):
        return "a GGUF file"
    return "something else"


def not_gguf(path: Path | str, head: bytes) -> ModelError:
    """For a file that is one by its name alone."""
    if not head:
        return ModelError(f"{path}: the file is empty; download it again.")
    return ModelError(f"{path}: not a GGUF file but {looks_like(head)}; download the model file itself.")


def pickle_refused(path: Path | str) -> ModelError:
    """Pickles run code when they are opened, so none ever is."""
    return ModelError(
        f"{path}: a pickle file, which can run code when opened and is never loaded; use the model's safetensors or "
        "a GGUF file."
    )
