"""Settings of all tests. ``pytest --hypothesis-profile=deep`` looks longer for counterexamples."""

from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("quick", max_examples=40, **_COMMON)
settings.register_profile("deep", max_examples=600, stateful_step_count=60, **_COMMON)
settings.load_profile("quick")
