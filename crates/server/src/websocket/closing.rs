//! The end of a WebSocket (RFC 6455 7): close frames in both directions, and what the application hears of it.

use net::memory::{NoMemory, reserve};
use wire::websocket::{
    CONTROL_FRAME_BYTES_MAX, Close, CloseCode, Failure, Incoming, Receiver, Role, Sender,
};

use super::{Ending, Report, State, WebSocket};
use crate::app::App;
use crate::app::websocket::{Appetite, Closed};
use crate::context::Context;
use crate::link::Turn;

/// The reason of the close frame where there is no memory for a message.
const SHORT: &str = "the server is short of memory";

impl WebSocket {
    /// The application closes.
    pub(super) fn close(&mut self, context: &mut Context, close: &Close) {
        self.push_close(context, close);
        self.start_closing(context, Report::AtEnd);
    }

    /// The application has failed.
    pub(super) fn close_after_failure(&mut self, context: &mut Context) {
        self.close(context, &Close::new(CloseCode::INTERNAL_ERROR, ""));
    }

    /// The server closes, and waits for the peer's close frame; the application need not.
    pub(crate) fn close_because<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        code: CloseCode,
        reason: &str,
    ) {
        if self.state == State::Open {
            self.push_close(turn.context, &Close::new(code, reason));
            if self.state == State::Open {
                self.start_closing(turn.context, Report::Made);
                self.report(turn, code, reason);
            }
        }
    }

    /// A subscriber does not receive what is published as fast as it is published. What waits here is dropped. What a link has taken is still
    /// sent, because a frame may be in part: it is not more than `websocket_queued_bytes_max`.
    #[cold]
    pub(crate) fn close_slow<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        self.outgoing.clear();
        let reason = "the client receives too slowly";
        self.close_because(turn, CloseCode::TRY_AGAIN_LATER, reason);
    }

    /// There is no memory for a message that was to be sent: nothing can follow it. What waits here is dropped, as for a subscriber that is
    /// too slow. The application is notified by [`WebSocket::report_lack`].
    #[cold]
    pub(crate) fn lack(&mut self, context: &mut Context, lack: NoMemory) {
        self.drop_unsent(context, lack);
        if self.state == State::Open {
            self.push_close(context, &Close::new(CloseCode::TRY_AGAIN_LATER, SHORT));
            self.start_closing(context, Report::Due);
        } else {
            self.break_off(context);
        }
    }

    /// Notifies the application of a lack of memory, if that is due. Its carrier calls this in each turn in which it may call the application.
    #[inline]
    pub(crate) fn report_lack<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        if let State::Closing(report) = &mut self.state
            && *report == Report::Due
        {
            *report = Report::Made;
            self.report(turn, CloseCode::TRY_AGAIN_LATER, SHORT);
        }
    }

    /// As [`WebSocket::lack`], where the application can be notified at once.
    #[cold]
    pub(super) fn close_short<A: App>(&mut self, turn: &mut Turn<'_, A>, lack: NoMemory) {
        self.drop_unsent(turn.context, lack);
        self.close_because(turn, CloseCode::TRY_AGAIN_LATER, SHORT);
    }

    fn drop_unsent(&mut self, context: &mut Context, NoMemory(bytes): NoMemory) {
        context.note_message_shortage(bytes);
        self.outgoing.clear();
    }

    /// The peer's close frame arrived. Ours has the same code and reason (RFC 6455 5.5.1).
    pub(super) fn peer_closed<A: App>(&mut self, turn: &mut Turn<'_, A>, close: &Close) {
        if self.state == State::Open {
            self.absorb(turn.context);
            self.push_close(turn.context, close);
        }
        if self.end(turn.context, Ending::Read) {
            let code = close.code.unwrap_or(CloseCode::NO_STATUS);
            self.report(turn, code, &close.reason);
        }
    }

    /// The peer violates the protocol or a limit. What follows is dropped (RFC 6455 7.1.7).
    #[cold]
    pub(super) fn fail<A: App>(&mut self, turn: &mut Turn<'_, A>, failure: Failure) {
        if let Failure::NoMemory(lack) = failure {
            turn.context.note_message_shortage(lack.0);
        }
        self.cut_off(turn, failure.code(), failure.reason());
    }

    /// Closes without waiting for the peer's close frame. What follows is dropped.
    #[cold]
    pub(crate) fn cut_off<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        code: CloseCode,
        reason: &str,
    ) {
        if self.state == State::Open {
            self.absorb(turn.context);
            self.push_close(turn.context, &Close::new(code, reason));
        }
        if self.end(turn.context, Ending::Unread) {
            self.report(turn, code, reason);
        }
        // With it, an incomplete message is freed.
        self.receiver = Receiver::new(Role::Server, Incoming::Plain);
    }

    /// The carrier has ended, or the peer did not close in time.
    #[cold]
    pub(crate) fn lost<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        if self.end(turn.context, Ending::Unread) {
            self.report(turn, CloseCode::ABNORMAL, "");
        }
    }

    /// Without memory for a close frame, the connection ends without one.
    fn push_close(&mut self, context: &mut Context, close: &Close) {
        let sender = Sender::new(Role::Server);
        let written = self.outgoing.write(|out| {
            reserve(out, CONTROL_FRAME_BYTES_MAX)?;
            sender.push_close(out, close, [0; 4]);
            Ok(())
        });
        if let Err(lack) = written {
            self.drop_unsent(context, lack);
            self.break_off(context);
        }
    }

    fn start_closing(&mut self, context: &mut Context, report: Report) {
        if self.state == State::Open {
            // Without a limit for writing, the time to send it counts too.
            let is_paced = context.timeouts.response_rule().is_some();
            let since_ms = (!is_paced).then(|| context.clock.now_ms());
            self.rare.get_or_insert_default().closing_ms = since_ms;
            self.state = State::Closing(report);
        }
        self.appetite = Appetite::More;
        self.forget_ping();
        self.unsubscribe(context);
    }

    /// Nothing more is received. Returns whether the application has to be notified.
    fn end(&mut self, context: &mut Context, ending: Ending) -> bool {
        let (ending, is_reported) = match self.state {
            State::Open => (ending, false),
            State::Closing(report) => (ending, report == Report::Made),
            State::Ended {
                ending,
                is_reported,
            } => (ending, is_reported),
        };
        self.state = State::Ended {
            ending,
            is_reported: true,
        };
        self.forget_ping();
        self.unsubscribe(context);
        !is_reported
    }

    /// What is owed to the peer cannot be sent: the carrier ends the WebSocket in its turn.
    #[cold]
    pub(crate) fn break_off(&mut self, context: &mut Context) {
        let is_owed = self.end(context, Ending::Broken);
        self.state = State::Ended {
            ending: Ending::Broken,
            is_reported: !is_owed,
        };
    }

    fn unsubscribe(&mut self, context: &mut Context) {
        let rare = self.rare.as_mut();
        for subscription in rare
            .map(|rare| std::mem::take(&mut rare.subscriptions))
            .unwrap_or_default()
        {
            context.websockets.topics.remove(subscription);
        }
    }

    fn report<A: App>(&self, turn: &mut Turn<'_, A>, code: CloseCode, reason: &str) {
        // The application may take any amount of time.
        turn.context.responder.batch.send_now();
        let reason = reason.to_owned();
        turn.app.websocket_closed(self.id, &Closed { code, reason });
    }
}
