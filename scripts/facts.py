"""Moved to actors.facts, which the gateway needs too; kept until every import follows."""

from actors.facts import Blocking, Fact, fact_of, gate, lane_of

__all__ = ["Blocking", "Fact", "fact_of", "gate", "lane_of"]
