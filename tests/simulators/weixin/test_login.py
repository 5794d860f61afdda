"""The QR login over all eight status words (iLink protocol notes 1.3)."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.simulators.errors import BadScriptError, UnknownCodeError
from scripts.simulators.weixin.login import STATUS_WORDS, confirm, find_code, redirect, scan, script
from scripts.simulators.weixin.state import Hold, Qr
from tests.simulators.asking import OWNER, START, Bot, read

NEWCOMER = "o9New@im.wechat"


class Phone:
    """A client that logs in, and the phone that scans its code."""

    def __init__(self) -> None:
        self.bot = Bot()
        self.bot.state.base_url = "http://127.0.0.1:1"

    def new_code(self, *local_tokens: str) -> Qr:
        body = {"local_token_list": list(local_tokens)}
        request = self.bot.request("get_bot_qrcode", body, authorization=None)
        reply = read(self.bot.model.handle(request, self.bot.now))
        assert reply["qrcode_img_content"].startswith("https://liteapp.weixin.qq.com/q/")
        return find_code(self.bot.state, reply["qrcode"])

    def ask(self, code: Qr, **query: str) -> dict[str, Any] | Hold:
        answer = self.bot.get("get_qrcode_status", qrcode=code.code, **query)
        return answer if isinstance(answer, Hold) else read(answer)

    def status(self, code: Qr, **query: str) -> str:
        answer = self.ask(code, **query)
        return "held" if isinstance(answer, Hold) else answer["status"]


@pytest.fixture
def phone() -> Phone:
    return Phone()


def test_from_scan_to_credentials(phone: Phone) -> None:
    code = phone.new_code()
    assert phone.status(code) == "held"
    scan(code)
    assert [phone.status(code), phone.status(code)] == ["scaned", "held"]
    confirm(phone.bot.state, code, NEWCOMER)
    reply = phone.ask(code)
    assert isinstance(reply, dict)
    assert (reply["status"], reply["ilink_user_id"], reply["baseurl"]) == ("confirmed", NEWCOMER, "http://127.0.0.1:1")
    assert reply["bot_token"].startswith(f"{reply['ilink_bot_id']}:0600")
    assert phone.ask(code) == reply, "asked again, it grants the same"
    assert phone.bot.state.accounts[reply["bot_token"]].alive
    assert phone.bot.rules == []


def test_a_second_binding_makes_the_first_token_stale(phone: Phone) -> None:
    code = phone.new_code()
    confirm(phone.bot.state, code, OWNER.user_id)
    assert phone.status(code) == "confirmed"
    assert phone.bot.call("getupdates", {"get_updates_buf": ""})["errcode"] == -14


def test_a_listed_token_of_the_same_user_is_bound_already(phone: Phone) -> None:
    code = phone.new_code(OWNER.token)
    confirm(phone.bot.state, code, OWNER.user_id)
    assert phone.ask(code) == {"ret": 0, "status": "binded_redirect"}
    assert len(phone.bot.state.accounts) == 1


def test_a_listed_token_that_went_stale_binds_nothing(phone: Phone) -> None:
    code = phone.new_code(OWNER.token)
    phone.bot.state.kill_bots_of(OWNER.user_id)
    confirm(phone.bot.state, code, OWNER.user_id)
    assert phone.status(code) == "confirmed"


def test_a_hold_ends_with_wait_and_a_code_with_expired(phone: Phone) -> None:
    code = phone.new_code()
    hold = phone.ask(code)
    assert isinstance(hold, Hold)
    assert hold.until == START + 20_000
    assert read(phone.bot.model.resume(hold, hold.until))["status"] == "wait"
    phone.bot.now = START + 110_000
    hold = phone.ask(code)
    assert isinstance(hold, Hold)
    assert hold.until == START + 120_000
    assert read(phone.bot.model.resume(hold, hold.until))["status"] == "expired"
    assert phone.status(code) == "expired", "a dead code is not held"


def test_digits_right_and_wrong(phone: Phone) -> None:
    code = phone.new_code()
    scan(code, digits="42")
    asked = [phone.status(code), phone.status(code), phone.status(code, verify_code="41")]
    assert asked == ["need_verifycode", "held", "need_verifycode"]
    assert phone.status(code, verify_code="42") == "scaned"


def test_three_wrong_codes_block(phone: Phone) -> None:
    code = phone.new_code()
    scan(code, digits="42")
    asked = [phone.status(code, verify_code=wrong) for wrong in ("1", "2", "3", "42")]
    assert asked == ["need_verifycode", "need_verifycode", "verify_code_blocked", "verify_code_blocked"]


def test_redirect(phone: Phone) -> None:
    code = phone.new_code()
    redirect(code, "other.example")
    assert phone.ask(code) == {"ret": 0, "status": "scaned_but_redirect", "redirect_host": "other.example"}
    assert phone.status(code) == "scaned", "the other host goes on from there"


def test_a_script_over_all_words(phone: Phone) -> None:
    code = phone.new_code()
    script(code, list(STATUS_WORDS), user_id=NEWCOMER, host="h")
    assert [phone.status(code) for _ in STATUS_WORDS] == list(STATUS_WORDS)


def test_a_script_of_other_words_is_refused(phone: Phone) -> None:
    with pytest.raises(BadScriptError, match="scanned"):
        script(phone.new_code(), ["scanned"])


def test_codes_by_name_or_the_newest(phone: Phone) -> None:
    with pytest.raises(UnknownCodeError):
        find_code(phone.bot.state, None)
    first, second = phone.new_code(), phone.new_code()
    assert first.code != second.code
    assert find_code(phone.bot.state, None) is second
    assert find_code(phone.bot.state, first.code) is first
    assert phone.status(Qr(code="f" * 32, created_at=0, local_tokens=[])) == "expired"


def test_bad_local_tokens_may_be_refused(phone: Phone) -> None:
    phone.bot.knob(bad_local_tokens="refuse")
    request = phone.bot.request("get_bot_qrcode", {"local_token_list": ["gone"]}, authorization=None)
    assert read(phone.bot.model.handle(request, START))["ret"] == -3
    phone.new_code(OWNER.token)


def test_older_clients_get_a_code_by_get(phone: Phone) -> None:
    answer = phone.bot.get("get_bot_qrcode", bot_type="3")
    assert read(answer)["qrcode"] in phone.bot.state.codes
    assert phone.bot.rules == []
