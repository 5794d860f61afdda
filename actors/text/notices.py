"""What the gateway itself says to a peer, by locale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Notice = Literal[
    "waiting_for_agent", "nothing_more", "more_is_kept", "session_reset", "turn_cancelled", "nothing_to_cancel"
]

_EN: Mapping[Notice, str] = {
    "waiting_for_agent": "No agent is connected right now. Your message is kept and will be answered as soon as one is.",
    "nothing_more": "There is nothing more to show.",
    "more_is_kept": "Older outputs not shown here: {count}. Write /more again to see them.",
    "session_reset": "The session begins anew with your next message.",
    "turn_cancelled": "Cancelled.",
    "nothing_to_cancel": "Nothing is running.",
}
_ZH: Mapping[Notice, str] = {
    "waiting_for_agent": "目前没有在线的智能体。您的消息已保留，智能体上线后会立即回复。",
    "nothing_more": "没有更多内容了。",
    "more_is_kept": "另有 {count} 条较早的内容未在此显示，再次发送 /more 可查看。",
    "session_reset": "会话将从您的下一条消息重新开始。",
    "turn_cancelled": "已取消。",
    "nothing_to_cancel": "当前没有正在进行的任务。",
}


def notice(name: Notice, locale: str, count: int = 0) -> str:
    """The text of a notice, with the number that it tells; English for locales that have none of their own."""
    return (_ZH if locale.lower().startswith("zh") else _EN)[name].format(count=count)
