//! How long the records of a connection are.
//!
//! A peer can use a record only when all of it has arrived. When a long content starts, the network accepts some packets and then waits for
//! acknowledgements, so the first records fit in one packet each. Later ones are as long as possible, which costs less.

use std::time::{Duration, Instant};

use super::session::FRAGMENT_BYTES;

/// Fits in a packet of 1,460 bytes, with the record's header and tag and the options of TCP.
const SHORT_BYTES: usize = 1400;
/// Bytes of content that are sent in short records: after that, and the acknowledgements, long ones arrive quickly.
const SHORT_UNTIL: usize = 65_536;
/// After such a pause the network starts slowly again (RFC 9293 section 3.8.1: the minimum of the retransmission timeout).
const PAUSE: Duration = Duration::from_secs(1);

/// What was sent of long content since the last pause.
#[derive(Default)]
pub(super) struct Pacing {
    sent_bytes: usize,
    sent: Option<Instant>,
}

impl Pacing {
    /// The length of the records for the next `part_bytes` of a content of `content_bytes`. What fits in one record is sent in one.
    pub(super) fn record_bytes(&mut self, content_bytes: usize, part_bytes: usize) -> usize {
        if content_bytes <= FRAGMENT_BYTES {
            return FRAGMENT_BYTES;
        }
        self.long_record_bytes(part_bytes, Instant::now())
    }

    fn long_record_bytes(&mut self, part_bytes: usize, now: Instant) -> usize {
        if self
            .sent
            .is_none_or(|sent| now.duration_since(sent) >= PAUSE)
        {
            self.sent_bytes = 0;
        }
        self.sent = Some(now);
        let is_short = self.sent_bytes < SHORT_UNTIL;
        self.sent_bytes = self.sent_bytes.saturating_add(part_bytes);
        match is_short {
            true => SHORT_BYTES,
            false => FRAGMENT_BYTES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_content_starts_with_short_records_after_each_pause() {
        let mut pacing = Pacing::default();
        let now = Instant::now();
        assert_eq!(
            pacing.record_bytes(FRAGMENT_BYTES, FRAGMENT_BYTES),
            FRAGMENT_BYTES
        );
        assert_eq!(pacing.long_record_bytes(40_000, now), SHORT_BYTES);
        assert_eq!(pacing.long_record_bytes(40_000, now), SHORT_BYTES);
        assert_eq!(pacing.long_record_bytes(40_000, now), FRAGMENT_BYTES);
        let later = now + PAUSE;
        assert_eq!(pacing.long_record_bytes(40_000, later), SHORT_BYTES);
    }
}
