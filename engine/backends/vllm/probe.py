"""Copies of vLLM's own blocks, through the calls that swaps use."""

import time

from engine.backends.base import Copied
from engine.backends.vllm.hostpool import HostPool
from engine.errors import IntegrityError
from engine.turn import TurnId

PROBE = TurnId(-1)
"""Holds the copy while it is measured; no host numbers a turn of its own below 0."""


def probe_copy(pool: HostPool, blocks_total: int, block_bytes: int, nbytes: int) -> Copied:
    """The first blocks of the idle KV tensors go out and come back to where they were. A host pool with too few units
    gets them for as long."""
    usual = pool.units
    count = max(1, min(nbytes // block_bytes, blocks_total))
    # Block 0 is vLLM's null block.
    blocks = range(1, count + 1)
    if usual < count:
        pool.resize(count)
    try:
        started = time.perf_counter()
        if pool.store(PROBE, blocks) is None:
            raise IntegrityError(f"a host pool of {pool.units} units has no room for {count} blocks")
        stored = time.perf_counter()
        copied = pool.load(PROBE, blocks)
        return Copied(copied, stored - started, time.perf_counter() - stored)
    finally:
        pool.trim(PROBE, 0)
        if usual < count:
            pool.resize(usual)
