"""Changes valid messages where it hurts: a key twice, a float where an integer is due, half a character, a value one over a limit.

Most random bytes are refused by the first byte; a message that is nearly right gets further. JSON is changed as a tree, everything else
as text and bytes. The same seed makes the same change.
"""

from __future__ import annotations

import json
import random
from typing import Any

MB = 1_048_576

TOKENS = (
    "null", "true", "false", "0", "-0", "1", "-1", "1.0", "0.0", "-1.5", "1e400", "-1e400", "1e-400", "NaN", "Infinity",
    "2147483648", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "1" + "0" * 400, "9" * 5_000, "[]", "{}", '""', '" "', '"0"', '"-14"', "[[]]",
    '"\\u0000"', '"\\ud800"', '"\\udc00\\ud83d"', '"\\ud83d\\ude00"', '"\\ufeff"', '"\\u202e"', '"a\\r\\nb"', '"\\u001f"',
    '{"":0}', '{"type":"type"}', "[null]", "[0,\"\",{}]", '"' + "x" * 257 + '"', '"' + "\\u754c" * 600 + '"',
    "[" * 60 + "]" * 60, "[" * 2_000 + "]" * 2_000, '{"a":' * 400 + "1" + "}" * 400, "tru", "01", "1.", "'x'", "",
)  # fmt: skip
"""What may stand for a value in JSON, and some of what may not."""

PIECES = (
    b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b"\n\n", b"\x85",
    b"\xe2\x80\xa8", b"```", b"\n```\n", b"~~~", b"[[", b"]]", b"[[reply_to:", b":", b"\\", b"\"", b"'", b"%00", b"%2f", b"@", b"#", b"..",
    b"\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9", b"e\xcc\x81", b"\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", b" " * 70, b"9" * 5_000,
)  # fmt: skip
"""What is put into bytes."""


class Pairs(list[tuple[str, Any]]):
    """An object of JSON that may have a key twice."""


class Token(str):
    """JSON as it is written, or what is none."""

    __slots__ = ()


def changed(data: bytes, dice: random.Random, most: int = 4 * MB) -> bytes:
    """A message with one to three changes, at most `most` bytes."""
    for _ in range(dice.randint(1, 3)):
        data = _changed_tree(data, dice) if dice.random() < 0.6 else _changed_bytes(data, dice)
    return data[:most]


def _changed_tree(data: bytes, dice: random.Random) -> bytes:
    """One of the JSON documents in it changed: the whole, what stands behind the first line, or a line."""
    head, newline, rest = data.partition(b"\n")
    lines = data.split(b"\n")
    at = dice.randrange(len(lines))
    for before, document, after in (
        (b"", data, b""),
        (head + newline, rest, b""),
        (b"\n".join([*lines[:at], b""]), lines[at], b"\n".join([b"", *lines[at + 1 :]])),
    ):
        try:
            tree = json.loads(document, object_pairs_hook=Pairs)
        except (ValueError, RecursionError):
            continue
        try:
            return before + dump(_planted(tree, dice)).encode("utf-8", "surrogatepass") + after
        except RecursionError:
            return data
    return _changed_bytes(data, dice)


def _planted(tree: Any, dice: random.Random) -> Any:
    """The tree with another value, key or member somewhere."""
    if not isinstance(tree, list) or not tree or dice.random() < 0.15:
        return _other(tree, dice)
    at = dice.randrange(len(tree))
    if isinstance(tree, Pairs):
        return _planted_pair(tree, at, dice)
    return [*tree[:at], _planted(tree[at], dice), *tree[at + dice.choice((0, 1)) :]]


def _planted_pair(pairs: Pairs, at: int, dice: random.Random) -> Pairs:
    key, value = pairs[at]
    match dice.randrange(8):
        case 0:
            new = []  # left out
        case 1:
            new = [(key, value), (key, _other(value, dice))]  # twice
        case 2:
            new = [
                (key + dice.choice(("", "_", "\x00", "x", "\ud800")), value),
                (dice.choice(("", "type", "$", "a.b")), 1),
            ]
        case 3:
            new = [(key.upper(), value)]
        case 4:
            return Pairs([*pairs[:at], *pairs[at + 1 :], pairs[at]])  # last
        case _:
            new = [(key, _planted(value, dice))]
    return Pairs([*pairs[:at], *new, *pairs[at + 1 :]])


def _other(value: Any, dice: random.Random) -> Any:
    match dice.randrange(5):
        case 0 if isinstance(value, str):
            return value + dice.choice(("\x00", "\ud83d", "\r", " ", "x" * 300, "\u202e", "界" * 1_400))
        case 1 if isinstance(value, int) and not isinstance(value, bool):
            return dice.choice((Token(f"{value}.0"), str(value), -value, value + 1, value - 1, value * 1_000_003))
        case 2:
            return [value]
        case _:
            return Token(dice.choice(TOKENS))


def dump(tree: Any) -> str:
    """A tree as JSON, or as nearly as its tokens are."""
    if isinstance(tree, Token):
        return str(tree)
    if isinstance(tree, Pairs):
        return "{" + ",".join(f"{json.dumps(k)}:{dump(v)}" for k, v in tree) + "}"
    if isinstance(tree, list):
        return "[" + ",".join(map(dump, tree)) + "]"
    return json.dumps(tree, ensure_ascii=bool(isinstance(tree, str) and len(tree) % 2))


def _changed_bytes(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    to = min(len(data), at + dice.choice((0, 1, 1, 2, 8, 64)))
    match dice.randrange(5):
        case 0:
            return data[:at] + data[to:]
        case 1:
            return data[:to] + data[at:]
        case 2:
            return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]
        case 3:
            return data[:at]
        case _:
            return data[:at] + dice.choice(PIECES) + data[to:]
