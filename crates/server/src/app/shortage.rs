//! Reports of requests, responses and messages that there was no memory for.

use std::fmt;

/// Minimum time between two reports.
const PAUSE_MS: u64 = 5000;

/// What there was no memory for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lacking {
    /// A request or its response: it got 503, or its response was truncated.
    Request,
    /// A message of a WebSocket: sending it raised an error, or the WebSocket was closed.
    Message,
}

/// Requests or messages since the last report that there was no memory for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shortage {
    of: Lacking,
    count: u64,
    /// Bytes that the last of them needed.
    bytes: u64,
}

impl fmt::Display for Shortage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { of, count, bytes } = self;
        let (what, plural) = match of {
            Lacking::Request => (
                "a connection, a request or its response, which was closed, got 503 or was truncated",
                "requests",
            ),
            Lacking::Message => (
                "a WebSocket message, which was not received, sent or published; allow the process more, or lower \
                websocket_message_bytes_max or connections_max",
                "messages",
            ),
        };
        write!(out, "no memory for {bytes} bytes of {what}")?;
        match count {
            1 => Ok(()),
            _ => write!(out, " ({count} {plural} since the last report)"),
        }
    }
}

/// Counts shortages, and decides when to report them: the first at once, later ones together some seconds after it.
#[derive(Default)]
pub(crate) struct Shortages {
    requests: Option<Shortage>,
    messages: Option<Shortage>,
    reported_ms: Option<u64>,
}

impl Shortages {
    pub(crate) fn add(&mut self, of: Lacking, bytes: usize) {
        let since = match of {
            Lacking::Request => &mut self.requests,
            Lacking::Message => &mut self.messages,
        };
        let before = since.map_or(0, |since| since.count);
        *since = Some(Shortage {
            of,
            count: before + 1,
            bytes: bytes as u64,
        });
    }

    /// How long the next wait may last until a report is due.
    #[inline]
    pub(crate) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        self.requests.or(self.messages)?;
        let passed_ms = self.reported_ms.map(|at_ms| now_ms.saturating_sub(at_ms));
        Some(passed_ms.map_or(0, |passed_ms| PAUSE_MS.saturating_sub(passed_ms)))
    }

    /// Takes what is to be reported now.
    pub(crate) fn take(&mut self, now_ms: u64) -> impl Iterator<Item = Shortage> + use<> {
        self.reported_ms = Some(now_ms);
        let taken = [self.requests.take(), self.messages.take()];
        taken.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(shortages: impl Iterator<Item = Shortage>) -> String {
        let lines: Vec<String> = shortages.map(|shortage| shortage.to_string()).collect();
        lines.join("\n")
    }

    #[test]
    fn the_first_is_reported_at_once_and_others_together() {
        let mut shortages = Shortages::default();
        assert_eq!(shortages.wait_ms(1000), None);
        shortages.add(Lacking::Request, 7);
        assert_eq!(shortages.wait_ms(1000), Some(0));
        let line = "no memory for 7 bytes of a connection, a request or its response, which was closed, got 503 or was truncated";
        assert_eq!(text(shortages.take(1000)), line);
        shortages.add(Lacking::Request, 8);
        shortages.add(Lacking::Request, 9);
        assert_eq!(shortages.wait_ms(1000 + PAUSE_MS - 1), Some(1));
        assert_eq!(shortages.wait_ms(1000 + PAUSE_MS), Some(0));
        assert_eq!(
            text(shortages.take(1000 + PAUSE_MS)),
            line.replace('7', "9") + " (2 requests since the last report)"
        );
    }

    #[test]
    fn messages_have_a_line_of_their_own() {
        let mut shortages = Shortages::default();
        shortages.add(Lacking::Message, 5);
        shortages.add(Lacking::Request, 6);
        shortages.add(Lacking::Message, 7);
        let lines = text(shortages.take(1000));
        let (first, second) = lines.split_once('\n').unwrap();
        assert!(first.starts_with("no memory for 6 bytes of a connection, "));
        assert_eq!(
            second,
            "no memory for 7 bytes of a WebSocket message, which was not received, sent or published; allow the process \
            more, or lower websocket_message_bytes_max or connections_max (2 messages since the last report)"
        );
        assert_eq!(shortages.wait_ms(1001), None);
    }
}
