"""What a day is played on: the processes, the clock that they share, the user with a phone, and turns that finish elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import aiohttp
import msgspec

from actors.gateway.api import TurnOffer, TurnOrigin
from actors.gateway.views import PeerView, Receipt, StatusView, TurnAccepted
from actors.ports import Credentials
from events.base import Millis
from scripts.demonstration.asking import ANSWER_S, Asking, until
from scripts.demonstration.errors import DemoFailed
from scripts.demonstration.folder import Folder
from scripts.demonstration.processes import Child, Processes
from scripts.run import Running
from scripts.simulators.clock import Reading
from scripts.simulators.loopback import bind_loopback
from scripts.simulators.weixin.chats import Identity
from scripts.simulators.weixin.ledgers import Accepted, Refused, Shown, Violation

OWNER = "weixin:main"
"""The short address of the person who logged in."""

USER = "o9cq80demo@im.wechat"


class Listening(msgspec.Struct, frozen=True):
    """What the clock and the simulator say when they are ready."""

    base_url: str


class Connected(msgspec.Struct, frozen=True):
    """What the agent says when the gateway has welcomed it."""

    agent: str


class Waited(msgspec.Struct, frozen=True):
    """The simulator's answer to /control/wait."""

    met: bool
    counters: dict[str, int]


class Room(msgspec.Struct, frozen=True):
    """What the server has left for the user."""

    left: int


