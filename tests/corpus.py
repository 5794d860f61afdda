"""Documents that texts are tested on: real ones that lie around in every environment, and hand-made hard ones."""

from __future__ import annotations

import importlib.metadata
from functools import cache
from typing import NamedTuple


class Document(NamedTuple):
    """A text with the name under which a failing test shows it."""

    name: str
    text: str


_LINES = "\n".join(f"line {number} of a longer listing" for number in range(400))

HAND_MADE = (
    Document("empty", ""),
    Document("word", "hello"),
    Document("chinese", "今天天气很好，我们去公园散步吧。" * 400),
    Document("chinese paragraphs", "第一段：报告摘要如下。\n\n第二段写得长一些，包括很多细节！\n\n" * 120),
    Document("japanese without spaces", "吾輩は猫である名前はまだ無い" * 500),
    Document("korean, decomposed", "\u1112\u1161\u11ab\u1100\u1173\u11af" * 900),
    Document("emoji", "😀🎉🚀" * 1500),
    Document("families", "👨\u200d👩\u200d👧\u200d👦" * 400),
    Document("flags", "🇩🇪🇨🇳🇯🇵" * 600),
    Document("skin tones", "👍🏽👋🏿" * 800),
    Document("keycaps and hearts", "1\ufe0f\u20e3❤\ufe0f" * 800),
    Document("combining marks", "e\u0301a\u0308" * 2500),
    Document("devanagari", "क्षेत्र में नमस्ते " * 300),
    Document("thai", "กำลังทำงานอยู่" * 400),
    Document("arabic", "مرحبا بالعالم، كيف حالك اليوم؟ " * 300),
    Document("hebrew and latin", "שלום world, עולם hello. " * 300),
    Document("right-to-left marks", "\u202bשלום\u202c \u200fabc\u200e " * 300),
    Document("one long line", "x" * 20_000),
    Document("one long url", "see https://example.org/" + "path/" * 2500),
    Document("long words", ("y" * 900 + " ") * 20),
    Document("table", "| name | value |\n|---|---|\n" + "| alpha | 12345 |\n" * 600),
    Document("code", "Before.\n\n```python\n" + "value = compute(value)\n" * 500 + "```\n\nAfter."),
    Document("code, tildes", "~~~~ text\n" + "```\nnot a fence in here\n```\n" * 300 + "~~~~\nafter"),
    Document("nested fences", "````markdown\n```python\nprint(1)\n```\n" * 1 + _LINES + "\n````\n" + _LINES),
    Document("fence in a list", "1. Do this:\n\n   ```sh\n" + "   make all\n" * 600 + "   ```\n2. Done."),
    Document("fence left open", "```json\n" + '{"a": [1, 2, 3]},\n' * 500),
    Document("many fences", "```sh\nls\n```\ntext\n" * 600),
    Document("one long line of code", "```\n" + "z" * 12_000 + "\n```\nend"),
    Document("long opening line", '```{"a": ' + "1" * 9000 + "}\n```\nend"),
    Document("inline code", "Use `a` and ``b`c`` and ```d``` here. " * 300),
    Document("crlf", "first line\r\nsecond line\r\n\r\nnew paragraph\r\n" * 300),
    Document("blank lines", "a" + "\n" * 9000 + "b"),
    Document("spaces", "a" + " " * 9000 + "b" + "\t" * 9000),
    Document("zero-width", "a" + "\u200b" * 4000 + "b"),
    Document("only whitespace", " \n\t" * 3000),
    Document("controls", "bell \x07 escape \x1b[31mred\x1b[0m " * 300),
)


@cache
def documents() -> tuple[Document, ...]:
    """Return the long descriptions of the installed packages, by name, and the hand-made documents."""
    found = {}
    for package in importlib.metadata.distributions():
        text = package.metadata.get_payload() or package.metadata.get("Description")
        if isinstance(text, str) and text.strip():
            found[package.metadata["Name"]] = text
    return (*(Document(name, found[name]) for name in sorted(found)), *HAND_MADE)
