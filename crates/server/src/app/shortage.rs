//! Reports of requests and responses that there was no memory for.

use std::fmt;

/// Minimum time between two reports.
const PAUSE_MS: u64 = 5000;

/// Requests since the last report for which, or for whose responses, there was no memory. They got 503, or their responses were truncated.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Shortage {
    count: u64,
    /// Bytes that the last of them needed.
    bytes: u64,
}

impl fmt::Display for Shortage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortage { count, bytes } = self;
        write!(
            out,
            "no memory for {bytes} bytes of a connection, a request or its response, which was closed, got 503 or was truncated"
        )?;
        match count {
            1 => Ok(()),
            _ => write!(out, " ({count} requests since the last report)"),
        }
    }
}

/// Counts shortages, and decides when to report them: the first at once, later ones together some seconds after it.
#[derive(Default)]
pub(crate) struct Shortages {
    since: Option<Shortage>,
    reported_ms: Option<u64>,
}

impl Shortages {
    pub(crate) fn add(&mut self, bytes: usize) {
        let since = self.since.get_or_insert_default();
        since.count += 1;
        since.bytes = bytes as u64;
    }

    /// How long the next wait may last until a report is due.
    #[inline]
    pub(crate) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        self.since?;
        let passed_ms = self.reported_ms.map(|at_ms| now_ms.saturating_sub(at_ms));
        Some(passed_ms.map_or(0, |passed_ms| PAUSE_MS.saturating_sub(passed_ms)))
    }

    /// Takes what is to be reported now.
    pub(crate) fn take(&mut self, now_ms: u64) -> Option<Shortage> {
        self.reported_ms = Some(now_ms);
        self.since.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(shortage: Option<Shortage>) -> String {
        shortage.map_or_else(String::new, |shortage| shortage.to_string())
    }

    #[test]
    fn the_first_is_reported_at_once_and_others_together() {
        let mut shortages = Shortages::default();
        assert_eq!(shortages.wait_ms(1000), None);
        shortages.add(7);
        assert_eq!(shortages.wait_ms(1000), Some(0));
        let line = "no memory for 7 bytes of a connection, a request or its response, which was closed, got 503 or was truncated";
        assert_eq!(text(shortages.take(1000)), line);
        shortages.add(8);
        shortages.add(9);
        assert_eq!(shortages.wait_ms(1000 + PAUSE_MS - 1), Some(1));
        assert_eq!(shortages.wait_ms(1000 + PAUSE_MS), Some(0));
        assert_eq!(
            text(shortages.take(1000 + PAUSE_MS)),
            line.replace('7', "9") + " (2 requests since the last report)"
        );
    }
}
