"""A look at a repository on Hugging Face that fetches no weights: small files whole, large ones from their start."""

from pathlib import Path
from typing import Protocol

from engine.errors import ModelError
from engine.models.gguf_records import CutShort, Records, parse_records
from engine.models.hub import hub_errors, no_weights

_CONFIG = "config.json"
_FIRST_BYTES = 1 << 20
_MOST_HEADER = 1 << 28


class _Readable(Protocol):
    def seek(self, offset: int) -> int: ...

    def read(self, length: int) -> bytes: ...


def config_of(repository: str) -> Path:
    """Raises ModelError when it cannot be had, and says what the repository holds instead."""
    import huggingface_hub

    file = _small_file(repository, _CONFIG)
    if file is not None:
        return file
    with hub_errors(repository):
        files = huggingface_hub.list_repo_files(repository)
    if any(name.endswith(".safetensors") for name in files):
        raise ModelError(f"{repository}: holds no {_CONFIG}, which states the sizes; choose another repository.")
    raise no_weights(repository, files)


def index_of(repository: str) -> Path | None:
    """The list of its safetensors files; None where there is none."""
    return _small_file(repository, "model.safetensors.index.json")


def single_file_start(repository: str) -> tuple[bytes, int] | None:
    """The first 8 bytes and the size of its one safetensors file; None where there is none."""
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError

    file = "model.safetensors"
    with hub_errors(f"{repository}:{file}"):
        try:
            huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(repository, file))
        except EntryNotFoundError:
            return None
        hub = huggingface_hub.HfFileSystem(skip_instance_cache=True)
        with hub.open(f"{repository}/{file}", "rb", block_size=8, cache_type="none") as remote:
            return remote.read(8), remote.size


def gguf_records_of(repository: str, file: str) -> Records:
    """The header of a GGUF file, from its cache or from ranges that double until it is whole."""
    import huggingface_hub

    choice = f"{repository}:{file}"
    with hub_errors(choice):
        kept = huggingface_hub.try_to_load_from_cache(repository, file)
        if isinstance(kept, str):
            with Path(kept).open("rb") as local:
                return _growing(choice, local, Path(kept).stat().st_size)
        # Says why a file cannot be had, which the file system below does not.
        huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(repository, file))
        hub = huggingface_hub.HfFileSystem(skip_instance_cache=True)
        with hub.open(choice.replace(":", "/", 1), "rb", cache_type="none") as remote:
            return _growing(choice, remote, remote.size)


def _growing(choice: str, source: _Readable, size: int) -> Records:
    data, wanted = b"", min(_FIRST_BYTES, size)
    while True:
        source.seek(len(data))
        data += source.read(wanted - len(data))
        try:
            return parse_records(choice, data, size)
        except CutShort as short:
            if short.needed > _MOST_HEADER:
                raise ModelError(
                    f"{choice}: the header claims more than {_MOST_HEADER >> 20} MiB; the file is corrupt, choose "
                    "another one."
                ) from short
            wanted = min(max(short.needed, 2 * len(data)), size)


def _small_file(repository: str, file: str) -> Path | None:
    """None: the repository has none of that name."""
    import huggingface_hub
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    with hub_errors(f"{repository}:{file}"):
        try:
            if not isinstance(huggingface_hub.try_to_load_from_cache(repository, file), str):
                # Asked once and answered at once, where the download would try for half a minute.
                huggingface_hub.get_hf_file_metadata(huggingface_hub.hf_hub_url(repository, file))
            return Path(huggingface_hub.hf_hub_download(repository, file))
        except LocalEntryNotFoundError:
            raise
        except EntryNotFoundError:
            return None
