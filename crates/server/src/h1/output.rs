//! Sends a connection's responses in request order, with one send for everything that is ready.

use super::file::{FileStep, TURN_BYTES};
use super::{Ending, For, H1, QUEUE_KEPT, Reading};
use crate::app::{Abort, App, Pulled};
use crate::exchange::{Obeyed, Progress};
use crate::id::ExchangeId;
use crate::link::{Broken, Fate, Turn, Unread};
use crate::mailbox::Command;
use net::memory::NoMemory;

/// Bytes pulled from a streamed response before other connections get a turn.
const PULL_BYTES: usize = 131_072;

/// Bytes that an empty part counts as.
const EMPTY_PART_BYTES: usize = 1024;

/// What follows a round of [`H1::settle_queue`].
enum Step {
    /// Something changed: another round.
    Again,
    /// Nothing more can be done now.
    Over(Fate),
}

impl H1 {
    /// Executes a handler's command for its response.
    pub(super) fn respond<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        id: ExchangeId,
        command: Command,
    ) {
        let is_asked = |queued: &super::Queued| queued.exchange.id == id;
        let Some(index) = self.queue.iter().position(is_asked) else {
            return;
        };
        let is_last = index + 1 == self.queue.len();
        let is_end = turn.context.is_draining() || !self.is_content_settled();
        let is_sent = self.send_held(turn, index, &command);
        let Some(queued) = self.queue.get_mut(index) else {
            return;
        };
        let is_final = !matches!(command, Command::Inform { .. });
        if queued.exchange.progress == Progress::Waiting && is_final && is_last && is_end {
            queued.encoding.framing.persistent = false;
        }
        let lacking = match is_sent {
            Ok(true) => return,
            Ok(false) => queued.make_room(&command),
            Err(lack) => Err(lack),
        };
        let command = match lacking {
            Ok(()) => command,
            Err(NoMemory(bytes)) => {
                turn.context.note_shortage(bytes);
                queued.without_memory()
            }
        };
        let is_early = queued.obey(&mut turn.context.responder, command) == Obeyed::EndedEarly;
        if is_early || (lacking.is_err() && queued.exchange.progress == Progress::Cut) {
            turn.abort(id, Abort::Refused);
        }
        let response_bytes = queued.exchange.out.held_bytes() as u64;
        let file_bytes = queued.exchange.out.file_bytes();
        let is_persistent = queued.is_persistent();
        if queued.ends_with_connection() {
            turn.link.guard(true);
        }
        if queued.exchange.is_ended() {
            turn.context.note_response(response_bytes);
            let bytes = response_bytes.saturating_add(file_bytes);
            self.window.note_response(bytes, &turn.context.limits);
            self.release_content(turn, id, is_persistent);
        }
        if !is_persistent {
            self.read_no_request(turn);
        }
    }

    /// Sends what is ready, continues with what that unblocks, and returns the fate of the connection.
    #[inline]
    pub(crate) fn settle<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        let goes_on = matches!(self.reading, Reading::Idle) && !turn.link.has_ended();
        if !goes_on || !self.queue.is_empty() || turn.link.is_full() {
            return self.settle_queue(turn);
        }
        let context = &mut *turn.context;
        if context.responder.out.is_empty() {
            return Fate::Open;
        }
        let now_ms = context.clock.now_ms();
        if context
            .responder
            .batch
            .takes(turn.link.id, &mut context.responder.out, now_ms)
        {
            return Fate::Open;
        }
        match turn.link.flush(context, false) {
            Ok(()) => Fate::Open,
            Err(Broken) => Fate::Close,
        }
    }

    fn settle_queue<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        let (mut pull_budget, mut file_budget) = (PULL_BYTES, TURN_BYTES);
        loop {
            self.emit(turn);
            if !turn.context.responder.out.is_empty() {
                let is_followed = self.is_followed();
                if turn.link.flush(turn.context, is_followed) == Err(Broken) {
                    return self.abandon(turn, Abort::Disconnected);
                }
            }
            if self.is_upgraded() {
                return Fate::Upgrade;
            }
            if turn.link.is_full() {
                return Fate::Open;
            }
            match self.send_file(turn, &mut file_budget) {
                FileStep::None => {}
                FileStep::Over => continue,
                FileStep::Stopped(fate) => return fate,
            }
            self.notify_writer(turn);
            if self.pull(turn, &mut pull_budget) {
                let context = &mut *turn.context;
                if pull_budget == 0 || context.share.is_used_by_request(&mut context.clock) {
                    return self.settle_later(turn);
                }
                continue;
            }
            match self.proceed_with_input(turn) {
                Step::Again => {}
                Step::Over(fate) => return fate,
            }
        }
    }

    /// Sends what has been written of the next responses, files included, as far as the socket accepts it. Everything else is left to the
    /// next turn.
    pub(crate) fn send_written<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if turn.link.is_full() {
            self.resume_sending(turn);
        }
        let mut file_budget = TURN_BYTES;
        loop {
            self.emit(turn);
            let has_file = self.has_file();
            if !turn.context.responder.out.is_empty() {
                // What runs next detects a broken connection.
                let _ = turn.link.flush(turn.context, has_file);
            }
            if !has_file || turn.link.is_full() {
                return Fate::Again;
            }
            if let FileStep::Stopped(fate) = self.send_file(turn, &mut file_budget) {
                return match fate {
                    Fate::Open => Fate::Again,
                    fate => fate,
                };
            }
        }
    }

    /// Whether anything that has been written is next.
    pub(crate) fn has_output(&self) -> bool {
        let front = self.queue.front();
        front.is_some_and(|front| !front.exchange.out.is_empty())
    }

    /// Whether a part of a file is next.
    pub(crate) fn has_file(&self) -> bool {
        let front = self.queue.front();
        front.is_some_and(|front| front.exchange.out.has_file())
    }

    /// Sends what the socket did not accept before.
    #[cold]
    fn resume_sending<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        // What runs next detects a broken connection.
        let _ = turn.link.resume(turn.context, true);
        if matches!(self.reading, Reading::Head) {
            // While the socket was full, the rest of the head was not read.
            self.since_ms = turn.now_ms();
        }
    }

    /// Sends what was pulled, and leaves the rest to the next turn.
    fn settle_later<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        self.emit(turn);
        let is_followed = self.is_followed();
        match turn.link.flush(turn.context, is_followed) {
            Err(Broken) => self.abandon(turn, Abort::Disconnected),
            Ok(()) if turn.link.is_full() => Fate::Open,
            Ok(()) => Fate::Again,
        }
    }

    /// Starts requests that waited for responses to be sent.
    fn proceed_with_input<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Step {
        let unused = self.input.len();
        match &self.reading {
            Reading::Waiting(For::Turn) => return Step::Over(Fate::Again),
            Reading::Waiting(For::Exchange | For::Socket) => self.resume(turn),
            Reading::Waiting(For::Granted { waited_ms }) => {
                let waited_ms = u64::from(*waited_ms);
                self.resume_late(turn, waited_ms);
            }
            // Content that waited for its handler, or the request after it.
            Reading::Content(incoming) if unused > 0 && incoming.takes_more(turn.context) => {
                self.resume(turn);
            }
            _ => return Step::Over(self.fate(turn)),
        }
        match self.input.len() < unused || !turn.context.responder.out.is_empty() {
            true => Step::Again,
            false => Step::Over(self.fate(turn)),
        }
    }

    /// The fate of a connection that can do no more now.
    fn fate<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if !self.queue.is_empty() || turn.link.is_full() {
            return Fate::Open;
        }
        match self.reading {
            Reading::Waiting(For::Turn) => Fate::Again,
            Reading::Waiting(For::Place) => Fate::Open,
            Reading::Closing(Ending::Cut) => Fate::Cut,
            Reading::Closing(ending) => {
                // All is sent: the end of the connection may be that of a response.
                turn.link.guard(false);
                Fate::End(match ending {
                    Ending::Announced => Unread::Nothing,
                    Ending::Read => Unread::Possible,
                    Ending::Unread | Ending::Cut => Unread::Some,
                })
            }
            _ if turn.link.has_ended() => Fate::Close,
            _ => Fate::Open,
        }
    }

    /// Moves responses that are next in order to the send buffer.
    pub(super) fn emit<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        while let Some(front) = self.queue.front_mut() {
            let exchange = &mut front.exchange;
            if let Err(bytes) = turn.context.put_out(exchange.out.take_bytes()) {
                // What precedes it is sent nevertheless. What runs next detects a broken connection.
                let _ = turn.link.flush(turn.context, true);
                turn.context.responder.out = bytes;
            }
            if exchange.out.has_file() || !exchange.is_ended() {
                return;
            }
            let Some(mut ended) = self.queue.pop_front() else {
                return;
            };
            if self.queue.is_empty() && self.queue.capacity() > QUEUE_KEPT {
                self.queue = std::collections::VecDeque::new();
            }
            if matches!(self.reading, Reading::Idle) {
                self.since_ms = turn.now_ms();
            }
            turn.context
                .complete(std::mem::take(&mut ended.exchange.record));
            let is_cut = ended.exchange.progress == Progress::Cut;
            let is_persistent = ended.is_persistent();
            self.release_content(turn, ended.exchange.id, is_persistent);
            if !is_persistent {
                if is_cut {
                    // Nothing waits for the room of a truncated file.
                    turn.link.drop_file();
                }
                match ended.is_whole_until_end() {
                    true => turn.link.guard_until_sent(&turn.context.responder.out),
                    false => turn.link.guard(ended.ends_with_connection()),
                }
                self.give_up_place(turn);
                self.stop_reading(match ended.ends_with_connection() {
                    true => Ending::Cut,
                    false if !self.input.is_empty() => Ending::Unread,
                    false => Ending::Read,
                });
                self.abandon_unsent(turn, Abort::Disconnected, 0);
                return;
            }
        }
    }

    /// Whether a file or the end of the connection follows what is sent.
    pub(super) fn is_followed(&self) -> bool {
        match self.queue.front() {
            Some(front) => front.exchange.out.has_file(),
            None => matches!(
                self.reading,
                Reading::Closing(Ending::Announced | Ending::Read | Ending::Unread)
            ),
        }
    }

    /// Notifies the handler that is next in order that everything it wrote has been sent.
    fn notify_writer<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        if let Some(front) = self.queue.front_mut()
            && matches!(
                front.exchange.progress,
                Progress::Waiting | Progress::Pushed
            )
            && std::mem::take(&mut front.exchange.awaits_writable)
        {
            turn.app.writable(front.exchange.id);
        }
    }

    /// Asks the application for parts of the next response. Returns true if there was one.
    fn pull<A: App>(&mut self, turn: &mut Turn<'_, A>, budget: &mut usize) -> bool {
        let Some(front) = self.queue.front_mut() else {
            return false;
        };
        if front.exchange.progress != Progress::Pulled || *budget == 0 {
            return false;
        }
        // The application may take any amount of time.
        turn.context.responder.batch.send_now();
        let (mut part, mut is_last) = (Vec::new(), false);
        while part.is_empty() {
            let pulled = turn.app.pull(front.exchange.id, &mut part);
            turn.context.metrics.call_ended(); // its time is not the next request's
            match pulled {
                // Parts may be empty, but not without end while other connections wait for their turns.
                Pulled::More if part.is_empty() => {
                    let context = &mut *turn.context;
                    *budget = budget.saturating_sub(EMPTY_PART_BYTES);
                    if *budget == 0 || context.share.is_used_by_request(&mut context.clock) {
                        *budget = 0;
                        return true;
                    }
                }
                Pulled::More => {}
                Pulled::End => {
                    is_last = true;
                    break;
                }
                Pulled::Failed => {
                    front.exchange.progress = Progress::Cut;
                    return true;
                }
            }
        }
        *budget = budget.saturating_sub(part.len());
        if let Err(NoMemory(bytes)) = front.make_room_for_part(part.len()) {
            turn.context.note_shortage(bytes);
            turn.abort(front.exchange.id, Abort::Refused);
            front.exchange.progress = Progress::Cut;
            return true;
        }
        front.exchange.take_part(&mut front.encoding, part);
        if is_last {
            front.exchange.finish(&mut front.encoding, b"");
        }
        true
    }
}
