"""The host pool's memory: one run of bytes, page-locked when the arena is on a device."""

import numpy as np
import torch

from engine.errors import Refused
from engine.geometry import ALIGNMENT


class Slab:
    """`nbytes` of host memory beginning at a multiple of 64 bytes.

    On CPU it is pageable and the system commits a page at its first touch: asked for is not yet held. For a device it
    is page-locked in place, to the byte, and held at once (an allocator of pinned memory would round up to the next
    power of two). Raises Refused when the system will not lock so much.
    """

    def __init__(self, nbytes: int, *, pinned: bool) -> None:
        raw = np.empty(nbytes + ALIGNMENT, dtype=np.uint8)
        start = -raw.ctypes.data % ALIGNMENT
        self.array = raw[start : start + nbytes]
        self.tensor = torch.from_numpy(self.array)
        self.nbytes = nbytes
        self.pinned = False
        if pinned:
            self.pin()

    def pin(self) -> None:
        """Lock the pages for device copies. Raises Refused with the size."""
        if not self.nbytes or self.pinned:
            return
        status = torch.cuda.cudart().cudaHostRegister(self.tensor.data_ptr(), self.nbytes, 0)
        if int(status) != 0:
            raise Refused(
                f"The system would not pin {self.nbytes / 2**20:.0f} MiB of host memory (status {int(status)}); "
                "ask for a smaller host pool."
            )
        self.pinned = True

    def close(self) -> None:
        """Unlock the pages; the memory goes with the object."""
        if self.pinned:
            torch.cuda.cudart().cudaHostUnregister(self.tensor.data_ptr())
            self.pinned = False
