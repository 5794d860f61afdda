"""Secrets: read from where the configuration says they are, and never shown."""

from __future__ import annotations

import os
from pathlib import Path

from scripts.configuration.values import SecretRef
from scripts.exits import ConfigRefused

SECRET_BYTES_MAX = 65_536


class Secret:
    """A secret that neither `str` nor `repr` tells."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself, for the header it goes into."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"


def read_secret(ref: SecretRef, folder: Path, key: str) -> Secret:
    """The secret that the configuration's `key` refers to; files are relative to `folder`. Raises ConfigRefused, which names
    the variable or the file."""
    if ref.kind == "env":
        value = os.environ.get(ref.name, "")
        if not value.strip():
            raise ConfigRefused(f"{key}: the environment variable {ref.name} is not set")
    else:
        value = _file(folder / Path(ref.name).expanduser(), key)
    return Secret(_usable(value.strip(), f"{key}: what {ref} holds"))


def _file(path: Path, key: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigRefused(f"{key}: the file {path} cannot be read: {error.strerror}") from None
    if len(data) > SECRET_BYTES_MAX:
        raise ConfigRefused(f"{key}: the file {path} is larger than {SECRET_BYTES_MAX} bytes")
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise ConfigRefused(f"{key}: the file {path} holds more than ASCII characters") from None


def _usable(value: str, what: str) -> str:
    if not value:
        raise ConfigRefused(f"{what} is empty")
    if not value.isascii() or not value.isprintable() or " " in value:
        raise ConfigRefused(f"{what} has white space or characters that no HTTP header carries")
    return value
