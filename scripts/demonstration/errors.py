"""Errors of the demo.

Failed (scripts.exits)
└── DemoFailed
    └── Disagreement
"""

from __future__ import annotations

from scripts.exits import Failed


class DemoFailed(Failed):
    """The day did not go as it must."""


class Disagreement(DemoFailed):
    """The phone and the ledger disagree."""
