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
            "no memory for {bytes} bytes of a request or its response, which got 503 or was truncated"
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

    /// Takes what is due to be reported.
    #[inline]
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Option<Shortage> {
        self.since?;
        let is_due = |reported_ms: u64| now_ms.saturating_sub(reported_ms) >= PAUSE_MS;
        if !self.reported_ms.is_none_or(is_due) {
            return None;
        }
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
        assert_eq!(shortages.take_due(1000), None);
        shortages.add(7);
        let line =
            "no memory for 7 bytes of a request or its response, which got 503 or was truncated";
        assert_eq!(text(shortages.take_due(1000)), line);
        shortages.add(8);
        shortages.add(9);
        assert_eq!(shortages.take_due(1000 + PAUSE_MS - 1), None);
        assert_eq!(
            text(shortages.take_due(1000 + PAUSE_MS)),
            line.replace('7', "9") + " (2 requests since the last report)"
        );
    }
}
