from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from events.bot import Policy
from scripts.configuration import config, values
from scripts.configuration import schema as config_schema
from scripts.configuration.example import EXAMPLE
from scripts.configuration.toml_text import toml
from scripts.exits import ConfigRefused, ExitCode

MAIN = '[accounts.main]\nchannel = "weixin"\n'


def load(tmp_path: Path, text: str) -> config.Config:
    path = tmp_path / "replyledger.toml"
    path.write_text(text, encoding="utf-8")
    return config.load(path)


def test_defaults_are_those_of_the_design(tmp_path: Path) -> None:
    found = load(tmp_path, MAIN)
    (account,) = found.accounts
    assert account.policy == Policy()
    assert (str(found.agents.listen), str(found.http.listen)) == ("127.0.0.1:8080", "127.0.0.1:8081")
    assert found.state_dir == tmp_path / "state"
    assert (found.locale, found.bodies_ms, found.clock) == ("zh-CN", 30 * 86_400_000, None)
    assert (account.address, account.access, account.exit_on_login_lost) == ("weixin:main", ("owner",), False)
    assert account.base_url == "https://ilinkai.weixin.qq.com"


def test_every_number_of_the_policy_can_be_configured(tmp_path: Path) -> None:
    other: dict[str, Any] = {
        "quota_replies": 9,
        "quota_window": "12h",
        "share_replies": 2,
        "share_window": "7d",
        "backlog_outputs": 5,
        "backlog_age": "90m",
        "answer_parts": 4,
        "part_bytes": 16_384,
        "mode": "observe",
        "client_timeout": "20s",
        "pace": "1500ms",
        "pace_burst": 1,
        "notice_after": "0s",
    }
    policy = load(tmp_path, MAIN + toml({"accounts": {"main": {"policy": other}}})).accounts[0].policy
    default = Policy()
    unchanged = {f for f in Policy.__struct_fields__ if getattr(policy, f) == getattr(default, f)}
    assert unchanged == {"resend_unknown", "push_origins"}  # the one has one value, the other is the account's key
    assert (policy.backlog_age_ms, policy.pace_ms, policy.share_window_ms) == (5_400_000, 1_500, 604_800_000)


def test_the_file_has_a_key_for_each_field_of_the_policy() -> None:
    keys = {f.removesuffix("_ms") for f in Policy.__struct_fields__} - {"push_origins"}
    assert set(config_schema.PolicyTable.__struct_fields__) == keys


def test_push_origins_reach_the_policy(tmp_path: Path) -> None:
    assert load(tmp_path, MAIN + 'push_origins = ["api"]').accounts[0].policy.push_origins == ("api",)


