"""An agent led by the test's own hand, on a real connection: answers when, and only when, the test says so."""

from __future__ import annotations

import json
from collections import deque
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.e2e.processes import WAIT_S

FRAME_BYTES_MAX = 8 * 1_048_576


class Hand:
    """`with Hand(url) as agent:` is welcome."""

    def __init__(self, url: str, name: str = "hand", **hello: Any) -> None:
        self._stack = ExitStack()
        self._ws = self._stack.enter_context(connect(url, max_size=FRAME_BYTES_MAX, proxy=None, close_timeout=1))
        self._heard: deque[dict[str, Any]] = deque()
        self.say(type="hello", agent=name, protocol=1, max_turns=64, **hello)
        self.hear("welcome")

    def say(self, **frame: Any) -> None:
        self.say_raw(json.dumps(frame))

    def say_raw(self, text: str) -> None:
        self._ws.send(text)

    def hear(self, kind: str, **parts: Any) -> dict[str, Any]:
        """The next frame of a kind with the given parts; others stay for later."""
        wanted = {"type": kind} | parts
        for frame in list(self._heard):
            if wanted.items() <= frame.items():
                self._heard.remove(frame)
                return frame
        while True:
            frame = json.loads(self._ws.recv(WAIT_S))
            if wanted.items() <= frame.items():
                return dict(frame)
            self._heard.append(frame)

    def takes(self, address: str) -> str:
        """The turn id of the next message of a peer."""
        return str(self.hear("message", peer=address)["turn_id"])

    def answers(self, turn_id: str, text: str, kind: str = "completed") -> str:
        """End a turn; the delivery, once the gateway gave a receipt for it."""
        self.say(type=kind, turn_id=turn_id, text=text)
        return str(self.hear("receipt", turn_id=turn_id)["delivery"])

    def end(self) -> tuple[int | None, str | None]:
        """The code and reason with which the gateway closes the connection."""
        try:
            while True:
                self._ws.recv(WAIT_S)
        except ConnectionClosed:
            return self._ws.close_code, self._ws.close_reason

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Hand:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
