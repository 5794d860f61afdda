"""What a name is: an id, an address, a session, an account. A text may be cleaned and stays the text that somebody wrote; a name that is
changed is the name of something else, so one that is not fit to be a name is refused as it stands. Pure."""

from __future__ import annotations

import re

from actors.text.clean import is_blank

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def fault_of(name: str) -> str:
    """What keeps a text from being a name, to be read after what it is of; "" = it is one, or empty."""
    if "\x00" in name:
        return "holds a NUL"
    control = _CONTROL.search(name)
    if control is not None:
        return f"holds the control character U+{ord(control[0]):04X}"
    if _SURROGATE.search(name):
        return "holds half a character, which UTF-8 cannot carry"
    return "shows nothing that a person could read" if name and is_blank(name) else ""
