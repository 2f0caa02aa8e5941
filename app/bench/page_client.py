"""A scripted tab: speaks Streamlit's websocket protocol with a running page, without drawing anything.

It opens the page as a browser does, gives its beat at a fixed rate, reads all that comes and keeps count. What it
cannot do is draw: the CPU of a real browser is measured apart.
"""

import base64
import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.BidiComponent_pb2 import BidiComponent
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from engine.errors import Refused

REFRESH_HZ = 2.0
CHART = "parkdeck_plot"
PULSE = "parkdeck_pulse"
STREAM = "/_stcore/stream"
SUBPROTOCOL = Subprotocol("streamlit")
OPENS_WITHIN_S = 60.0
CLOSES_WITHIN_S = 5.0
LARGEST_MESSAGE = 256 << 20


@dataclass(frozen=True, slots=True)
class Seen:
    """Counts since the page was opened. `asked`: beats; `finished`: runs of page or fragment that ended well; `whole`:
    those of the whole page; `charts`: charts with new data; `points`: of the longest trace of the last one;
    `unchanged`: messages that only named one that the client already had; `fragments`: with elements of their own."""

    asked: int = 0
    finished: int = 0
    whole: int = 0
    messages: int = 0
    nbytes: int = 0
    unchanged: int = 0
    charts: int = 0
    points: int = 0
    fragments: int = 0

    def since(self, before: "Seen") -> "Seen":
        """What came after `before`; points and fragments are the latest."""
        return replace(
            self,
            asked=self.asked - before.asked,
            finished=self.finished - before.finished,
            whole=self.whole - before.whole,
            messages=self.messages - before.messages,
            nbytes=self.nbytes - before.nbytes,
            unchanged=self.unchanged - before.unchanged,
            charts=self.charts - before.charts,
        )


@dataclass(slots=True)
class _Page:
    """What a browser keeps of one page. `pulse`: the component that beats, `pulse_fragment`: where it stands, `due`:
    its next beat, None while the last one is not answered; `kept`: by its place, the hash of the latest message that is
    large enough to be kept, so that the server need not send it again."""

    script_hash: str = ""
    pulse: str = ""
    pulse_fragment: str = ""
    due: float | None = None
    fragments: set[str] = field(default_factory=set)
    kept: dict[tuple[int, ...], str] = field(default_factory=dict)
    chart: BidiComponent | None = None


