"""What a start compiles: an engine opened, a prompt, a step, a copy out and in and both precisions, in a process of its
own over a given folder of kernels. Run as a module it prints what it counted as one JSON object."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.bench.bound import bound_to_us
from engine.errors import Refused

MOST_S = 300.0


@dataclass(frozen=True, slots=True)
class Start:
    """`compiled`: functions that numba compiled; `files`: of compiled code that were written; `seconds`: of it all."""

    compiled: int
    files: int
    seconds: float


def start_over(folder: Path, backend: str) -> Start:
    """Raises Refused when the process fails, with the end of what it printed, or takes too long."""
    before = _files(folder)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "app.bench.step_start", backend],
            env=os.environ | {"NUMBA_CACHE_DIR": str(folder)},
            capture_output=True,
            text=True,
            timeout=MOST_S,
            check=False,
            preexec_fn=bound_to_us(),
        )
    except subprocess.TimeoutExpired:
        raise Refused(f"a start of its own took longer than {MOST_S:g} s; let the machine come to rest") from None
    if done.returncode:
        raise Refused(f"a start of its own ended with status {done.returncode}: {done.stderr[-2000:].strip()}")
    told = json.loads(done.stdout.splitlines()[-1])
    return Start(told["compiled"], len(_files(folder) - before), told["seconds"])


def _files(folder: Path) -> set[tuple[str, int]]:
    """Each with the time of its last change: a file that is written anew counts."""
    return {(str(path), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def _count(backend: str) -> Start:
    from numba.core import event

    class Compilations(event.Listener):
        count = 0

        def on_start(self, event: Any) -> None:
            self.count += 1

        def on_end(self, event: Any) -> None:
            pass

    seen = Compilations()
    event.register("numba:compile", seen)
    started = time.perf_counter()
    _use(backend)
    return Start(seen.count, 0, time.perf_counter() - started)


def _use(backend: str) -> None:
    """What the first minutes of a user touch."""
    from app.bench.rig import AUTHOR, Rig, quiet_body

    rig = Rig(quiet_body(backend=backend, arena_tokens=4096))
    turn = rig.submit(range(3, 403), 16)
    rig.run_until(lambda: len(rig.generated[turn]) >= 2)
    for dtype in ("q8", "fp16"):
        rig.commands.set_knobs({"kv_dtype": dtype}, AUTHOR)
        seen = len(rig.generated[turn])
        rig.run_until(lambda seen=seen: len(rig.generated[turn]) > seen)  # type: ignore[misc]
    rig.commands.swap_out(turn, AUTHOR)
    rig.commands.resume(turn, AUTHOR)
    rig.run_until(lambda: rig.phase(turn).ended)
    rig.close()


if __name__ == "__main__":
    from engine.kernels.threads import configure_threads

    configure_threads()
    sys.stdout.write(json.dumps(asdict(_count(sys.argv[1]))) + "\n")
