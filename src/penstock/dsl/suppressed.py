"""The options of ``KTable.suppress``, by their public names; they are defined in the plan."""

from penstock.plan.buffering import BufferConfig, EagerBufferConfig, StrictBufferConfig, Suppressed

__all__ = ["BufferConfig", "EagerBufferConfig", "StrictBufferConfig", "Suppressed"]
