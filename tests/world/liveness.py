"""G9: with token, quota and share left, something waiting and nothing that blocks, a send is requested within a second. Asked whenever
time is about to jump, with arithmetic of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from events.bot import Policy, paused_until
from events.peer_state import PeerState
from tests.world.recount import Recount

if TYPE_CHECKING:
    from tests.world.gateway import Life
    from tests.world.world import World

PATIENCE_MS = 1_000
AT_ONCE = ("remainders", "answers", "pushes")


class Liveness:
    """Knows since when each peer could send."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since: dict[str, int] = {}
        self._checked: dict[str, tuple[int, str]] = {}

    def before_jump(self, gap: int) -> None:
        """Time is about to pass with nothing to do until its end."""
        if gap <= 5:
            return
        now, checks = self._world.now, self._world.checks
        ready: dict[str, int] = {}
        for stream, state in checks.peers.items():
            if not (state.queue or state.answers) or state.request is not None:
                continue
            life = self._life(stream)
            lane, after = self._first(life, stream, state, gap) if life else ("", 0)
            if life and lane:
                since = ready[stream] = min(self._since.get(stream, now + after), now + after)
                if now + gap - since > PATIENCE_MS + self._pace_ms(life):
                    checks.fail("G9", f"{stream}: {lane} could leave since {now - since} ms, next look in {gap} ms")
        self._since = ready

    def _life(self, stream: str) -> Life | None:
        """Where the stream is served, if nothing hinders the process."""
        account = self._world.checks.account_of(stream)
        life = self._world.life(account.rpartition(":")[2])
        if life is None or life.state != "running" or life.account.fenced:
            return None
        return None if life.gateway.log.busy or life.machine.paused else life

    def _pace_ms(self, life: Life) -> int:
        """How long the account's pace may make a peer wait here."""
        policy = life.account.view.policy
        return policy.pace_ms * (len(self._world.checks.peers) + policy.pace_burst) + 5_000

    def _first(self, life: Life, stream: str, state: PeerState, gap: int) -> tuple[str, int]:
        """A lane that may send, and in how many ms it may first: now, or by the mere passing of the time that is about to pass."""
        lane = self._lane(life, stream, state, 0)
        if lane or gap <= PATIENCE_MS or not self._lane(life, stream, state, gap - 1):
            return lane, 0
        low, high = 0, gap - 1  # not yet, already
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._lane(life, stream, state, middle) else (middle, high)
        return self._lane(life, stream, state, high), high

    def _lane(self, life: Life, stream: str, state: PeerState, after: int) -> str:
        """A lane that may send so many ms from now, "" if none may."""
        checks = self._world.checks
        bot = checks.bots[life.spec.address.bot]
        policy, recount = bot.policy, checks.recounts[stream]
        now = max(life.machine.clock.now(), state.at) + after
        token = state.token
        if paused_until(bot, stream, now) != 0 or state.retry_at > now or bot.login_lost is not None:
            return ""
        if token is None or token.generation != bot.generation:
            return ""
        enforced = policy.mode == "enforce"
        left = policy.quota_replies - recount.spent()
        if enforced and (left <= 0 or not recount.open(bot.generation, policy, now)):
            return ""
        return self._waiting(state, policy, recount, left, now, enforced=enforced)

    @staticmethod
    def _waiting(state: PeerState, policy: Policy, recount: Recount, left: int, now: int, *, enforced: bool) -> str:
        window = recount.windows
        free = [o for o in state.answers if o.held != window]
        if any(o.window >= window for o in free):
            return "an answer"
        last = left == 1 and state.open_turns > 0 and policy.quota_replies > 1
        if free and (not enforced or (recount.remainders() < recount.half(policy) and not last)):
            return "a remainder"
        if state.queue and (
            not enforced or (recount.shared(policy, now) < policy.share_replies and left > state.open_turns)
        ):
            return "a push"
        return ""
