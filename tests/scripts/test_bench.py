"""The benchmarks run, at sizes that say nothing about speed."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from events.peer_state import PeerState
from scripts.bench import agents, append, big, logs, peers, reads, replay, turns
from scripts.bench.bench import Bench, Sizes
from scripts.bench.figures import Figure, Goal, Result, Skipped, figure, text_of
from scripts.bench.streams import PeerStream, charged_peer, days, stream_name
from scripts.bench.verb import GROUPS
from scripts.main import main
from scripts.reading.world import fold
from store.sqlite import SqliteLog

TINY = Sizes(
    rounds=2,
    deep_events=3_000,
    deep_peers=20,
    producers=(1, 4),
    appends=16,
    single_appends=4,
    replayed=400,
    big_events=600,
    big_peers=20,
    big_waiting=2,
    live_peers=20,
    known_peers=50,
    agents=3,
    agent_turns=2,
    turns=3,
    turn_peers=2,
    asks=5,
    pages=2,
)
NOW = 1_750_000_000_000


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, TINY, lambda _: None)


def names(results: list[Figure] | list[Result]) -> list[str]:
    return [r.name for r in results]


def test_the_ratio_is_taken_within_each_round() -> None:
    found = figure("x", "per_s", [100, 10, 90], [200, 20, 100], goal=Goal(0.7, at_least=True))
    assert found.ratio is not None
    assert (found.ratio.median, found.ratio.low, found.ratio.high) == (0.5, 0.5, 0.9)
    assert (found.measured.median, found.met, found.rounds) == (90, False, 3)
    assert "goal >= 0.7: MISSED" in text_of(found)


def test_without_an_anchor_the_goal_is_the_figure_itself() -> None:
    found = figure("x", "ms", [3, 1, 2], goal=Goal(2, at_least=False))
    assert (found.met, found.ratio) == (True, None)
    assert "goal <= 2: met" in text_of(found)
    assert figure("x", "ms", [3], goal=Goal(2, at_least=False)).met is False
    assert "skipped: why" in text_of(Skipped(name="x", skipped="why"))


async def test_streams_fold_and_are_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        logs.build(tmp_path / name, days([PeerStream(n) for n in range(7)], 500, NOW, 1_000_000), NOW)
    roots = []
    for name in ("a.db", "b.db"):
        log = await SqliteLog.open(tmp_path / name)
        world = await fold(log.page())
        roots.append((await log.heads())[1:])  # the bot's stream begins at another instant
        await log.close()
        assert len(world.peers) == 7
        assert all(state.request is None and not state.queue for state in world.peers.values())
    assert roots[0] == roots[1]


async def test_a_charged_peer_is_what_the_goal_speaks_of(tmp_path: Path) -> None:
    logs.build(tmp_path / "a.db", charged_peer(PeerStream(1), NOW), NOW)
    log = await SqliteLog.open(tmp_path / "a.db")
    state: PeerState = (await fold(log.page())).peers[stream_name(1)]
    await log.close()
    assert (len(state.charges), len(state.queue), state.token is not None) == (10, 3, True)


async def test_append_writes_the_same_rows_on_both_sides(bench: Bench) -> None:
    """Subject and anchor, given the same batches, leave equal logs, digests included."""
    for shape in append.SHAPES.values():
        paths = [bench.folder / f"{shape.__name__}-{side}.db" for side in "ab"]
        for path in paths:
            logs.close(logs.open_core(path, NOW))
        log, raw = await SqliteLog.open(paths[0]), append.Raw(paths[1], NOW)
        pair = append.Pair(log, raw, 3, shape, at=NOW, deep=False)
        await pair.meet()
        assert len(await pair.subject(2)) == len(pair.anchor(2)) + 4
        again = append.Raw(paths[0], NOW)
        dumps = [_rows(raw), _rows(again)]
        await log.close()
        raw.close()
        again.close()
        assert dumps[0] == dumps[1]


def _rows(raw: append.Raw) -> list[list[tuple[object, ...]]]:
    """Everything but positions and digests, which follow the order of the producers."""
    queries = (
        "SELECT stream, version, type, at, cause, data FROM events WHERE stream LIKE 'peer-%' ORDER BY stream, version",
        "SELECT id, account, stream, kind, bytes, text FROM bodies ORDER BY id",
        "SELECT * FROM keys ORDER BY account, source, key",
        "SELECT * FROM agenda ORDER BY stream",
    )
    return [raw.connection.execute(query).fetchall() for query in queries]


async def test_append(bench: Bench) -> None:
    found = await append.run(bench)
    assert names(found)[:2] == ["append/event/empty/1", "append/event/empty/4"]
    assert names(found)[8:] == ["append-floor/event/empty/4"] + [
        f"append-{kind}/event/empty/{producers}" for kind in ("bytes", "lines") for producers in (1, 4)
    ]
    assert [f.goal is not None for f in found] == [*[True, False] * 4, *[False] * 5]
    assert [p.name for p in bench.folder.iterdir()] == ["deep.db"], "the files of both sides are removed"
    assert all(f.ratio and f.ratio.median > 0 for f in found)


async def test_replay_says_when_the_library_is_missing(bench: Bench) -> None:
    found = await replay.run(bench)
    assert names(found) == ["replay/read-decode", "replay/eventsourcing"]
    assert isinstance(found[1], Skipped)
    assert "--with-eventsourcing" in found[1].skipped


async def test_peers(bench: Bench) -> None:
    found = await peers.run(bench)
    known = "peers/known-50"
    assert names(found) == ["peers/rss-each", "peers/traced-each", "peers/tell-to-20", "peers/hydrate-20", known]
    assert found[-1].measured.median > 20 * found[0].measured.median


async def test_turns(bench: Bench) -> None:
    found = await turns.run(bench)
    assert names(found)[0] == "turns/to-simulator"
    assert found[0].goal == Goal(2, at_least=False)


async def test_reads(bench: Bench) -> None:
    found = await reads.run(bench)
    assert names(found) == ["reads/hydrate", "reads/ask", "reads/tell", "reads/passivate"]
    assert all(f.ratio and f.ratio.median > 0 for f in found)


async def test_agents(bench: Bench) -> None:
    (found,) = await agents.run(bench)
    assert found.name == "agents/fan-in-3"
    assert found.ratio is not None


async def test_big(bench: Bench) -> None:
    found = await big.run(bench)
    pages = [f"big/ledger-page{which}" for which in ("", "-peer", "-pushes", "-notices", "-unknown")]
    assert names(found) == [*pages, "big/start", "big/start-process", "big/start-memory"]
    assert [f.note.split()[2] for f in found[:5]] == ["100", "6", "54", "0", "0"]


def test_the_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def fake(bench: Bench) -> list[Result]:
        return [figure("x", "us", [float(bench.sizes.rounds)], [1.0])]

    monkeypatch.setitem(GROUPS, "reads", fake)
    args = ["bench", "--quick", "--only", "reads", "--folder", str(tmp_path)]
    assert main(["--json", *args]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["name"], row["ratio"]["median"]) == ("x", 3)
    assert msgspec.convert(row, Figure).rounds == 1
    assert list(tmp_path.iterdir()) == []
    assert main(["bench", "--only", "nothing"]) == 2
    assert "append, replay" in capsys.readouterr().err
