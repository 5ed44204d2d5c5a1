"""The outcomes of a delivery to a target."""

from __future__ import annotations


class DeliveryRefusedError(Exception):
    """A delivery failed, and would fail again; the message has no secret in it."""


class UnreachableError(Exception):
    """A delivery failed for a reason that may pass; the message has no secret in it."""


class DeliveryStoppedError(Exception):
    """The service stops in the pause between two tries: the delivery stays pending."""
