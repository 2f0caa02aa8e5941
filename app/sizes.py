"""Sizes as people write them: a number and a unit."""

import re

from engine.errors import Refused

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "kB": 10**3, "MB": 10**6, "GB": 10**9, "": 1}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?i?B?)\s*")
LARGEST_SIZE = 2**63 - 1


def size_of(text: str) -> int:
    """Bytes of '15.5GiB', '512 MiB' or '16GB'. Raises Refused; GiB are powers of two, GB powers of ten."""
    match = SIZE.fullmatch(text)
    if match is None or match[2] not in UNITS:
        raise Refused(f"{text!r} is no size; give a number and a unit, such as 15.5GiB or 512MiB")
    found = float(match[1]) * UNITS[match[2]]
    if found > LARGEST_SIZE:
        raise Refused("that size is larger than any memory; give a number and a unit, such as 15.5GiB or 512MiB")
    return round(found)
