from __future__ import annotations

import pytest

from scripts.simulators.errors import LedgerFullError
from scripts.simulators.weixin import ledgers
from scripts.simulators.weixin.ledgers import Ledger, fingerprint


def test_a_ledger_refuses_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "ROWS_MAX", 2)
    ledger: Ledger[int] = Ledger()
    ledger.add(1)
    ledger.add(2)
    with pytest.raises(LedgerFullError):
        ledger.add(3)
    assert (list(ledger), len(ledger)) == ([1, 2], 2)


def test_fingerprints_tell_secrets_apart_without_telling_them() -> None:
    assert fingerprint("") == ""
    assert fingerprint("a") != fingerprint("b")
    assert len(fingerprint("AARz")) == 12
