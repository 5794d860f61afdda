"""A complete configuration with its meaning, as `replyledger config example` prints it. Every value is the default."""

from __future__ import annotations

EXAMPLE = """\
# replyledger.toml: the configuration of replyledger. Every value below is the default unless its comment says otherwise.
# Paths are relative to this file. Durations are written as 500ms, 30s, 15m, 24h, 30d.
# Secrets are never written here: name where they are, as "env:NAME" or "file:PATH".

# Where the log and the credentials of the logins are kept; created with mode 0700.
state_dir = "state"

# The language of notices in the chat: "zh-CN" or "en".
locale = "zh-CN"

# For simulations only: where a simulated clock answers. Refused unless every listener and server is on loopback. A log is of real or of
# simulated days for ever: give simulations a state_dir of their own.
# clock = "http://127.0.0.1:9100"

# Agents connect here (WebSocket). Without a token this listens on loopback only.
[agents]
listen = "127.0.0.1:8080"
# token = "env:REPLYLEDGER_AGENT_TOKEN"

# The HTTP API, /health, /ready and /metrics; the command line talks to it as well.
[http]
listen = "127.0.0.1:8081"
# token = "env:REPLYLEDGER_HTTP_TOKEN"

# What the running gateway tells on standard error.
[logging]
format = "text"  # or "json"
level = "info"  # debug, info, warning, error

# How long texts, names and tokens are kept. What was sent when, and what it cost, is kept for ever.
[retention]
bodies = "30d"

# An account: one login on a channel. Its name (here: main) is yours to choose; `replyledger login weixin --account main` logs it in.
[accounts.main]
channel = "weixin"
base_url = "https://ilinkai.weixin.qq.com"

# Who may talk to the bot: "owner" (the person who logged in), ids of peers (they end in @im.wechat), "pairing" (others wait for
# `access grant`), "all".
access = ["owner"]

# Turns of which origins are pushed. Leave out "desktop" to keep what you do at the desk out of the chat.
push_origins = ["scheduled", "desktop", "api"]

# Show the typing sign while an agent works. It may cost a send on metered channels.
typing = false

# When the login is lost: "degrade" (go on, visibly, and wait for a new login; what is sent meanwhile is accepted, and waits for it) or
# "exit" (with code 77). HUP takes a change at once.
login_lost = "degrade"

# The delivery rules. Weixin allows 10 replies to each message of a peer, within 24 hours.
[accounts.main.policy]
quota_replies = 10  # replies that a message allows
quota_window = "24h"  # for how long
share_replies = 3  # how many of them pushes may use, in any share_window; below quota_replies
share_window = "24h"  # at most 7d
backlog_outputs = 20  # outputs that wait per peer; one more, and the oldest is dropped
backlog_age = "1h"  # how long they may wait; the newest never expires
answer_parts = 10  # the most parts that one answer may have
part_bytes = 4000  # of one message, in UTF-8; 64 to 16384
mode = "enforce"  # "observe" lifts quota and share, and records what would have waited
resend_unknown = "never"  # a send of which nobody knows whether it arrived is not repeated
client_timeout = "15s"  # how long a send may stay unanswered
pace = "1s"  # between two sends of the account, in the long run
pace_burst = 5  # sends that may leave at once after a quiet time
notice_after = "30s"  # a message waits this long for an agent before its sender is told; "0s" = never told
"""
