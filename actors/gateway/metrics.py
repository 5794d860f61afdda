"""Metrics: counted from events as they are appended, and read from live accounts when asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.life import AccountLife
from events.base import Recorded
from events.peer import SendFailed, SendRequested, SendSucceeded, SendUnknown

STATES = ("starting", "running", "stopped", "login_needed", "login_lost", "fenced", "failed")


class Metrics:
    """What `/metrics` shows beside the listener's own numbers."""

    def __init__(self, registry: CollectorRegistry, lives: Mapping[str, AccountLife]) -> None:
        self._events = Counter("replyledger_events", "Events that this process appended.", ("type",), registry=registry)
        self._requested = Counter("replyledger_sends_requested", "Replies requested.", ("kind",), registry=registry)
        self._outcomes = Counter("replyledger_send_outcomes", "Outcomes of requests.", ("outcome",), registry=registry)
        registry.register(_Live(lives))

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
