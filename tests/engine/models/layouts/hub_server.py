"""As much of Hugging Face as its client needs to read files: one local server over a few repositories."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)")
_INFO = re.compile(r"/api/models/([^/]+/[^/]+)(?:/revision/[^/]+)?")
_TREE = re.compile(r"/api/models/([^/]+/[^/]+)/tree/[^/]+(?:/(.*))?")
_PATHS = re.compile(r"/api/models/([^/]+/[^/]+)/paths-info/[^/]+")


@dataclass
class Hub:
    """`repositories`: name -> file -> bytes. `sent`: bytes that went out of each file."""

    repositories: dict[str, dict[str, bytes]]
    gated: frozenset[str] = frozenset()
    url: str = ""
    sent: dict[str, int] = field(default_factory=dict)


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            matched = _PATHS.fullmatch(self.path)
            if matched is None or matched[1] not in hub.repositories:
                self._refuse(404, "RepoNotFound")
            else:
                self._list(matched[1])

        def _list(self, repository: str, folder: str = "") -> None:
            files = hub.repositories[repository]
            rows = [
                {"type": "file", "path": name, "size": len(files[name]), "oid": "0" * 40}
                for name in files
                if name.startswith(folder)
            ]
            self._send(200, json.dumps(rows).encode(), {"Content-Type": "application/json"})

        def _answer(self) -> None:
            path = self.path.partition("?")[0]
            info, file, tree = (form.fullmatch(path) for form in (_INFO, _FILE, _TREE))
            repository = next((found[1] for found in (info, file, tree) if found), "")
            if repository not in hub.repositories:
                self._refuse(401, "RepoNotFound")
            elif tree:
                self._list(repository, tree[2] or "")
            elif info:
                names = [{"rfilename": name} for name in hub.repositories[repository]]
                body = json.dumps({"id": repository, "sha": COMMIT, "siblings": names}).encode()
                self._send(200, body, {"Content-Type": "application/json"})
            elif repository in hub.gated:
                self._refuse(403, "GatedRepo")
            elif file and file[2] in hub.repositories[repository]:
                self._file(f"{repository}/{file[2]}", hub.repositories[repository][file[2]])
            else:
                self._refuse(404, "EntryNotFound")

        def _file(self, name: str, data: bytes) -> None:
            headers = {"ETag": f'"{len(data):040d}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if asked is None:
                part, status = data, 200
            else:
                first, last = int(asked[1]), min(int(asked[2] or len(data) - 1), len(data) - 1)
                part, status = data[first : last + 1], 206
                headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            if self.command == "GET":
                hub.sent[name] = hub.sent.get(name, 0) + len(part)
            self._send(status, part, headers)

        def _refuse(self, status: int, code: str) -> None:
            self._send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for key, value in (headers | {"Content-Length": str(len(body))}).items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
