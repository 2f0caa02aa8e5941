"""What the server does besides the page: the Host check, plotly.js from the installed package, /healthz, and the reason
of a failure in its own terminal."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import plotly
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from engine.control import Control
from engine.errors import ParkdeckError
from engine.snapshot import HostState
from panels import assets
from panels.deck_view import TABLES, TableName

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
HOSTS_VARIABLE = "PARKDECK_ALLOWED_HOSTS"
LOOK_EVERY_S = 0.5
KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}
FOR_A_DAY = {"Cache-Control": "public, max-age=86400"}
"""Its path names no version: an upgrade must come through."""
PLOTLY_JS = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"


def allowed_hosts() -> frozenset[str]:
    """Loopback names, and what PARKDECK_ALLOWED_HOSTS adds (comma separated; '*' allows any)."""
    named = os.environ.get(HOSTS_VARIABLE, "")
    return LOOPBACK | {name.strip().lower() for name in named.split(",") if name.strip()}


def host_name(header: str) -> str:
    """The name in a Host header, without its port."""
    header = header.strip().lower()
    if header.startswith("["):
        return header.split("]")[0] + "]"
    return header.rsplit(":", 1)[0] if header.count(":") == 1 else header


class HostCheck:
    """Refuses requests and websockets whose Host is not allowed, so that no web page elsewhere can reach the engine
    by a name that it points here (DNS rebinding)."""

    def __init__(self, app: ASGIApp, allowed: frozenset[str] | None = None) -> None:
        self._app = app
        self._allowed = allowed_hosts() if allowed is None else allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self._fits(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            text = f"This host name is not allowed; use http://127.0.0.1, or name it in {HOSTS_VARIABLE}.\n"
            await PlainTextResponse(text, status_code=421)(scope, receive, send)

    def _fits(self, scope: Scope) -> bool:
        headers = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if "*" in self._allowed:
            return True
        return len(headers) == 1 and host_name(headers[0]) in self._allowed


async def plotly_js(request: Request) -> Response:
    return FileResponse(PLOTLY_JS, media_type="text/javascript", headers=FOR_A_DAY)


async def asset(request: Request) -> Response:
    """A script or style of the page's elements, to be kept for good under the version that its path names. A path of
    another version, from a page of an earlier start, gets what there is now, not to be kept."""
    name = request.path_params["name"]
    if name not in assets.FILES:
        return PlainTextResponse(f"There is no {name}; the files are {', '.join(assets.FILES)}.\n", 404)
    headers = KEPT if request.path_params["version"] == assets.version() else {"Cache-Control": "no-store"}
    media = "text/css" if name.endswith(".css") else "text/javascript"
    return Response(assets.content(name), media_type=media, headers=headers)


def healthz(state: Callable[[], dict[str, object]]) -> Callable[[Request], Response]:
    """200 while the engine starts or runs, 503 when it has failed or stopped."""

    def endpoint(request: Request) -> Response:
        now = state()
        code = 503 if now.get("state") in ("failed", "stopped") else 200
        return Response(json.dumps(now), code, media_type="application/json")

    return endpoint


def export(table: Callable[[TableName], Iterator[bytes]]) -> Callable[[Request], Response]:
    """A CSV file of the present session, streamed; 409 with the reason while there is none."""

    def endpoint(request: Request) -> Response:
        name = request.path_params["table"]
        if name not in TABLES:
            return PlainTextResponse(f"There is no {name}.csv; the tables are {', '.join(TABLES)}.\n", 404)
        try:
            chunks = table(name)
        except ParkdeckError as error:
            return PlainTextResponse(f"{error}\n", 409)
        # No file name here: the page's link names the session too, and a name in this header would win over it.
        headers = {"Content-Disposition": "attachment", "Cache-Control": "no-store"}
        return StreamingResponse(chunks, media_type="text/csv; charset=utf-8", headers=headers)

    return endpoint


def routes(state: Callable[[], dict[str, object]], table: Callable[[TableName], Iterator[bytes]]) -> list[Route]:
    return [
        Route("/assets/plotly.min.js", plotly_js),
        Route("/assets/{version}/{name}", asset),
        Route("/healthz", healthz(state)),
        Route("/export/{table}.csv", export(table)),
    ]


async def tell_failures(control: Control) -> None:
    """Until it is cancelled: each failure of the engine is one line on stderr, for whoever has no page open."""
    told = None
    while True:
        snapshot = control.snapshot
        if snapshot.state == HostState.FAILED and snapshot.session != told:
            told = snapshot.session
            sys.stderr.write(f"{snapshot.error}\n")
        await asyncio.sleep(LOOK_EVERY_S)
