"""`erase`: what it asks, does and says; with a running gateway and without one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from actors.gateway import api, views
from scripts.asking import spool
from scripts.configuration.config import load
from scripts.erase import Report
from scripts.running.offline import OfflineAsker
from tests.gateway.fake import NOW, FakeGateway
from tests.gateway.stage import ANN
from tests.scripts.console import Console
from tests.scripts.gateway_here import GatewayHere

BACK = "Whoever comes back before that is known by it, so that nothing is spent twice"
ALICE = "weixin:main:alice@im.wechat"


async def test_it_says_what_went_and_what_stays_and_why(console: Console, gateway: FakeGateway) -> None:
    spool.leave(console.folder / "state", api.TurnOffer(to=ALICE, turn_id="t1", text="secret"))
    spool.leave(console.folder / "state", api.TurnOffer(session="s1", turn_id="t2", text="secret"))
    spool.leave(console.folder / "state", api.TurnOffer(to="weixin:main:bob@im.wechat", turn_id="t3", text="for bob"))
    ended = await console.run("erase", "--peer", ALICE, "--yes")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        f"erased: {ALICE}",
        "  texts 12, reply handles 1, media keys 0, raw answers of the channel 0",
        "  the name",
        "  waited, and will not be sent: d-1, d-2",
        "  bound to session s1 no more",
        "  turns in the spool: 2",
        "stays:",
        "  requests in the ledger: 7, with times, sizes and ids, under peer-0123: what was spent stays provable",
        "  the channel's ids of messages, for 35 days: what it delivers again is recognised",
        "  the address and the fingerprints of its messages, until 2025-06-16 15:06:40 UTC; they go by themselves. "
        + BACK,
        "  what agents, backups and the channel itself keep is not ours to erase",
    ]
    left = [path.read_bytes() for path in (console.folder / "state" / "spool").iterdir()]
    assert len(left) == 1
    assert b"for bob" in left[0]
    assert gateway.orders == [api.EraseOrder(peer=ALICE, who="cli:tester")]


async def test_json_has_stable_keys(console: Console, gateway: FakeGateway) -> None:
    gateway.erased = {"address": "login", "address_until": None, "in_flight": "r-1", "files_clean": False}
    (row,) = (await console.run("erase", "--delivery", "d-1", "--yes", "--json")).rows
    assert set(row) == set(Report.__struct_fields__)
    assert (row["spooled"], row["address"], row["turn_id"]) == (0, "login", "t-1")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"address": "gone", "address_until": None},
            "  the name, and the address and the fingerprints of its messages",
        ),
        (
            {"address": "login", "address_until": None},
            "  the address and the fingerprints of its messages: the account is logged in as this peer. After",
        ),
        (
            {"address": "outcome", "address_until": None},
            "  the address and the fingerprints of its messages, until the outcome of what is on its way",
        ),
        ({"in_flight": "r-1"}, "  request r-1 was on its way, and cannot be called back"),
        ({"files_clean": False}, "  copies in the log's files, as long as somebody reads them"),
        ({"turn": "t-9", "messages": 2}, "  the open turn t-9 was cancelled"),
    ],
)
async def test_each_thing_that_stays_has_its_line(
    console: Console, gateway: FakeGateway, changes: dict[str, object], line: str
) -> None:
    gateway.erased = changes
    ended = await console.run("erase", "--peer", ALICE, "--yes")
    assert any(one.startswith(line) for one in ended.out.splitlines()), ended.out


def test_without_a_gateway_and_no_byte_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = GatewayHere(tmp_path, monkeypatch)
    here.log_in()
    asker = OfflineAsker(load(here.path))
    offer = api.TurnOffer(to="weixin:main", turn_id="t1", text="a SECRET that waits")
    accepted = asker.post(views.TurnAccepted, "/v1/turns", offer)
    files = sorted(path for path in here.state.rglob("*") if path.is_file())
    assert any(b"SECRET" in path.read_bytes() for path in files)
    done = asker.post(views.Erased, "/v1/erase", api.EraseOrder(peer="weixin:main", who="ops"))
    assert (done.texts, done.deliveries) == (1, (accepted.deliveries[0].delivery,))
    assert (done.address, done.addresses) == ("login", (f"weixin:main:{ANN}", "weixin:main"))
    assert done.files_clean
    assert not [p for p in here.state.rglob("*") if p.is_file() and b"SECRET" in p.read_bytes()]
    receipt = asker.get(views.Receipt, f"/v1/deliveries/{accepted.deliveries[0].delivery}")
    assert (receipt.state, receipt.reason) == ("erased", "its text was erased")


def test_the_report_is_the_answer_and_the_spool() -> None:
    more = {f.name for f in msgspec.structs.fields(Report)} - {f.name for f in msgspec.structs.fields(views.Erased)}
    assert more == {"spooled", "unread"}
    assert NOW
