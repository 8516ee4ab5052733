"""Fields of which a server may remember some from one client to another, and the others not."""

from __future__ import annotations

FIELDS = {
    "User-Agent": "a browser",
    "Accept": "text/html",
    "X-Forwarded-Proto": "https",
    "Sec-Fetch-Mode": "navigate",
    "Referer": "http://a/?token=secret",
    "X-Forwarded-For": "127.0.0.2",
    "X-Api-Key": "secret",
    "Cookie": "a=secret",
    "Authorization": "Basic secret",
    "Proxy-Authorization": "Basic secret",
}
"""What is sent, as it may be from behind a proxy."""

FIELD_LINES = [f"{name}: {value}" for name, value in FIELDS.items()]
REMEMBERED = ["Accept", "Host", "Sec-Fetch-Mode", "User-Agent", "X-Forwarded-Proto"]
"""The fields that are known to hold nothing secret, Host among them, in order."""