class Phone(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the simulator wrote down."""

    accepted: tuple[Accepted, ...] = ()
    shown: tuple[Shown, ...] = ()
    refused: tuple[Refused, ...] = ()
    violations: tuple[Violation, ...] = ()
    left: int = 0  # replies that the server would still take


def login(number: int) -> Identity:
    """The n-th login of the demo. It opens nothing but the simulator."""
    bot = f"{number:012x}@im.bot"
    return Identity(token=f"{bot}:0600{number:032x}", bot_id=bot, user_id=USER)


def free_ports() -> tuple[int, int]:
    """Two ports of this machine that nobody listens on: for agents and for HTTP."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(contextlib.closing(bind_loopback("127.0.0.1", 0))) for _ in range(2)]
        agents, http = (int(sock.getsockname()[1]) for sock in sockets)
        return agents, http


class Stage:
    """The processes as they run, and what can be done with them. `gateway` is the one that is asked."""

    def __init__(self, folder: Folder, processes: Processes, http: aiohttp.ClientSession) -> None:
        self.folder = folder
        self._processes, self._http = processes, http
        self.clock: Asking
        self.phone: Asking
        self.gateway: Asking
        self.first: Child  # the gateway that is replaced in the end

    # --- processes ------------------------------------------------------------------------------------------------

    async def set_up(self, now: Millis) -> None:
        """Start clock, simulator, gateway and agent, and wait until the gateway polls."""
        clock = await self._processes.start("clock", "scripts.simulators.clock_source", "--now", str(now))
        self.clock = self._asking("clock", (await clock.ready(Listening)).base_url)
        first = login(1)
        phone = await self._processes.start(
            "simulator",
            "scripts.simulators.weixin",
            *("--clock", self.clock.base_url, "--account", f"{first.token},{first.bot_id},{first.user_id}"),
        )
        self.phone = self._asking("simulator", (await phone.ready(Listening)).base_url)
        self.folder.configure(
            clock=self.clock.base_url, weixin=self.phone.base_url, ports=free_ports(), second_ports=free_ports()
        )
        self.folder.log_in(self.credentials(first))
        self.first, running = await self._start_gateway("gateway", str(self.folder.config))
        self.gateway = self._asking("gateway", running.http)
        await self._start_agent(running.agents)
        await self.polling()

    async def _start_gateway(self, name: str, config: str) -> tuple[Child, Running]:
        child = await self._processes.start(name, "scripts", "run", "--json", "--config", config)
        return child, await child.ready(Running)

    async def _start_agent(self, url: str) -> None:
        agent = await self._processes.start("agent", "scripts.agents.echo", "--url", f"{url}/agent/v1")
        await agent.ready(Connected)

    async def start_second(self) -> None:
        """A second instance of the same account, elsewhere; from now on it is the one that is asked, and that polls."""
        polls = (await self.counters())["polls"]
        _, running = await self._start_gateway("second gateway", str(self.folder.second_config))
        self.gateway = self._asking("second gateway", running.http)
        await self.expect("the second instance polls", polls=polls + 1)
        await self.polling()

    async def run_verb(self, *args: str) -> None:
        """Run a verb of the command line to its end. Raises DemoFailed unless it is done."""
        child = await self._processes.start(f"replyledger {args[0]}", "scripts", *args)
        status = await child.ended(ANSWER_S)
        if status != 0:
            raise DemoFailed(f"replyledger {' '.join(args)}: exit {status}")

    def credentials(self, identity: Identity) -> Credentials:
        """A login as the gateway keeps it."""
        return Credentials(
            token=identity.token, base_url=self.phone.base_url, user_id=identity.user_id, bot_id=identity.bot_id
        )

    def _asking(self, name: str, base_url: str) -> Asking:
        return Asking(self._http, name, base_url)

    # --- time -----------------------------------------------------------------------------------------------------

    async def now(self) -> Millis:
        """The simulated time."""
        return (await self.clock.get(Reading, "/now")).now

    async def advance_to(self, at: Millis) -> None:
        """Let time jump, and wait until everybody has followed.

        Never over something that is on its way, nor over an instant at which something may leave: gateway and server
        hear of a jump a moment apart, and what left in that moment would reach the server before its time.
        """
        peer = await self.quiet()
        if peer.earliest is not None and peer.earliest <= at:
            raise DemoFailed(f"the script jumps to {at}, over {peer.earliest}, when something may leave")
        await self.expect("the gateway polls", holding=1)
        polls = (await self.counters())["polls"]
        await self.clock.post(Reading, "/set", {"now": at})
        await self.expect("the simulator has followed the clock", now=at)
        # The jump ends the poll that was held, so that none reaches over it.
        await self.expect("the gateway polls again", polls=polls + 1, holding=1)
        await until("the gateway follows the clock", self.status, lambda status: status.now >= at)

    async def quiet(self) -> PeerView:
        """Wait until nothing of the user is on its way."""
        return await until("nothing is on its way", self.peer, lambda p: not p.open_request and not p.open_turn)

    async def polling(self) -> None:
        """Wait until the gateway runs and its poll is held."""
        await until("the gateway is ready", self.status, lambda status: status.ready)
        await self.expect("the gateway polls", holding=1)

    # --- the user and the phone -----------------------------------------------------------------------------------

    async def write(self, text: str) -> None:
        """The user writes."""
        await self.phone.post(object, "/control/say", {"text": text})

    async def expect(self, what: str, **counts: int) -> None:
        """Wait until the simulator has counted so much. Raises DemoFailed."""
        waited = await self.phone.get(Waited, "/control/wait", timeout=ANSWER_S, **counts)
        if not waited.met:
            raise DemoFailed(f"waited {ANSWER_S:.0f} s in vain: {what}; the simulator counts {waited.counters}")

    async def counters(self) -> dict[str, int]:
        """What the simulator has counted."""
        return await self.phone.get(dict[str, int], "/control/counters")

    async def read_phone(self) -> Phone:
        """Everything that the simulator wrote down."""
        accepted = (await self.phone.get(dict[str, tuple[Accepted, ...]], "/control/ledger/accepted"))["accepted"]
        shown = (await self.phone.get(dict[str, tuple[Shown, ...]], "/control/ledger/shown"))["shown"]
        refused = (await self.phone.get(dict[str, tuple[Refused, ...]], "/control/ledger/refused"))["refused"]
        broken = (await self.phone.get(dict[str, tuple[Violation, ...]], "/control/ledger/violations"))["violations"]
        room = await self.phone.get(Room, "/control/user")
        return Phone(accepted=accepted, shown=shown, refused=refused, violations=broken, left=room.left)

    # --- the gateway ----------------------------------------------------------------------------------------------

    async def status(self) -> StatusView:
        """The gateway at a glance."""
        return await self.gateway.get(StatusView, "/v1/status")

    async def peer(self) -> PeerView:
        """The user as the gateway sees them."""
        return await self.gateway.get(PeerView, f"/v1/peers/{OWNER}")

    async def finish_turn(self, turn_id: str, origin: TurnOrigin, text: str) -> str:
        """A turn finishes outside of the chat; its delivery."""
        offer = TurnOffer(to=OWNER, turn_id=turn_id, origin=origin, text=text)
        return (await self.gateway.post(TurnAccepted, "/v1/turns", offer)).deliveries[0].delivery

    async def receipt(self, delivery: str, wait_s: float = 0) -> Receipt:
        """What is known of a delivery; with `wait_s` once it is final."""
        return await self.gateway.get(Receipt, f"/v1/deliveries/{delivery}", wait=wait_s)


@contextlib.asynccontextmanager
async def stage(folder: Folder, processes: Processes, now: Millis) -> AsyncIterator[Stage]:
    """A stage on which everything runs, at the simulated instant `now`."""
    async with aiohttp.ClientSession() as http:
        found = Stage(folder, processes, http)
        await found.set_up(now)
        yield found
