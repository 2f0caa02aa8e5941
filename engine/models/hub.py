"""Models from the Hugging Face hub, kept in its own cache; without network, what is there already."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import ModelError
from engine.models.file_kind import PICKLES, pickle_refused
from engine.models.progress import Progress, Report

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(:[^:]+)?")
_LONGEST_ID = 96
_FILES = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja"]
_NOT = ["*/*", "consolidated*", "*.gguf"]


def is_hub_id(choice: str) -> bool:
    """`org/name`, or `org/name:file.gguf` for one file of a repository."""
    return len(choice.partition(":")[0]) <= _LONGEST_ID and _ID.fullmatch(choice) is not None


def fetch_from_hub(choice: str, report: Report) -> Path:
    """A directory of safetensors, or one GGUF file. Raises ModelError when it cannot be had or holds neither."""
    import huggingface_hub

    repository, _, file = choice.partition(":")
    report(Progress("download", None, f"fetching {choice} from Hugging Face"))
    with hub_errors(choice):
        if file:
            if Path(file).suffix in PICKLES:
                raise pickle_refused(choice)
            return Path(huggingface_hub.hf_hub_download(repository, file))
        path = Path(huggingface_hub.snapshot_download(repository, allow_patterns=_FILES, ignore_patterns=_NOT))
        if not any(path.glob("*.safetensors")):
            raise no_weights(repository, huggingface_hub.list_repo_files(repository))
    return path


@contextmanager
def hub_errors(choice: str) -> Iterator[None]:
    """What Hugging Face's client raises within leaves as a ModelError of one sentence."""
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
    )

    repository, _, file = choice.partition(":")
    try:
        yield
    except GatedRepoError as error:
        raise ModelError(
            f"{repository}: gated on Hugging Face; accept its terms there and log in with `hf auth login`."
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(f"{repository}: not on Hugging Face, or private; check the name or log in.") from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        raise _unreachable(choice) from error
    except EntryNotFoundError as error:
        raise ModelError(f"{choice}: the repository has no file {file!r}; check its name.") from error
    except (HFValidationError, ValueError) as error:
        raise ModelError(
            f"{choice}: not a Hugging Face id ({_first_line(error).rstrip('.')}); write it as org/name or "
            "org/name:file.gguf."
        ) from error
    except (HfHubHTTPError, OSError) as error:
        raise ModelError(f"{choice}: Hugging Face refused the download ({_first_line(error)}); try again.") from error
    except Exception as error:
        # The client lets the errors of its HTTP library through as they are, and has changed that library before.
        if any(base.__name__ == "TransportError" for base in type(error).__mro__):
            raise _unreachable(choice) from error
        raise


def _unreachable(choice: str) -> ModelError:
    return ModelError(
        f"{choice}: Hugging Face cannot be reached and the model is not in its cache; give a local path, or start "
        "again with network."
    )


def no_weights(repository: str, files: list[str]) -> ModelError:
    """The error for a repository without a model that can be read, by what it holds instead."""
    ggufs = sorted(file for file in files if file.endswith(".gguf"))
    if ggufs:
        some = ", ".join(ggufs[:4])
        return ModelError(
            f"{repository}: holds GGUF files only; choose one as {repository}:{ggufs[0]} (it has {some})."
        )
    if any(Path(file).suffix in PICKLES for file in files):
        return pickle_refused(repository)
    return ModelError(f"{repository}: holds no safetensors and no GGUF file; choose another repository.")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
