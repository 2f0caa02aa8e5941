"""Numbers of a figure as plotly.js takes typed arrays, each sent once."""

import base64
from typing import Any


def packed(array: Any) -> dict[str, str]:
    """A numpy array of numbers."""
    return {"dtype": f"{array.dtype.kind}{array.itemsize}", "bdata": base64.b64encode(array.tobytes()).decode("ascii")}


def lean(figure: dict[str, Any]) -> dict[str, Any]:
    """The figure with packed numbers that an earlier trace has too named by trace and part: on a chart over time most
    traces share their instants. `figureOf` of assets/js/chart_file.js puts them back."""
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    traces = []
    for index, trace in enumerate(figure["data"]):
        sent = dict(trace)
        for part in ("x", "y"):
            values = trace.get(part)
            if isinstance(values, dict):
                key = (values["dtype"], values["bdata"])
                sent[part] = seen.get(key, values)
                seen.setdefault(key, {"of": [index, part]})
        traces.append(sent)
    return figure | {"data": traces}
