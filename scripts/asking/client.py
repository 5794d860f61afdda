"""A client of the running gateway's HTTP API. Follows no redirects, asks no proxy, and never shows the token."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from scripts.configuration.config import Config
from scripts.configuration.secret import Secret
from scripts.exits import ConfigRefused, Failed, LoginNeeded, Misused, NotRunning

ANSWER_BYTES_MAX = 64 * 1_048_576
ANSWER_MS = 30_000
"""How long an answer may take, beyond what the request asks to wait."""

PORT_FILE = "http.port"
"""In STATE_DIR: the port of a gateway whose configured port is 0."""

T = TypeVar("T")

_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 (where to find a listener that listens everywhere)


class Asker(Protocol):
    """Asks a gateway: one that runs, over HTTP, or one in this process. Paths and bodies are those of `actors.gateway.routes`."""

    def get(self, kind: type[T], path: str, *, wait_ms: int = 0, **query: object) -> T:
        """The answer to a question. Raises NotRunning, Failed, Misused, ConfigRefused."""
        ...

    def post(self, kind: type[T], path: str, order: msgspec.Struct) -> T:
        """The answer to an order. Raises NotRunning, Failed, Misused, ConfigRefused."""
        ...


class Refusal(msgspec.Struct, kw_only=True):
    """What a gateway says when it refuses."""

    code: str
    message: str
    path: str = ""
    near: tuple[str, ...] = ()


class Refused(msgspec.Struct):
    """The body of a refusal."""

    error: Refusal


class Client:
    """Asks the gateway of a configuration over HTTP, a connection for each question."""

    def __init__(self, host: str, port: int, token: Secret | None, key: str = "http") -> None:
        self._host, self._port, self._token, self._key = _ANY_HOST.get(host, host), port, token, key

    def get(self, kind: type[T], path: str, *, wait_ms: int = 0, **query: object) -> T:
        """See `Asker.get`."""
        given = {k: v for k, v in query.items() if v not in (None, "", False)}
        if wait_ms:
            given["wait"] = wait_ms / 1000
        return self._ask(kind, "GET", f"{path}?{urlencode(given)}" if given else path, None, wait_ms)

    def post(self, kind: type[T], path: str, order: msgspec.Struct) -> T:
        """See `Asker.post`."""
        return self._ask(kind, "POST", path, msgspec.json.encode(order), 0)

    def _ask(self, kind: type[T], method: str, path: str, body: bytes | None, wait_ms: int) -> T:
        status, answer = self._exchange(method, path, body, ANSWER_MS + wait_ms)
        try:
            if status in (200, 202) or (path == "/ready" and status == 503):
                return msgspec.json.decode(answer, type=kind)
            refusal = msgspec.json.decode(answer, type=Refused).error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise NotRunning(f"what answers at {self.where} is not a gateway of this version (HTTP {status})") from None
        raise self._refused(status, refusal)

    def _exchange(self, method: str, path: str, body: bytes | None, timeout_ms: int) -> tuple[int, bytes]:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.reveal()}"
        connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_ms / 1000)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, _whole(answer)
        except TimeoutError:
            raise NotRunning(f"the gateway at {self.where} does not answer in time") from None
        except (OSError, http.client.HTTPException) as error:
            raise NotRunning(
                f"no gateway answers at {self.where} ({_why(error)}); start it with `replyledger run`"
            ) from None
        finally:
            connection.close()

    @property
    def where(self) -> str:
        """Host and port."""
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    def _refused(self, status: int, refusal: Refusal) -> Failed | Misused | NotRunning | ConfigRefused:
        said = refusal.message + (f" ({refusal.path})" if refusal.path not in ("", "$") else "")
        if refusal.near:
            said += f"; near: {', '.join(refusal.near)}"
        if status == 401:
            return ConfigRefused(f"the gateway at {self.where} refuses the token: is {self._key}.token its own?")
        if refusal.code == "stopping":
            return NotRunning(said)
        if refusal.code == "login_needed":
            return LoginNeeded(said)
        return Misused(said) if status == 400 else Failed(said)


def _whole(answer: http.client.HTTPResponse) -> bytes:
    """The body. Raises IncompleteRead where the connection broke within it, or it is larger than any of ours."""
    announced = answer.length
    body = answer.read(ANSWER_BYTES_MAX)
    if announced is not None and len(body) < announced:
        raise http.client.IncompleteRead(body, announced - len(body))
    return body


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__


def client_of(config: Config) -> Client:
    """A client for the gateway of a configuration. Raises ConfigRefused, NotRunning."""
    listen = config.http.listen
    return Client(listen.host, listen.port or _port_of(config.state_dir / PORT_FILE), config.token(config.http))


def _port_of(path: Path) -> int:
    """A gateway on port 0 leaves its port in a file."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        raise NotRunning(f"no gateway has left its port in {path}; start it with `replyledger run`") from None


def path_of(*names: str) -> str:
    """A path of the API, each name escaped."""
    return "/" + "/".join(quote(name, safe="") for name in names)