REFUSED = [
    ("acounts = 1", "acounts: unknown key 'acounts'; did you mean 'accounts'?"),
    (MAIN + "quota = 1", "accounts.main.quota: unknown key 'quota'"),
    (
        MAIN + "[accounts.main.policy]\nquota_replis = 3\nsharewindow = 1",
        "accounts.main.policy.sharewindow: unknown key 'sharewindow'; did you mean 'share_window'?",
    ),
    ("[http]\nlisten = 3\n" + MAIN, "http.listen: '3' is not HOST:PORT"),
    ("[http]\nlisten = '127.0.0.1'\n" + MAIN, "http.listen: '127.0.0.1' is not HOST:PORT"),
    (
        "[http]\nlisten = '0.0.0.0:80'\n" + MAIN,
        "http.listen: 0.0.0.0:80 can be reached from other machines, so http.token is",
    ),
    ("[http]\nlisten = '127.0.0.1:8080'\n" + MAIN, "http.listen: 127.0.0.1:8080 is taken by [agents]"),
    ("[http]\ntoken = 'hunter2'\n" + MAIN, "http.token: secrets are not written here"),
    ("[http]\ntoken = 'env:'\n" + MAIN, "http.token: after env: comes the name"),
    ("locale = 'xx'\n" + MAIN, "locale: Invalid enum value 'xx'; it is one of zh-CN, en"),
    ("", "accounts: there is no account"),
    ("accounts = 3", "accounts: "),
    ("[accounts]\nmain = 3", "accounts.main: Expected `object`"),
    ("[accounts.main]", "accounts.main: Object missing required field `channel`"),
    ("[accounts.main]\nchannel = 'weixn'", "accounts.main.channel: Invalid enum value 'weixn'; it is one of weixin"),
    ("[accounts.'Ma in']\nchannel = 'weixin'", "accounts.Ma in: a name has up to 40"),
    ("[accounts.'../x']\nchannel = 'weixin'", "accounts.../x: a name has up to 40"),
    ("[accounts.'a/b']\nchannel = 'weixin'", "accounts.a/b: a name has up to 40"),
    ("[accounts.'..']\nchannel = 'weixin'", "accounts...: a name has up to 40"),
    ("[accounts.'a\\u0000']\nchannel = 'weixin'".replace("'", '"', 2), ": a name has up to 40"),
    (MAIN + "base_url = 'https://h:99999'", "accounts.main.base_url: Port out of range"),
    (
        MAIN + "base_url = 'https://evil.example%2f.weixin.qq.com'",
        "accounts.main.base_url: the server's address must be",
    ),
    ("a = " + "9" * 5_000, "is not TOML: "),
    (MAIN + "base_url = 'http://ilinkai.weixin.qq.com'", "accounts.main.base_url: plain http would show"),
    (MAIN + "access = ['a b']", "accounts.main.access: the peer in"),
    (
        MAIN + "access = ['pairng']",
        "'pairng' is neither one of owner, pairing, all nor the id of a person on weixin; did you mean 'pairing'?",
    ),
    (MAIN + "access = ['Owner']", "did you mean 'owner'?"),
    (MAIN + "access = ['owner', 'ben@im.wecaht']", "accounts.main.access: 'ben@im.wecaht' is neither"),
    (MAIN + "access = ['@im.wechat']", "'@im.wechat' is neither"),
    (MAIN + "access = ['a1b2c3d4e5f6@im.bot']", "nor the id of a person on weixin"),
    (MAIN + "access = []", "accounts.main.access: Expected `array` of length >= 1"),
    (MAIN + "push_origins = ['inbound']", "accounts.main.push_origins[0]: Invalid enum value 'inbound'"),
    (
        MAIN + "[accounts.main.policy]\nquota_window = 24",
        "accounts.main.policy.quota_window: the duration 24 has no unit",
    ),
    (MAIN + "[accounts.main.policy]\nquota_window = '24'", "the duration '24' has no unit"),
    (MAIN + "[accounts.main.policy]\nquota_window = '1 day'", "has the unit 'day', which is not known"),
    (MAIN + "[accounts.main.policy]\nquota_window = '1.5h'", "is not a whole number"),
    (MAIN + "[accounts.main.policy]\nquota_window = 'soon'", "'soon' is not a duration"),
    (
        MAIN + "[accounts.main.policy]\nshare_window = '8d'",
        "accounts.main.policy.share_window: 8d is not between 1m and 7d",
    ),
    (
        MAIN + "[accounts.main.policy]\nshare_replies = 10",
        "accounts.main.policy.share_replies: 10 is not below quota_replies",
    ),
    (MAIN + "[accounts.main.policy]\npart_bytes = 63", "accounts.main.policy.part_bytes: Expected `int` >= 64"),
    (MAIN + "[accounts.main.policy]\npart_bytes = 16385", "accounts.main.policy.part_bytes: Expected `int` <= 16384"),
    (MAIN + "[accounts.main.policy]\nquota_replies = true", "accounts.main.policy.quota_replies: Expected `int`"),
    (MAIN + "[accounts.main.policy]\nclient_timeout = '0s'", "client_timeout: 0s is not between 1s and 5m"),
    (
        MAIN + "[accounts.main.policy]\nclient_timeout = '55s'\nquota_window = '1m'",
        "accounts.main.policy.client_timeout: 55s leaves nothing of quota_window = 1m",
    ),
    (MAIN + "[accounts.main.policy]\nresend_unknown = 'always'", "it is one of never"),
    ("[retention]\nbodies = '1h'\n" + MAIN, "retention.bodies: 1h is not between 24h and 3650d"),
    (
        "[retention]\nbodies = '2d'\n" + MAIN + "[accounts.main.policy]\nquota_window = '3d'",
        "retention.bodies: 2d is shorter than 3d, for which accounts.main may still need its texts",
    ),
    ("a = ", "is not TOML"),
    (MAIN + MAIN, "is not TOML"),  # an account's name twice
]


@pytest.mark.parametrize(("text", "says"), REFUSED)
def test_refused_with_the_key(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigRefused) as refusal:
        load(tmp_path, text)
    assert says in str(refusal.value)
    assert str(tmp_path / "replyledger.toml") in str(refusal.value)
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.code == ExitCode.CONFIG_REFUSED == 78


def test_all_faults_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigRefused) as refusal:
        load(tmp_path, "locale = 'xx'\n[accounts.a]\nchannel = 3\n[accounts.b]\n")
    assert len(str(refusal.value).splitlines()) == 3


