"""A person is erased while the gateway runs: from every file, at once but for the address, which goes by itself a day later."""

from __future__ import annotations

from tests.e2e.gateway import disk_bytes
from tests.e2e.processes import eventually
from tests.e2e.stage import Stage


def test_a_person_is_erased_from_every_file_and_what_was_spent_is_not_given_twice(stage: Stage) -> None:
    stage.echo()
    guest = stage.guest("a SECRET question")
    for number in range(3):
        offered = stage.gateway.offer(guest.address, f"SECRET news {number}", turn_id=f"job-{number}")
        assert stage.gateway.receipt(offered["delivery"])["state"] == "delivered"
    waits = stage.gateway.offer(guest.address, "a SECRET that waits", turn_id="job-9")
    assert waits["state"] == "queued"
    assert b"SECRET" in disk_bytes(stage.gateway.state)

    (done,) = stage.gateway.verb("erase", "--peer", guest.address, "--yes", "--json").rows
    assert done["deliveries"] == [waits["delivery"]]
    assert (done["requests"], done["address"], done["files_clean"]) == (4, "until", True)
    assert b"SECRET" not in disk_bytes(stage.gateway.state)
    assert stage.gateway.receipt(waits["delivery"])["state"] == "erased"
    assert stage.gateway.verb("dead", "list").out == ""
    assert "erased" in stage.gateway.verb("peers", guest.address).out
    sentences = "\n".join(stage.gateway.explain("job-9")["sentences"])
    assert "erased" in sentences
    assert "dead retry" not in sentences
    assert stage.gateway.peer(guest.address)["share"]["used"] == 3
    stage.gateway.sound()

    stage.gateway.restart()
    stage.at(done["address_until"] + 1_000)
    account = guest.address.rpartition(":")[0]
    eventually(lambda: guest.address not in stage.gateway.verb("peers", "--account", account).out, "its address goes")
    stage.gateway.verb("erase", "--peer", guest.address, "--yes", code=1)
    assert [row["peer"] for row in stage.gateway.ledger()] == [done["stream"]] * 4
    stage.gateway.sound()
    guest.says("it is me")
    eventually(lambda: len(guest.accepted) == 5, "an answer")
    assert stage.gateway.peer(guest.address)["stream"] != done["stream"]
    spent = {row["client_id"] for row in stage.gateway.ledger()}
    assert spent == {row["client_id"] for row in guest.accepted}, "under two names, the server's list"
    stage.cast.remove(guest)
