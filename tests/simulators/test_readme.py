"""The README names everything that the control API and the faults know."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from scripts.simulators.clock import ManualClock
from scripts.simulators.pulse import Pulse
from scripts.simulators.weixin.control import LEDGERS, Control
from scripts.simulators.weixin.knobs import Kind, Place
from scripts.simulators.weixin.model import WeixinModel

README = (Path(__file__).parents[2] / "scripts" / "simulators" / "README.md").read_text()
ROUTES = Control(WeixinModel(), ManualClock(), Pulse()).routes()


@pytest.mark.parametrize("word", [*LEDGERS, *get_args(Kind), *get_args(Place)])
def test_words(word: str) -> None:
    assert f"`{word}`" in README


@pytest.mark.parametrize("path", sorted({route.path for route in ROUTES}))
def test_routes(path: str) -> None:
    name = path.removeprefix("/control/").partition("/{")[0]
    assert any(f"{word}{name}" in README for word in ("`POST ", "`GET ", "· `POST ", "`DELETE ")), name
