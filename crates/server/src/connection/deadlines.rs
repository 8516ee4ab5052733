//! What must have happened by when, and what happens when it has not.

use super::answers::error_response;
use super::content::Taker;
use super::{Connection, Fate, Reading};
use crate::app::{Abort, App};
use crate::exchange::{Exchange, Progress};
use crate::timeouts::Timeouts;
use crate::worker::Core;

/// How long a draining server waits for a request on an idle connection: its client does not know, and may be sending one. Longer
/// than the pause between the requests of a busy client, shorter than anyone minds.
const DRAINING_IDLE_MS: u64 = 500;

impl Connection {
    /// When something must have happened; `u64::MAX` for never.
    #[inline]
    pub(crate) fn deadline_ms(&self, core: &Core) -> u64 {
        let is_idle = self.pending.is_empty() && !self.is_full && !self.has_partial;
        match &self.reading {
            // What nearly every event leaves behind.
            Reading::Head if is_idle => self.idle_deadline_ms(core),
            _ => self.busy_deadline_ms(core),
        }
    }

    fn busy_deadline_ms(&self, core: &Core) -> u64 {
        let timeouts = &core.timeouts;
        let mut deadline = u64::MAX;
        if self.is_full {
            deadline = Timeouts::end_ms(self.sent_ms, timeouts.write_timeout_ms);
        }
        if self.is_streamed_to_half_closed() {
            deadline = Timeouts::end_ms(self.sent_ms, timeouts.write_timeout_ms);
        }
        let is_waiting = |exchange: &&Exchange| exchange.progress == Progress::Waiting;
        if let Some(first) = self.pending.iter().find(is_waiting)
            && !self.reader_waits()
        {
            let end_ms = Timeouts::end_ms(first.started_ms, timeouts.handler_timeout_ms);
            deadline = deadline.min(end_ms);
        }
        let reading = match &self.reading {
            Reading::Head if self.has_partial => {
                Timeouts::end_ms(self.since_ms, timeouts.header_timeout_ms)
            }
            Reading::Head => u64::MAX,
            Reading::Content(incoming) => incoming.deadline_ms(timeouts),
            Reading::Closing => u64::MAX,
            Reading::Lingering { .. } => {
                Timeouts::end_ms(self.since_ms, timeouts.linger_timeout_ms.max(1))
            }
        };
        deadline.min(reading)
    }

    #[inline]
    fn idle_deadline_ms(&self, core: &Core) -> u64 {
        let timeout_ms = match self.served_any {
            true => core.timeouts.keep_alive_timeout_ms,
            false => core.timeouts.header_timeout_ms,
        };
        let deadline = Timeouts::end_ms(self.since_ms, timeout_ms);
        match core.draining_since_ms {
            Some(since) => deadline.min(since.max(self.since_ms) + DRAINING_IDLE_MS),
            None => deadline,
        }
    }

    /// Acts on a deadline that has passed.
    #[cold]
    pub(crate) fn expire<A: App>(&mut self, core: &mut Core, app: &mut A) -> Fate {
        let now_ms = core.clock.now_ms();
        let is_stuck = (self.is_full || self.is_streamed_to_half_closed())
            && Timeouts::end_ms(self.sent_ms, core.timeouts.write_timeout_ms) <= now_ms;
        if is_stuck || matches!(self.reading, Reading::Lingering { .. }) {
            return self.close(core, app, Abort::Disconnected);
        }
        if self.end_late_handlers(core, app, now_ms) {
            return self.settle(core, app);
        }
        match &self.reading {
            Reading::Content(incoming) if matches!(incoming.taker, Taker::Nobody) => {
                self.reading = Reading::Closing;
                self.has_unread = true;
            }
            Reading::Content(_) => {
                self.refuse_content(core, app, 408, "The content came too slowly.");
            }
            Reading::Head if self.has_partial => {
                self.refuse(core, app, None, 408, "The header section took too long.");
            }
            Reading::Head if self.pending.is_empty() => return Fate::Close,
            _ => {}
        }
        self.settle(core, app)
    }

    /// A peer that sends no more, and is sent nothing either: it may be gone, and only sending would tell.
    fn is_streamed_to_half_closed(&self) -> bool {
        let is_open = |front: &Exchange| front.progress == Progress::Pushed;
        self.has_peer_ended && !self.is_full && self.pending.front().is_some_and(is_open)
    }

    /// Answers for every handler whose time is over. True when there was one.
    fn end_late_handlers<A: App>(&mut self, core: &mut Core, app: &mut A, now_ms: u64) -> bool {
        if self.reader_waits() {
            return false;
        }
        let mut is_any = false;
        for exchange in &mut self.pending {
            let end_ms = Timeouts::end_ms(exchange.started_ms, core.timeouts.handler_timeout_ms);
            if exchange.progress == Progress::Waiting && end_ms <= now_ms {
                app.abort(exchange.id, Abort::HandlerTimeout);
                exchange.framing.persistent = false;
                let answer = error_response(503, "The request took too long to answer.");
                exchange.respond(&mut core.stamp, &answer);
                is_any = true;
            }
        }
        is_any
    }
}
