"""Whether what is about to be left in the spool can ever be taken in: by the configuration alone, for no gateway answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from actors.gateway.api import TurnOffer
from actors.gateway.errors import nearest
from events.errors import BadAddress
from events.streams import parse_address
from scripts.configuration.config import Account, Config
from scripts.exits import Misused
from scripts.running.credentials import LoginFile

PEER = "peer-"
"""How a peer's name in the log begins, which is taken for an address, too; whose it is only the log knows."""


def check(config: Config, offers: Iterable[TurnOffer]) -> None:
    """Raises Misused, with the nearest account, for an address of an account that the configuration does not name."""
    for offer in offers:
        if offer.to and not offer.to.startswith(PEER):
            _account(config, offer.to)


def logins_needed(config: Config, offers: Iterable[TurnOffer]) -> tuple[str, ...]:
    """What logs in each account among the addresses that nobody has logged in to."""
    return tuple(dict.fromkeys(_logins_needed(config, offers)))


def _logins_needed(config: Config, offers: Iterable[TurnOffer]) -> Iterator[str]:
    for offer in offers:
        if offer.to and not offer.to.startswith(PEER):
            account = _account(config, offer.to)
            if not LoginFile(config.state_dir, account.name).path.exists():
                yield login_verb(account)


def login_verb(account: Account) -> str:
    """How somebody logs in to an account."""
    return f"replyledger login {account.channel} --account {account.name}"


def _account(config: Config, address: str) -> Account:
    try:
        bot = parse_address(address).bot
    except BadAddress as error:
        raise Misused(f"{error}{_hint(config, address)}; nothing was left in the spool") from None
    found = next((a for a in config.accounts if a.address == bot), None)
    if found is None:
        known = ", ".join(a.address for a in config.accounts)
        said = f"{config.path} has no account {bot}; it has: {known}{_hint(config, bot)}"
        raise Misused(f"{said}; nothing was left in the spool")
    return found


def _hint(config: Config, name: str) -> str:
    """The account that is most like what was written."""
    bots = {a.name: a.address for a in config.accounts}
    near = (bots[name],) if name in bots else nearest(name, bots.values())
    return f"; did you mean {near[0]!r}?" if near else ""
