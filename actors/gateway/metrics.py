"""Metrics: counted from events as they are appended, and read from live accounts when asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.life import AccountLife
from events.base import Recorded
from events.bot import BotStarted
from events.peer import SendFailed, SendRequested, SendSucceeded, SendUnknown
from store.records import Claim

STATES = ("starting", "running", "stopped", "login_needed", "login_lost", "fenced", "failed")


class Metrics:
    """What `/metrics` shows beside the listener's own numbers."""

    def __init__(self, registry: CollectorRegistry, lives: Mapping[str, AccountLife]) -> None:
        self._events = Counter("replyledger_events", "Events that this process appended.", ("type",), registry=registry)
        self._requested = Counter("replyledger_sends_requested", "Replies requested.", ("kind",), registry=registry)
        self._outcomes = Counter("replyledger_send_outcomes", "Outcomes of requests.", ("outcome",), registry=registry)
        self._claims = Counter(
            "replyledger_claims",
            "Accounts that this process claimed, by whom it replaced.",
            ("account", "replaced"),
            registry=registry,
        )
        self._busy = Gauge(
            "replyledger_log_busy", "1 while the log takes nothing, as on a full disk.", registry=registry
        )
        self._busy_episodes = Counter(
            "replyledger_log_busy_episodes", "Times that the log took nothing.", registry=registry
        )
        self._log_busy = False
        registry.register(_Live(lives))

    def claimed(self, claim: Claim) -> None:
        """Count a start of an account: its first (`replaced="nobody"`), or one that replaces another instance."""
        self._events.labels(str(BotStarted.__struct_config__.tag)).inc()
        self._claims.labels(claim.account, "instance" if claim.replaces else "nobody").inc()

    def log_busy(self, busy: bool) -> None:
        """The log takes nothing from here on, or takes appends again."""
        self._busy_episodes.inc(int(busy and not self._log_busy))
        self._log_busy = busy
        self._busy.set(int(busy))

    def count(self, recorded: tuple[Recorded, ...]) -> None:
        """Count events."""
        for r in recorded:
            self._events.labels(r.type).inc()
            match r.event:
                case SendRequested(kind=kind):
                    self._requested.labels(kind).inc()
                case SendSucceeded(message_id=message_id):
                    self._outcomes.labels("confirmed" if message_id else "unconfirmed").inc()
                case SendFailed(failure=failure):
                    self._outcomes.labels(failure).inc()
                case SendUnknown():
                    self._outcomes.labels("unknown").inc()
                case _:
                    pass


class _Live(Collector):
    """Accounts as they are when asked."""

    def __init__(self, lives: Mapping[str, AccountLife]) -> None:
        self._lives = lives

    def collect(self) -> Iterable[Metric]:
        """The gauges of every account."""
        state = GaugeMetricFamily(
            "replyledger_account_state", "1 for the state an account is in.", labels=("account", "state")
        )
        epoch = GaugeMetricFamily("replyledger_account_epoch", "The epoch this instance claimed.", labels=("account",))
        waiting = GaugeMetricFamily("replyledger_peers_waiting", "Peers for whom something waits.", labels=("account",))
        live = GaugeMetricFamily("replyledger_actors_live", "Live actors.", labels=("account",))
        blocked = GaugeMetricFamily(
            "replyledger_peers_blocked", "Waiting peers by what blocks them.", labels=("account", "reason")
        )
        warned = GaugeMetricFamily(
            "replyledger_share_spent_episodes", "Times that a peer's share of pushes was spent.", labels=("account",)
        )
        for life in self._lives.values():
            name, account = life.spec.address.bot, life.account
            for each in STATES:
                state.add_metric((name, each), 1 if each == life.state else 0)
            epoch.add_metric((name,), account.view.epoch)
            waiting.add_metric((name,), len(account.waiting))
            live.add_metric((name,), len(account.peers))
            warned.add_metric((name,), account.share_warnings)
            reasons = list(account.blocked.values())
            for reason in sorted(set(reasons)):
                blocked.add_metric((name, reason), reasons.count(reason))
        return (state, epoch, waiting, live, blocked, warned)
