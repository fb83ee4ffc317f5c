"""The lamp adapter with rules switched off: what the conformance kit has to find.

    python3 test/broken_lamp_adapters.py FAULT[,FAULT...] --ros-args ...
"""

import pathlib
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / 'contract'))
import python_adapter  # noqa: E402, I202
from python_adapter import LampAdapter, RunEvent, S  # noqa: E402


class StartsAgain(LampAdapter):
    """Takes a command that it knows for a new one."""

    def known(self, record, goal):
        record = super().known(record, goal)
        self.start(record)
        return record


class ComparesNoDigest(LampAdapter):
    """Believes the digest."""

    def check_digest(self, command):
        pass


class MixesUpIds(LampAdapter):
    """Takes another command under the same id for the one that it knows."""

    def known(self, record, goal):
        goal.command.digest = record.digest
        return super().known(record, goal)


class Forgets(LampAdapter):
    """Has a new journal in each life."""

    def open_journal(self, path):
        return super().open_journal(path.with_name(str(uuid.uuid4())))


class ForgetsRefusals(LampAdapter):
    """Thinks again about what it has refused."""

    kept = set()


class IsCanceledAtOnce(LampAdapter):
    """Calls a stop done when it begins."""

    def stop(self, record, control_end, code, message):
        super().stop(record, control_end, code, message)
        self.end(record, control_end)


class EndsTwice(LampAdapter):
    """Tells the end twice."""

    def tell_run(self, record, event, when):
        for _ in range(2 if event == RunEvent.EVENT_END else 1):
            super().tell_run(record, event, when)


class TakesOldTokens(LampAdapter):
    """Obeys whoever had the lease before."""

    def is_old(self, token):
        return False


class IgnoresAge(LampAdapter):
    """Starts what is late."""

    def check_age(self, command, envelope):
        pass


class IgnoresTheLease(LampAdapter):
    """Goes on without a controller."""

    def heard_lease(self, lease):
        lease.remaining.sec = 3600
        super().heard_lease(lease)


class IgnoresStops(LampAdapter):
    """Hears no stop."""

    def heard_protection(self, state):
        pass


class ReleasesAtTheEnd(LampAdapter):
    """Thinks that what has ended needs its resources no longer."""

    def holder(self):
        return next((r for r in self.journal.live() if r.state < S.STATE_ENDED), None)


class CountsBackwards(LampAdapter):
    """Counts its events down."""

    def next_sequence(self, record):
        return record.sequence - 1 if record.sequence else 1000


class TellsNoLateJoiner(LampAdapter):
    """Publishes its statuses for those who are there."""

    def status_qos(self):
        return 1


if __name__ == '__main__':
    faults = [globals()[name] for name in sys.argv.pop(1).split(',')]
    python_adapter.main(type('Broken', (*faults, LampAdapter), {}))
