"""How many disturbed trials of a race are repeated."""

from __future__ import annotations

import math


class Repeats:
    """A share of all trials, of which the rounds so far have the part that is theirs, rounded up.

    So an early disturbance does not use up what later rounds need: all of them count equally.
    """

    def __init__(self, share: float, trials: int) -> None:
        self._most = math.floor(share * trials)
        self._trials = trials
        self._begun = self._taken = 0

    def grant(self, trials: int) -> None:
        """Allow the repeats of a round that begins, with this number of trials."""
        self._begun += trials

    def take(self) -> bool:
        """Return whether one more is allowed."""
        if self._taken >= math.ceil(self._most * self._begun / max(1, self._trials)):
            return False
        self._taken += 1
        return True
