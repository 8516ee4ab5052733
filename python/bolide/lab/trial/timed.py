"""What an application that is timed inside its server (`bench/timed.py`) has counted."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, fields

ASK = "/application-time"
WAIT_S = 5.0


class NoTimeError(Exception):
    """The application does not report its time, or not that of all requests."""


@dataclass(frozen=True)
class Counted:
    """Requests, and processor time in nanoseconds."""

    requests: float
    application_ns: float
    """In the application, with a reading of the clock in each span."""
    spans: float
    reading_ns: float
    """What a reading of the clock takes; one more for each span is outside of it."""
    device_ns: float
    """What else the measuring takes outside of the spans, for each request."""

    def since(self, earlier: Counted) -> Counted:
        """Return what has been counted since then."""
        return Counted(
            self.requests - earlier.requests,
            self.application_ns - earlier.application_ns,
            self.spans - earlier.spans,
            self.reading_ns,
            self.device_ns,
        )

    def shares(self, cpu_s: float, responses: int) -> tuple[float, float]:
        """Return the microseconds of application and server per request, of the server's `cpu_s`.

        Raises:
            NoTimeError: the application has counted fewer requests than got a response.
        """
        if self.requests < max(1, responses):
            raise NoTimeError(
                f"{responses:,} responses, but the application counts {self.requests:,.0f}"
            )
        readings_ns = self.spans * self.reading_ns
        inside_ns = (self.application_ns - readings_ns) / self.requests
        outside_ns = (cpu_s * 1e9 - self.application_ns - readings_ns) / self.requests
        return round(inside_ns / 1e3, 3), round((outside_ns - self.device_ns) / 1e3, 3)


def ask(address: tuple[str, int]) -> Counted:
    """Ask the application what it has counted since its start.

    Raises:
        NoTimeError: it does not say.
    """
    connection = http.client.HTTPConnection(*address, timeout=WAIT_S)
    try:
        connection.request("GET", ASK, headers={"Connection": "close"})
        found = json.load(connection.getresponse())
        return Counted(**{each.name: float(found[each.name]) for each in fields(Counted)})
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
        raise NoTimeError(f"the application reports no time: {error}") from None
    finally:
        connection.close()
