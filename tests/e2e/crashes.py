"""A gateway that is killed again and again, while it starts, serves and works: `python -m tests.e2e.crashes --kills N [--seed S]`.

Clients offer turns and people write all the while, and time jumps now and then, so that shares roll and windows end. At the end everything
that was acknowledged is in the log, nothing was sent or answered twice, server and ledger agree, and the log proves itself.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random

from tests.e2e.load import Load
from tests.e2e.phones import HOUR
from tests.e2e.stage import Stage, stage_in

PEOPLE = 4
MOMENTS = ("starting", "starting", "serving", "working")
START_S = 0.6
"""A start takes about so long; a kill while starting comes before."""

SERVE_S = 0.2


def crash(stage: Stage, load: Load, chance: Random, kills: int) -> Counter[str]:
    """Kill the gateway so many times and let it run at the end; how often at which moment."""
    moments = Counter[str]()
    stage.gateway.child.kill()
    for _ in range(kills):
        moment = chance.choice(MOMENTS)
        moments[moment] += 1
        if moment == "starting":
            stage.gateway.launch()
            load.over.wait(chance.uniform(0, START_S))
        else:
            stage.gateway.start()
            if moment == "working":
                load.goes_on()
            load.over.wait(chance.uniform(0, SERVE_S))
        stage.gateway.child.kill()
        if chance.random() < 0.05:
            stage.clock.advance(chance.randint(1, 30) * HOUR)
    stage.gateway.start()
    return moments


def survive(stage: Stage, chance: Random, kills: int) -> tuple[Counter[str], int]:
    """Kill under load, and check: (moments, turns acknowledged). Raises AssertionError."""
    load = Load(stage, [stage.guest(f"hello {n}") for n in range(PEOPLE)])
    with load.running():
        moments = crash(stage, load, chance, kills)
        load.goes_on()
    load.check()
    stage.gateway.sound()
    stage.check()
    return moments, len(load.acknowledged)


def main() -> int:
    """0 if everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.crashes", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument(
        "--seed", type=int, default=1, help="draws the moments; what the processes make of them differs"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, stage_in(Path(folder)) as stage:
        stage.echo()
        moments, turns = survive(stage, Random(given.seed), given.kills)
    killed = ", ".join(f"{count} while {moment}" for moment, count in sorted(moments.items()))
    print(f"seed {given.seed}: {given.kills} kills ({killed}), {turns} turns acknowledged, nothing lost or overspent")
    return 0


if __name__ == "__main__":
    sys.exit(main())
