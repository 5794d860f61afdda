"""Where logins are kept: `STATE_DIR/accounts/ACCOUNT.json`, mode 0600, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import msgspec

from actors.errors import LoginUnreadable
from actors.ports import Credentials
from scripts.exits import ConfigRefused
from scripts.files import write_private

FILE_BYTES_MAX = 65_536


class LoginRefused(ConfigRefused, LoginUnreadable):
    """The file of a login is refused."""


class LoginFile:
    """The login of one account."""

    def __init__(self, state_dir: Path, account: str) -> None:
        self.path = state_dir / "accounts" / f"{account}.json"

    def read(self) -> Credentials | None:
        """The login, None while nobody has logged in. Raises LoginRefused for a file that is none."""
        try:
            with self.path.open("rb") as file:
                data = file.read(FILE_BYTES_MAX)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LoginRefused(f"{self.path} cannot be read: {error.strerror}") from None
        try:
            return msgspec.json.decode(data, type=Credentials)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise LoginRefused(f"{self.path} is no login ({error}); log in again: replyledger login") from None

    def write(self, credentials: Credentials) -> None:
        """Keep a login."""
        write_private(self.path, msgspec.json.format(msgspec.json.encode(credentials), indent=2))

    def forget(self) -> None:
        """Log out."""
        self.path.unlink(missing_ok=True)
