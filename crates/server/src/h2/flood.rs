//! How much work without progress a peer may cause (RFC 9113 10.5).
//!
//! Frames that change nothing are counted, and streams that are reset: by the peer, even after a complete response, or by this side because
//! the peer violated the protocol. A connection that exceeds a limit within an interval is ended. Progress is a request that gets its response, and content.

use crate::limits::Limits;

/// Both are counted for so long.
const INTERVAL_MS: u64 = 10_000;

/// What a connection did in the current interval.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Flood {
    since_ms: u64,
    idle_frames: u64,
    requests: u64,
    resets: u64,
}

impl Flood {
    fn at(&mut self, now_ms: u64) -> &mut Flood {
        if now_ms.saturating_sub(self.since_ms) >= INTERVAL_MS {
            *self = Flood {
                since_ms: now_ms,
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
