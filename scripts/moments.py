"""Moved to actors.moments, which the gateway needs too; kept until every import follows."""

from actors.moments import *  # noqa: F403