class PageClient:
    """One tab on `url`, from its making until `close`. Raises Refused from `seen` and `wait` when the page shows an
    error, is gone, or sends no chart in time."""

    def __init__(self, url: str, refresh_hz: float = REFRESH_HZ) -> None:
        self._every = 1.0 / refresh_hz
        self._page = _Page()
        self._counts = Seen()
        self._beaten = 0.0
        self._trouble: str | None = None
        self._closing = threading.Event()
        self._open = ExitStack()
        self._news = threading.Condition()
        address = url.replace("http", "ws", 1) + STREAM
        try:
            self._socket = self._open.enter_context(
                connect(address, subprotocols=[SUBPROTOCOL], max_size=LARGEST_MESSAGE)
            )
        except (OSError, WebSocketException) as error:
            raise Refused(f"{address} did not take a client ({error})") from None
        self._thread = threading.Thread(target=self._live, name="page-client", daemon=True)
        self._thread.start()

    def seen(self) -> Seen:
        with self._news:
            if self._trouble is not None:
                raise Refused(self._trouble)
            return replace(self._counts, points=_points(self._page.chart), fragments=len(self._page.fragments))

    def wait(self, ready: Callable[[Seen], bool], within: float = OPENS_WITHIN_S) -> Seen:
        """The counts once they are as `ready` wants them."""
        deadline = time.monotonic() + within
        with self._news:
            while not ready(self._counts) and self._trouble is None:
                if not self._news.wait(deadline - time.monotonic()):
                    self._trouble = (
                        f"the page sent {self._counts.messages} messages and {self._counts.charts} charts "
                        f"in {within:g} s, and not what was waited for"
                    )
        return self.seen()

    def rerun(self) -> None:
        """Ask for the whole page again, as after a click; the next beat waits for it."""
        self._page.due = None
        self._send()

    def close(self) -> None:
        self._closing.set()
        self._open.close()
        self._thread.join(CLOSES_WITHIN_S)

    # -- the client's own thread ------------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            self._send()
            while not self._closing.is_set():
                self._beat_when_due(time.monotonic())
                self._receive(self._socket)
        except (OSError, WebSocketException, ValueError, Refused) as error:
            if not self._closing.is_set():
                self._stop(f"the page's connection ended: {error}")

    def _receive(self, socket: ClientConnection) -> None:
        """The next message, or nothing when a beat is due before it comes."""
        wait = self._every if self._page.due is None else self._page.due - time.monotonic()
        try:
            data = socket.recv(timeout=max(wait, 0.0))
        except TimeoutError:
            return
        message = ForwardMsg()
        message.ParseFromString(data if isinstance(data, bytes) else data.encode())
        with self._news:
            self._counts = replace(
                self._counts, messages=self._counts.messages + 1, nbytes=self._counts.nbytes + len(data)
            )
            self._take(message)
            self._news.notify_all()

    def _beat_when_due(self, now: float) -> None:
        """As assets/js/pulse.js does: by the clock, but not before the last beat was answered."""
        if self._page.due is None or self._page.due > now:
            return
        self._page.due = None
        self._beaten = now
        with self._news:
            self._counts = replace(self._counts, asked=self._counts.asked + 1)
        self._send(beat=self._counts.asked)

    def _send(self, beat: int | None = None) -> None:
        message = BackMsg()
        state = message.rerun_script
        state.page_script_hash = self._page.script_hash
        if beat is not None:
            state.fragment_id = self._page.pulse_fragment
            state.widget_states.widgets.add(id=self._page.pulse, json_value="{}")
            widget = state.widget_states.widgets.add()
            widget.id = f"$$STREAMLIT_INTERNAL_KEY_{self._page.pulse}__events"
            widget.json_trigger_value = json.dumps([{"event": "beat", "value": beat}])
        state.cached_message_hashes.extend(self._page.kept.values())
        state.context_info.timezone = "UTC"
        state.context_info.locale = "en"
        state.context_info.color_scheme = "dark"
        self._socket.send(message.SerializeToString())

    def _take(self, message: ForwardMsg) -> None:
        kind = message.WhichOneof("type")
        if message.metadata.cacheable:
            self._page.kept[tuple(message.metadata.delta_path)] = message.hash
        if kind == "new_session":
            self._page.script_hash = message.new_session.page_script_hash
        elif kind == "script_finished":
            self._finished(message)
        elif kind == "ref_hash":
            self._counts = replace(self._counts, unchanged=self._counts.unchanged + 1)
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            self._element(message)

    def _finished(self, message: ForwardMsg) -> None:
        if message.script_finished == ForwardMsg.FINISHED_WITH_COMPILE_ERROR:
            self._stop("the page's script does not compile")
        whole = message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
        counts = self._counts
        self._counts = replace(counts, finished=counts.finished + 1, whole=counts.whole + whole)

    def _element(self, message: ForwardMsg) -> None:
        element, fragment = message.delta.new_element, message.delta.fragment_id
        kind = element.WhichOneof("type")
        if fragment:
            self._page.fragments.add(fragment)
        if kind == "exception":
            self._stop(f"the page shows an error: {element.exception.type}: {element.exception.message}")
        elif kind == "bidi_component" and element.bidi_component.component_name.endswith(CHART):
            self._page.chart = element.bidi_component
            self._counts = replace(self._counts, charts=self._counts.charts + 1)
        elif kind == "bidi_component" and element.bidi_component.component_name.endswith(PULSE):
            self._page.pulse, self._page.pulse_fragment = element.bidi_component.id, fragment
            self._page.due = max(self._beaten + self._every, time.monotonic())

    def _stop(self, trouble: str) -> None:
        with self._news:
            self._trouble = self._trouble or trouble
            self._news.notify_all()


def _points(chart: BidiComponent | None) -> int:
    """Points of the chart's longest trace; 0 without a chart."""
    if chart is None:
        return 0
    figure = json.loads(chart.json)
    # The page sends a figure as JSON in a text, which is then JSON again.
    figure = json.loads(figure) if isinstance(figure, str) else figure
    return max((_length(trace.get("x")) for trace in figure["data"]), default=0)


def _length(values: Any) -> int:
    """Of a list, or of Plotly's packed numbers: bytes in base64 and the type of one, such as 'f8'. 0 where the values
    are those of an earlier trace."""
    if isinstance(values, dict):
        if "of" in values:
            return 0
        return len(base64.b64decode(values["bdata"])) // int(values["dtype"][1:])
    return len(values or ())
