"""What ``KTable.suppress`` takes, as users name it; what it is is part of the plan."""

from penstock.plan.buffering import BufferConfig, EagerBufferConfig, StrictBufferConfig, Suppressed

__all__ = ["BufferConfig", "EagerBufferConfig", "StrictBufferConfig", "Suppressed"]
