//! How much work without progress a peer may cause (RFC 9113 10.5).
//!
//! Frames that change nothing are counted, and streams that are reset: by the peer, even after a complete response, or by this side because
//! the peer violated the protocol. A connection that exceeds a limit within an interval is ended. Progress is a request that gets its response, and content.
//! Content that is sent also pays for the WINDOW_UPDATE frames that follow it, which may be many: a client may return credit for each read.

use crate::limits::Limits;

/// Both are counted for so long.
const INTERVAL_MS: u64 = 10_000;
/// Sent content that pays for one WINDOW_UPDATE. A client that returns 256 octets at a time has two for them: the stream's and the connection's.
const UPDATE_BYTES: u64 = 128;
/// Sent content that pays for updates still to arrive. As much as large windows allow to be under way; they pay for 131,072 updates.
const UNRETURNED_BYTES_MAX: u64 = 1 << 24;

/// What a connection did in the current interval.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Flood {
    since_ms: u64,
    idle_frames: u64,
    requests: u64,
    resets: u64,
    /// Sent content that has not paid for an update. Its updates may arrive in a later interval.
    unreturned_bytes: u64,
}

impl Flood {
    fn at(&mut self, now_ms: u64) -> &mut Flood {
        if now_ms.saturating_sub(self.since_ms) >= INTERVAL_MS {
            *self = Flood {
                since_ms: now_ms,
                unreturned_bytes: self.unreturned_bytes,
                ..Flood::default()
            };
        }
        self
    }

    /// A frame that is not progress. Returns false if it is one too many.
    #[must_use]
    pub(super) fn idle_frame(&mut self, limits: &Limits, now_ms: u64) -> bool {
        let flood = self.at(now_ms);
        flood.idle_frames += 1;
        flood.idle_frames <= limits.h2_idle_frames_max
    }

    /// Progress pays for the frames that accompany it.
    #[inline]
    pub(super) fn progress(&mut self) {
        self.idle_frames = self.idle_frames.saturating_sub(4);
    }

    /// Content was sent.
    #[inline]
    pub(super) fn sent(&mut self, bytes: usize) {
        let unreturned_bytes = self.unreturned_bytes.saturating_add(bytes as u64);
        self.unreturned_bytes = unreturned_bytes.min(UNRETURNED_BYTES_MAX);
    }

    /// Content was sent in a DATA frame, all that there was or as much as a window allowed. A window that allows less than pays for an update
    /// is not progress.
    #[inline]
    pub(super) fn data_sent(&mut self, bytes: usize, is_all: bool) {
        self.sent(bytes);
        if is_all || bytes as u64 >= UPDATE_BYTES {
            self.progress();
        }
    }

    /// A WINDOW_UPDATE: paid for by sent content, or a frame that is not progress. Returns false if it is one too many.
    #[must_use]
    pub(super) fn window_update(&mut self, limits: &Limits, now_ms: u64) -> bool {
        match self.unreturned_bytes.checked_sub(UPDATE_BYTES) {
            Some(unreturned_bytes) => {
                self.unreturned_bytes = unreturned_bytes;
                true
            }
            None => self.idle_frame(limits, now_ms),
        }
    }

    /// A request was started.
    #[inline]
    pub(super) fn request(&mut self) {
        self.requests += 1;
        self.progress();
    }

    /// A stream was reset. Returns false if it is one too many: more than the limit, and more than half of the
    /// requests.
    #[must_use]
    pub(super) fn reset(&mut self, limits: &Limits, now_ms: u64) -> bool {
        let flood = self.at(now_ms);
        flood.resets += 1;
        flood.resets <= limits.h2_resets_max || flood.resets * 2 <= flood.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_without_progress_are_limited_per_interval() {
        let limits = Limits {
            h2_idle_frames_max: 10,
            ..Limits::default()
        };
        let mut flood = Flood::default();
        assert!((0..10).all(|_| flood.idle_frame(&limits, 5)));
        assert!(!flood.idle_frame(&limits, INTERVAL_MS - 1));
        assert!(flood.idle_frame(&limits, INTERVAL_MS));
        for _ in 0..1000 {
            assert!(flood.idle_frame(&limits, INTERVAL_MS));
            flood.progress();
        }
    }

    #[test]
    fn sent_content_pays_for_window_updates_once() {
        let limits = Limits {
            h2_idle_frames_max: 10,
            ..Limits::default()
        };
        let mut flood = Flood::default();
        flood.sent(100 * UPDATE_BYTES as usize);
        // Those of the last interval are paid for too.
        assert!((0..50).all(|_| flood.window_update(&limits, 0)));
        assert!((0..50).all(|_| flood.window_update(&limits, INTERVAL_MS)));
        assert!((0..10).all(|_| flood.window_update(&limits, INTERVAL_MS)));
        assert!(!flood.window_update(&limits, INTERVAL_MS));
        let mut flood = Flood::default();
        (0..100).for_each(|_| flood.sent(UNRETURNED_BYTES_MAX as usize));
        let paid = (0..).take_while(|_| flood.window_update(&limits, 0));
        let all = UNRETURNED_BYTES_MAX / UPDATE_BYTES + limits.h2_idle_frames_max;
        assert_eq!(paid.count() as u64, all);
    }

    #[test]
    fn content_that_trickles_through_a_window_is_no_progress() {
        let limits = Limits {
            h2_idle_frames_max: 10,
            ..Limits::default()
        };
        let frames = |bytes, is_all| {
            let mut flood = Flood::default();
            let round = |_: &u32| {
                let is_allowed = flood.window_update(&limits, 0) && flood.idle_frame(&limits, 0);
                flood.data_sent(bytes, is_all);
                is_allowed
            };
            (0..1000).take_while(round).count()
        };
        assert!(frames(1, false) < 10);
        assert!(frames(UPDATE_BYTES as usize - 1, false) < 20);
        // One event at a time, each of which is returned.
        assert_eq!(frames(1, true), 1000);
        assert_eq!(frames(UPDATE_BYTES as usize, false), 1000);
    }

    #[test]
    fn resets_are_limited_unless_most_requests_complete() {
        let limits = Limits {
            h2_resets_max: 10,
            ..Limits::default()
        };
        let mut flood = Flood::default();
        assert!((0..10).all(|_| flood.reset(&limits, 0)));
        assert!(!flood.reset(&limits, 0));
        let mut flood = Flood::default();
        for _ in 0..1000 {
            flood.request();
            flood.request();
            assert!(flood.reset(&limits, 0));
        }
    }
}
