"""Deliveries: tries, pauses and outcomes. One failed target neither stops nor repeats the others."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.config import deliver as config
from app.errors import UsageError
from app.faults import FAULTS, reason_of
from app.json_text import as_json
from app.output_file import write_file
from app.reports.delivery import chat, folder, s3, smtp, webhook
from app.reports.delivery.addressed import addressed
from app.reports.delivery.outcomes import DeliveryRefusedError, DeliveryStoppedError, UnreachableError
from app.reports.delivery.parcel import read_parcel
from ingest.retry import RetryableError, RetryPolicy, retry

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from app.config.deliver import Deliver, Target
    from app.reports.delivery.outbox import Delivery, MadeReport, Outbox
    from app.reports.delivery.parcel import Parcel

JITTER: Final = 0.2
"""Share by which pauses differ by chance."""


@dataclass(frozen=True)
class Sender:
    """What sends reports.

    Attributes:
        outbox: where outcomes are recorded.
        settings: targets and retries.
        now: reads the clock.
        sleep: waits so many seconds; it may raise to stop.
    """

    outbox: Outbox
    settings: Deliver
    now: Callable[[], datetime]
    sleep: Callable[[float], None]

    def send_pending(self, made: MadeReport) -> list[Delivery]:
        """Send a report to every target that it has not been sent to yet; the outcome of each of these."""
        pending = [each for each in self.outbox.deliveries(made.key) if each.outcome == "pending"]
        return [self.send(made, each.target) for each in pending]

    def send(self, made: MadeReport, target: str) -> Delivery:
        """Send a report to a target, again after pauses where that may help, and record the outcome.

        What fails for good, or too often, becomes a dead letter.
        """
        tries = 0

        def request() -> str | None:
            nonlocal tries
            tries += 1
            try:
                return self._once(made, target)
            except UnreachableError as error:
                raise RetryableError(error) from None

        policy = RetryPolicy(self.settings.retries, self.settings.pause_s, self.settings.longest_pause_s, jitter=JITTER)
        try:
            note = retry(request, policy, sleep=self.sleep)
        except (DeliveryRefusedError, UnreachableError) as error:
            return self._dead(made, target, tries, str(error))
        except DeliveryStoppedError:
            raise
        except FAULTS as error:
            return self._dead(made, target, tries, f"a fault of Trackside: {type(error).__name__}")
        self.outbox.note(made.key, target, "delivered", tries=tries, now=self.now(), reason=note)
        self._letter(made.key, target).unlink(missing_ok=True)
        return self._outcome(made.key, target)

    def _once(self, made: MadeReport, name: str) -> str | None:
        target = self.settings.targets.get(name)
        if target is None:
            raise DeliveryRefusedError(f"the configuration has no target {name!r}")
        try:
            parcel = read_parcel(made, self.outbox.folder_of(made.key))
        except UsageError as error:
            raise DeliveryRefusedError(str(error)) from None
        except OSError as error:
            raise DeliveryRefusedError(f"the kept report cannot be read: {reason_of(error)}") from None
        return _send(addressed(target, parcel), parcel, self.settings)

    def _dead(self, made: MadeReport, target: str, tries: int, reason: str) -> Delivery:
        """Record a dead letter: in the outbox, and as a file with the reason."""
        self.outbox.note(made.key, target, "dead", tries=tries, now=self.now(), reason=reason)
        outcome = self._outcome(made.key, target)
        letter = self._letter(made.key, target)
        letter.parent.mkdir(parents=True, exist_ok=True)
        where = {"files": [str(self.outbox.folder_of(made.key) / name) for name in made.files]}
        again = {"send_again": f"trackside reports resend {made.key} --target {target}"}
        write_file(letter, (as_json(dataclasses.asdict(outcome) | where | again, indent=2) + "\n").encode())
        return outcome

    def _letter(self, key: str, target: str) -> Path:
        return self.outbox.folder / "dead" / f"{key}.{target}.json"

    def _outcome(self, key: str, target: str) -> Delivery:
        return next(each for each in self.outbox.deliveries(key) if each.target == target)


def _send(target: Target, parcel: Parcel, settings: Deliver) -> str | None:
    """Send a parcel once, by the module of the target's kind."""
    match target:
        case config.FolderTarget():
            return folder.send(target, parcel, settings)
        case config.S3():
            return s3.send(target, parcel, settings)
        case config.Smtp():
            return smtp.send(target, parcel, settings)
        case config.Webhook():
            return webhook.send(target, parcel, settings)
        case config.Hook():
            return chat.send(target, parcel, settings)
    raise DeliveryRefusedError(f"no way to deliver to a target of the kind {type(target).__name__}")
