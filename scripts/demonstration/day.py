"""The scripted day: each step says in one line what happened, and fails when something else did.

All numbers are the default policy's: 10 replies for 24 h after a message, 3 of them for pushes in any 24 h, a backlog of at most 1 h.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable

from actors.gateway.api import TurnOrigin
from actors.gateway.views import Receipt
from actors.text.moments import parse_moment, show_moment
from events.base import Millis
from scripts.demonstration.asking import ANSWER_S, until
from scripts.demonstration.errors import DemoFailed
from scripts.demonstration.stage import Stage, login
from scripts.exits import ExitCode

FIRST_DAY, SECOND_DAY = "2026-09-21", "2026-09-22"  # a Monday, and the day after
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
BEFORE_MS = 1_000
"""How long before an instant that is waited for time passes without a jump."""

FENCED_S = 15.0
"""How long a replaced instance may take to notice: it looks at least every 2 s."""

Say = Callable[[str], None]


def moment(day: str, clock: str) -> Millis:
    """An instant of the demo, in the local zone."""
    return parse_moment(f"{day} {clock}", 0)


OPENING = moment(FIRST_DAY, "08:00")


def label(at: Millis) -> str:
    """`Mon 08:05:00`."""
    shown = show_moment(at)
    return f"{'Mon' if shown.startswith(FIRST_DAY) else 'Tue'} {shown[11:19]}"


def check(is_so: bool, what: str) -> None:
    """Fail unless it is so."""
    if not is_so:
        raise DemoFailed(f"not as it must be: {what}")


class Day:
    """One play. `expected` collects every text that the phone must have shown in the end."""

    def __init__(self, stage: Stage, say: Say) -> None:
        self._stage, self._say = stage, say
        self._when = ""
        self.expected: list[str] = []
        self.told: dict[str, str] = {}  # what a step is about -> its delivery, for the commands at the end

    async def play(self) -> None:
        """All steps, in order."""
        steps: tuple[Callable[[], Awaitable[None]], ...] = (
            self._a_message_is_answered,
            self._turns_are_pushed,
            self._no_token_is_known,
            self._three_leave_as_one,
            self._the_share_is_spent,
            self._the_share_rolls,
            self._a_token_went_stale,
            self._a_second_instance_starts,
            self._the_first_is_fenced,
        )
        for step in steps:
            await step()
        peer = await self._stage.peer()
        check(peer.waiting == 0 and peer.dead == 0, f"nothing waits any more, and nothing was lost; {peer}")

    # --- Monday ---------------------------------------------------------------------------------------------------

    async def _a_message_is_answered(self) -> None:
        await self._at(FIRST_DAY, "08:05")
        await self._write("Good morning! 早上好")
        peer = await self._stage.peer()
        check(peer.quota.left == 9 and peer.share.used == 0, f"one reply of 10 is spent, none of the share; {peer}")
        self._tell("The user writes and is answered once: reply 1 of 10.")

    async def _turns_are_pushed(self) -> None:
        pushes: tuple[tuple[str, TurnOrigin, str, int], ...] = (
            ("08:30", "scheduled", "Weather at half past eight: sun, 21 °C, no umbrella.", 1),
            ("09:15", "desktop", "The report you started at your desk is ready: 14 pages.", 2),
        )
        for clock, origin, text, used in pushes:
            await self._at(FIRST_DAY, clock)
            receipt = await self._push(origin, text)
            check(receipt.share.used == used, f"{used} of the share is used; {receipt.share}")
            self._tell(
                f"A {origin} turn finishes and is pushed: share {used} of 3, {receipt.quota.left} of 10 replies left."
            )

    async def _no_token_is_known(self) -> None:
        await self._at(FIRST_DAY, "09:50")
        stage, new = self._stage, login(2)
        await stage.phone.post(object, "/control/accounts", new)
        path = stage.folder.new_login(stage.credentials(new))
        await stage.run_verb(
            "login", "weixin", "--account", "main", "--import", str(path), "--config", str(stage.folder.config)
        )
        path.unlink()
        await stage.polling()
        peer = await stage.peer()
        check(not peer.token, "a new login knows no token")
        check(peer.share.used == 2, f"a new login frees no share; {peer.share}")
        self._tell(
            "The bot is logged in anew on the phone. That voids every token: nothing can be sent until the user writes."
        )

    async def _three_leave_as_one(self) -> None:
        texts = ("Build 4711 is green.", "Backup done: 3.2 GB.", "Two new issues, none urgent.")
        deliveries = []
        for clock, text in zip(("10:05", "10:20", "10:40"), texts, strict=True):
            await self._at(FIRST_DAY, clock)
            deliveries.append(await self._waits("scheduled", text, "context token"))
            self._tell("A scheduled turn finishes and waits: no token is known.")
        await self._at(FIRST_DAY, "10:55")
        before = len((await self._stage.read_phone()).accepted)
        await self._write("What is new?", pushes=1)
        merged = (await self._stage.read_phone()).accepted[before:]
        together = [a.text for a in merged if all(text in a.text for text in texts)]
        check(len(together) == 1, f"one message holds all three texts; {[a.text for a in merged]}")
        receipts = [await self._delivered(delivery) for delivery in deliveries]
        check(len({r.message_ids for r in receipts}) == 1, "all three have the message id of one reply")
        check(receipts[-1].share.used == 3, f"the share is spent; {receipts[-1].share}")
        self.expected += together
        self.told["merged"] = deliveries[0]
        self._tell("The user writes, is answered, and gets all three as ONE message: share 3 of 3.")

    async def _the_share_is_spent(self) -> None:
        await self._at(FIRST_DAY, "14:00")
        delivery = await self._waits("scheduled", "Afternoon digest: five mails, one from your sister.", "share")
        self.told["waited"] = delivery
        self._tell("A scheduled turn finishes and waits: the share of 3 is spent, although 8 of 10 replies are left.")
        await self._at(FIRST_DAY, "20:00")
        await self._write("Good evening.")
        receipt = await self._stage.receipt(delivery)
        check(receipt.state == "queued", f"a message frees no share: it still waits; {receipt}")
        check(
            receipt.earliest is not None and receipt.earliest >= moment(SECOND_DAY, "08:30"),
            f"until the roll; {receipt}",
        )
        self._tell(
            "The user writes and is answered. The push still waits, although it is 6 h old: the newest never expires."
        )

    # --- Tuesday --------------------------------------------------------------------------------------------------

    async def _the_share_rolls(self) -> None:
        waits = self.told["waited"]
        await self._at(SECOND_DAY, "08:29")
        check((await self._stage.receipt(waits)).state == "queued", "a minute before the roll it waits")
        receipt = await self._leaves_in_time(waits, "08:30")
        self.expected.append("Afternoon digest: five mails, one from your sister.")
        check(receipt.share.used == 3, f"the one that rolled is used again; {receipt.share}")
        self._tell(
            "24 h after the first push the share rolls, in the window of the evening message: the push leaves by itself."
        )

    async def _a_token_went_stale(self) -> None:
        await self._at(SECOND_DAY, "09:20")
        await self._stage.phone.post(object, "/control/knobs", {"set": {"token_life_ms": 12 * HOUR_MS}})
        text = "Your parcel is at the post office."
        delivery = await self._waits("desktop", text, "context token")
        refused = (await self._stage.read_phone()).refused
        check(len(refused) == 1 and refused[0].text == text, f"the server refused exactly this send; {refused}")
        await self._stage.phone.post(object, "/control/knobs", {"set": {"token_life_ms": 24 * HOUR_MS}})
        self.told["refused"] = delivery
        self._tell(
            "A desktop turn finishes, but the server says that the token is stale. The refused send cost nothing."
        )
        await self._at(SECOND_DAY, "09:40")
        await self._write("Any post?", pushes=1)
        await self._delivered(delivery)
        self.expected.append(text)
        self._tell("The user writes, is answered, and the refused content goes out with the new token.")

    async def _a_second_instance_starts(self) -> None:
        stage = self._stage
        await self._at(SECOND_DAY, "10:30")
        text = "Lunch at noon with Mei, table for two."
        self.told["inherited"] = delivery = await self._waits("scheduled", text, "share")
        self._tell("A scheduled turn finishes and waits: the share is spent until 10:55.")
        await self._at(SECOND_DAY, "10:40")
        await stage.quiet()
        stage.first.signal(signal.SIGSTOP)
        await stage.start_second()
        self._tell("The gateway's machine falls asleep, and a second instance starts and takes the account over.")
        await self._leaves_in_time(delivery, "10:55")
        self.expected.append(text)
        self._tell("The share rolls, and what the first instance had accepted leaves from the second.")

    async def _the_first_is_fenced(self) -> None:
        """It wakes with the very same push due, and a clock by which it may leave."""
        stage = self._stage
        stage.first.signal(signal.SIGCONT)
        status = await stage.first.ended(FENCED_S)
        check(status == ExitCode.REPLACED, f"the first instance ends with 79, not with {status}")
        await stage.quiet()
        shown = [line.text for line in (await stage.read_phone()).shown]
        check(shown.count(self.expected[-1]) == 1, f"the push arrived once; {shown[-3:]}")
        self._tell("The first wakes with the same push due. It can no longer push: it ends by itself, exit 79.")

    # --- what steps are made of -----------------------------------------------------------------------------------

    async def _at(self, day: str, clock: str) -> None:
        self._when = label(moment(day, clock))[:-3]
        await self._stage.advance_to(moment(day, clock))

    def _tell(self, what: str) -> None:
        self._say(f"{self._when}  {what}")

    async def _write(self, text: str, pushes: int = 0) -> None:
        """The user writes, and gets one answer, and so many pushes, and no more."""
        before = (await self._stage.counters())["accepted"]
        await self._stage.write(text)
        await self._stage.expect("the answer arrives", accepted=before + 1 + pushes)
        await self._stage.quiet()
        arrived = (await self._stage.read_phone()).accepted[before:]
        answer = f"echo: {text}"
        check(len(arrived) == 1 + pushes, f"{1 + pushes} messages arrive; {[a.text for a in arrived]}")
        check([a.text for a in arrived].count(answer) == 1, f"one of them is the answer; {[a.text for a in arrived]}")
        self.expected.append(answer)

    async def _push(self, origin: TurnOrigin, text: str) -> Receipt:
        delivery = await self._stage.finish_turn(self._turn_id(), origin, text)
        receipt = await self._delivered(delivery)
        self.expected.append(text)
        return receipt

    async def _leaves_in_time(self, delivery: str, clock: str) -> Receipt:
        """What waits for an instant: time jumps to just before it, and then passes as it does."""
        earliest = (await self._stage.receipt(delivery)).earliest
        due = moment(SECOND_DAY, clock)
        check(earliest is not None and due <= earliest < due + MINUTE_MS, f"it leaves at {clock}; {earliest}")
        self._when = label(due)[:-3]
        await self._stage.advance_to((earliest or due) - BEFORE_MS)
        return await self._delivered(delivery)

    async def _delivered(self, delivery: str) -> Receipt:
        receipt = await self._stage.receipt(delivery, wait_s=ANSWER_S)
        check(receipt.state == "delivered", f"{delivery} is delivered, but it is {receipt.state}: {receipt.reason}")
        return receipt

    async def _waits(self, origin: TurnOrigin, text: str, why: str) -> str:
        """A turn finishes and waits for a reason that says `why`."""
        delivery = await self._stage.finish_turn(self._turn_id(), origin, text)
        receipt = await until(
            f"{delivery} waits: {why}", lambda: self._stage.receipt(delivery), lambda r: r.state != "requested"
        )
        check(
            receipt.state == "queued" and why in receipt.reason, f"it waits ({why}); {receipt.state}: {receipt.reason}"
        )
        return delivery

    def _turn_id(self) -> str:
        return f"demo-{self._when.lower().replace(' ', '-').replace(':', '')}"
