"""What every test shares: how hypothesis behaves on a busy machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("steady")