LOOPBACK = '[accounts.main]\nchannel = "weixin"\nbase_url = "http://127.0.0.1:9000"\n'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("clock = 'http://127.0.0.1:9100'\n" + MAIN, "accounts.main.base_url"),
        ("clock = 'https://example.org'\n" + LOOPBACK, "clock"),
        ("clock = 'http://127.0.0.1:1'\n[http]\nlisten = '0.0.0.0:1'\ntoken = 'env:X'\n" + LOOPBACK, "http.listen"),
        ("clock = 'http://127.0.0.1:1'\n[agents]\nlisten = '0.0.0.0:1'\ntoken = 'env:X'\n" + LOOPBACK, "agents.listen"),
    ],
)
def test_a_simulated_clock_is_for_loopback_alone(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(ConfigRefused, match=f"{key}: a simulated `clock` is for loopback alone"):
        load(tmp_path, text)


def test_a_simulated_clock_on_loopback(tmp_path: Path) -> None:
    assert load(tmp_path, "clock = 'http://127.0.0.1:9100/'\n" + LOOPBACK).clock == "http://127.0.0.1:9100"


def test_secrets_are_read_when_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("A_TOKEN", raising=False)
    found = load(tmp_path, "[http]\ntoken = 'env:A_TOKEN'\n[agents]\ntoken = 'file:keys/agents'\n" + MAIN)
    with pytest.raises(ConfigRefused, match=r"http\.token: the environment variable A_TOKEN is not set"):
        found.token(found.http)
    with pytest.raises(ConfigRefused, match=r"agents\.token: the file .*keys/agents cannot be read"):
        found.token(found.agents)
    monkeypatch.setenv("A_TOKEN", "s3cret\n")
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "agents").write_text("other\n")
    http, agents = found.token(found.http), found.token(found.agents)
    assert http is not None
    assert agents is not None
    assert (http.reveal(), agents.reveal()) == ("s3cret", "other")
    assert "s3cret" not in f"{http} {http!r}"


@pytest.mark.parametrize(
    ("value", "says"), [(" ", "not set"), ("a b", "white space"), ("schlüssel", "no HTTP header carries")]
)
def test_unusable_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, says: str) -> None:
    monkeypatch.setenv("A_TOKEN", value)
    found = load(tmp_path, "[http]\ntoken = 'env:A_TOKEN'\n" + MAIN)
    with pytest.raises(ConfigRefused, match=says) as refusal:
        found.token(found.http)
    assert value.strip() == "" or value not in str(refusal.value)


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigRefused, match="cannot be read: No such file"):
        config.load(tmp_path / "none.toml")
    (tmp_path / "b.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(ConfigRefused, match="is not UTF-8 at byte 5"):
        config.load(tmp_path / "b.toml")
    (tmp_path / "c.toml").write_bytes(b"\xef\xbb\xbf" + MAIN.encode())
    assert config.load(tmp_path / "c.toml").accounts


def test_the_places_are_tried_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    with pytest.raises(ConfigRefused, match="config example"):
        config.find()
    user = tmp_path / "xdg" / "replyledger" / "replyledger.toml"
    user.parent.mkdir(parents=True)
    user.write_text(MAIN)
    assert config.find() == user
    Path("replyledger.toml").write_text(MAIN)
    assert config.find() == Path("replyledger.toml")
    assert config.find(Path("x")) == Path("x")


def test_accounts_are_found_by_name_and_address(tmp_path: Path) -> None:
    found = load(tmp_path, MAIN)
    assert found.account("main") is found.account("weixin:main")
    with pytest.raises(ConfigRefused, match="there is no account 'x'; known: main"):
        found.account("x")


def test_the_example_is_complete_and_says_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, EXAMPLE).file == load(tmp_path, MAIN).file
    uncommented = EXAMPLE.replace("# token", "token").replace("# clock", "clock")
    raw = tomllib.loads(uncommented)
    for table, kind in (
        (raw, config_schema.File),
        (raw["agents"], config_schema.AgentsTable),
        (raw["http"], config_schema.ListenerTable),
        (raw["logging"], config_schema.LoggingTable),
        (raw["retention"], config_schema.RetentionTable),
        (raw["accounts"]["main"], config_schema.AccountTable),
        (raw["accounts"]["main"]["policy"], config_schema.PolicyTable),
    ):
        assert set(table) == set(kind.__struct_fields__)


def test_what_show_prints_is_the_same_configuration(tmp_path: Path) -> None:
    first = load(tmp_path, "[http]\ntoken='env:X'\n" + MAIN + 'access = ["owner", "o9c\\u00e9-1@im.wechat"]')
    again = load(tmp_path, toml(msgspec.to_builtins(first.file, enc_hook=values.encode)))
    assert again.file == first.file


def test_the_schema_knows_every_key_and_default() -> None:
    schema = config_schema.json_schema()
    policy = schema["$defs"]["PolicyTable"]["properties"]
    assert policy["quota_window"] == {
        "type": "string",
        "pattern": r"^([0-9]{1,12})(ms|s|m|h|d)$",
        "description": "a duration, such as 24h",
        "default": "24h",
    }
    assert policy["part_bytes"]["maximum"] == 16_384
    assert all("default" in p for p in policy.values())
    assert schema["$defs"]["File"]["additionalProperties"] is False


def test_words_and_ids_of_people_are_access(tmp_path: Path) -> None:
    found = load(tmp_path, MAIN + 'access = ["owner", "pairing", "all", "o9cq80AbC@im.wechat"]')
    assert found.accounts[0].access == ("owner", "pairing", "all", "o9cq80AbC@im.wechat")
