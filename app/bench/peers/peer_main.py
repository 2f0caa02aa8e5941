"""`python peer_main.py MODULE`: serves the `Engine` of the module MODULE beside this file, over JSON lines.

Each line on stdin is a request: the name of a method under "op", its arguments beside it. Each is answered by one line
on stdout, {"ok": what it returned} or {"error": a sentence}. It ends with its input.
"""

import importlib
import json
import os
import sys


def main(module: str) -> None:
    # Engines print on stdout, from C too: the answers go out on a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    engine = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            # The engine is imported at the first request, so that a package that lacks is told as any other error.
            engine = engine or importlib.import_module(module).Engine()
            answer = {"ok": getattr(engine, request.pop("op"))(**request)}
        except Exception as error:  # noqa: BLE001 - whatever it is, the bench tells it
            lines = str(error).strip().splitlines()
            answer = {"error": f"{type(error).__name__}: {lines[0] if lines else ''}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
