"""What an account of this channel is made of: one session, one inlet, one outlet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.channels.weixin.address import base_url
from actors.channels.weixin.calls import Calls, agent
from actors.channels.weixin.inlet import Timing, WeixinInlet
from actors.channels.weixin.line import Line
from actors.channels.weixin.outlet import WeixinOutlet
from actors.channels.weixin.typing_sign import TypingSigns
from actors.ports import LISTEN_MS, Credentials, Fence, LoginGone, Report
from actors.runtime.clock import Clock, Ids
from events.bot import Policy


@dataclass(frozen=True, slots=True)
class Link:
    """An account's two ways. Cancel `inlet.run` first, then `await outlet.close()`, which closes the session of both."""

    inlet: WeixinInlet
    outlet: WeixinOutlet


def open_link(
    credentials: Credentials,
    *,
    account: str,
    fence: Fence,
    clock: Clock,
    ids: Ids,
    policy: Callable[[], Policy],
    report: Report,
    on_lost: Callable[[LoginGone], None],
    on_fenced: Callable[[], None],
    typing: bool,
    timing: Timing | None = None,
    listen_ms: int = LISTEN_MS,
) -> Link:
    """Open an account on the running loop. `on_lost` and `on_fenced` may be called more than once; the inlet has its own `lost`.

    Raises BadBaseUrl if the server's address in `credentials` is none.
    """
    calls = Calls(base_url(credentials.base_url), token=credentials.token, agent=agent(), ids=ids, clock=clock)
    line = Line(calls=calls, account=account, fence=fence, clock=clock, on_lost=on_lost, on_fenced=on_fenced)
    signs = TypingSigns(line) if typing else None
    outlet = WeixinOutlet(line, policy=policy, report=report, signs=signs, listen_ms=listen_ms)
    inlet = WeixinInlet(calls, account=account, fence=fence, clock=clock, ids=ids, timing=timing)
    return Link(inlet=inlet, outlet=outlet)
