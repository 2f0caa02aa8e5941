"""Mixed into each of vLLM's workers (`worker_extension_cls`): copies of KV blocks in one slab of host memory.

Reached through `collective_rpc` between two steps. Blocks and units go by number, so that every rank of a tensor
parallel engine does the same with its own share of the bytes.
"""

from typing import Any

import torch

from engine.backends.vllm.slab import runs


class ParkedCopies:
    """Every method is named parkdeck_*, as vLLM forbids an extension to hide a method of its worker."""

    def parkdeck_sizes(self) -> dict[str, int]:
        """Bytes of weights, of all KV tensors, of one block over all of them; the device's own reading where it has
        one, and what torch holds on it."""
        views = self._parkdeck_views()
        model = self.model_runner.model  # type: ignore[attr-defined]
        weights = {p.untyped_storage().data_ptr(): p.untyped_storage().nbytes() for p in model.parameters()}
        sizes = {
            "weights": sum(weights.values()),
            "kv": sum(view.numel() * view.element_size() for view in views),
            "block": sum(view[0].numel() * view.element_size() for view in views),
        }
        if views[0].device.type == "cuda":
            free, total = torch.cuda.mem_get_info(views[0].device)
            held = torch.cuda.memory_reserved(views[0].device)
            sizes |= {"device_total": total, "device_used": total - free, "held": held}
        return sizes

    def parkdeck_slab(self, units: int, keep: list[int]) -> None:
        """A slab of `units` units, pinned beside a GPU; its first units hold what `keep` held in the one before."""
        before: list[torch.Tensor] = getattr(self, "_parkdeck_copies", [])
        slabs = []
        for at, view in enumerate(self._parkdeck_views()):
            pin = view.device.type == "cuda"
            slab = torch.empty((units, *view.shape[1:]), dtype=view.dtype, pin_memory=pin)
            for first, to, length in runs(keep, range(len(keep))):
                slab[to : to + length].copy_(before[at][first : first + length])
            slabs.append(slab)
        self._parkdeck_copies = slabs

    def parkdeck_out(self, blocks: list[int], units: list[int]) -> None:
        """Copy device blocks to units; done when it returns, so that the blocks may be given away."""
        for view, slab in self._parkdeck_pairs():
            for block, unit, length in runs(blocks, units):
                slab[unit : unit + length].copy_(view[block : block + length], non_blocking=True)
        self._parkdeck_settle()

    def parkdeck_in(self, units: list[int], blocks: list[int]) -> None:
        for view, slab in self._parkdeck_pairs():
            for unit, block, length in runs(units, blocks):
                view[block : block + length].copy_(slab[unit : unit + length], non_blocking=True)
        self._parkdeck_settle()

    def _parkdeck_pairs(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return list(zip(self._parkdeck_views(), self._parkdeck_copies, strict=True))

    def _parkdeck_settle(self) -> None:
        device = self._parkdeck_views()[0].device
        if device.type == "cuda":
            torch.cuda.current_stream(device).synchronize()

    def _parkdeck_views(self) -> list[torch.Tensor]:
        """Each KV tensor once, as (blocks, ...). Raises RuntimeError for a tensor that is not laid out by blocks."""
        known: list[torch.Tensor] | None = getattr(self, "_parkdeck_known", None)
        if known is not None:
            return known
        runner: Any = self.model_runner  # type: ignore[attr-defined]
        blocks = runner.kv_cache_config.num_blocks
        views: dict[int, torch.Tensor] = {}
        for layer in runner.kv_caches:
            for tensor in layer if isinstance(layer, list | tuple) else (layer,):
                views.setdefault(tensor.data_ptr(), _by_block(tensor, blocks))
        self._parkdeck_known = list(views.values())
        return self._parkdeck_known


def _by_block(tensor: torch.Tensor, blocks: int) -> torch.Tensor:
    """A view whose first dimension counts the scheduler's blocks; a kernel may cut each into several of its own."""
    each, rest = divmod(tensor.shape[0], blocks)
    if rest or not each:
        raise RuntimeError(f"a KV tensor of shape {tuple(tensor.shape)} is not laid out by its {blocks} blocks")
    return tensor.unflatten(0, (blocks, each))
