//! The order in which streams send their content, as the client asks for it (RFC 9218).
//!
//! As long as a client has said nothing about it, all streams take turns, one frame each. After its first field `priority` or PRIORITY_UPDATE
//! frame, those that are more urgent are first. Of those that are equally urgent, the ones that the client does not use in parts are sent one
//! after another, in the order of their identifiers, and the others take turns with them.
//!
//! What may be sent is not delayed for what may not: a stream that waits for its application, or for its window, does not count.

use wire::RequestHead;
use wire::h2::{ErrorCode, Priority, State, Violation};

use super::output::Step;
use super::stream::Stream;
use super::{H2, Leaving};
use crate::app::App;
use crate::link::Turn;

/// What the client has said of priorities.
#[derive(Default)]
pub(super) struct Priorities {
    /// It has said something.
    pub(super) are_used: bool,
    /// Those of streams that are not open yet.
    idle: Vec<(u32, Priority)>,
    /// Content that was sent since the paces of streams were updated.
    pub(super) sent_bytes: u64,
}

impl Priorities {
    /// Memory held, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        self.idle.capacity() * size_of::<(u32, Priority)>()
    }

    /// What a PRIORITY_UPDATE has said of a stream that is opened now.
    fn take(&mut self, stream: u32) -> Option<Priority> {
        let index = self.idle.iter().position(|(id, _)| *id == stream)?;
        Some(self.idle.swap_remove(index).1)
    }
}

impl H2 {
    /// The priority of a stream that is opened. A frame overrides the field (RFC 9218 7).
    pub(super) fn initial_priority(&mut self, stream: u32, head: &RequestHead<'_>) -> Priority {
        let said = self.priorities.take(stream);
        let said = said.or_else(|| Priority::of(head.field_section));
        self.priorities.are_used |= said.is_some();
        said.unwrap_or_default()
    }

    /// PRIORITY_UPDATE. One whose value is malformed changes nothing.
    #[cold]
    pub(super) fn update_priority<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        stream: u32,
        value: &[u8],
    ) -> Result<(), Violation> {
        self.count_idle(turn)?;
        if stream.is_multiple_of(2) {
            // This side opens none.
            let reason = "a PRIORITY_UPDATE frame is for a stream of the server";
            return Err(Violation::of_connection(ErrorCode::PROTOCOL_ERROR, reason));
        }
        let priority = Priority::parse(value);
        self.priorities.are_used |= priority.is_some();
        if stream > self.opened.last() {
            return self.note_priority(turn, stream, priority);
        }
        let index = self.index_of(stream);
        let stream = index.and_then(|index| self.streams.get_mut(index));
        if let (Some(stream), Some(priority)) = (stream, priority) {
            stream.priority = priority;
            // Others do not wait until a WebSocket ends.
            stream.priority.is_incremental |= stream.carried.is_some();
        }
        Ok(())
    }

    /// Keeps the priority of a stream that is not open yet. The client may have as many of these and open ones as it may open (RFC 9218 7.1).
    fn note_priority<A: App>(
        &mut self,
        turn: &Turn<'_, A>,
        stream: u32,
        priority: Option<Priority>,
    ) -> Result<(), Violation> {
        let Some(priority) = priority else {
            return Ok(());
        };
        let last = self.opened.last();
        let idle = &mut self.priorities.idle;
        idle.retain(|(id, _)| *id > last && *id != stream);
        let is_active = |stream: &&Stream| stream.state != State::Closed;
        let active = self.streams.iter().filter(is_active).count();
        if (idle.len() + active) as u64 >= turn.context.limits.h2_streams_max {
            // A client that has not seen the limit does not violate it.
            return match self.settings_are_acknowledged && self.leaving == Leaving::No {
                false => Ok(()),
                true => Err(Violation::of_connection(
                    ErrorCode::PROTOCOL_ERROR,
                    "PRIORITY_UPDATE frames are for more streams than may be open",
                )),
            };
        }
        idle.push((stream, priority));
        Ok(())
    }

    /// Sends content of the most urgent streams first. Returns true if more could be sent at once.
    pub(super) fn emit_by_priority<A: App>(&mut self, turn: &mut Turn<'_, A>) -> bool {
        let urgencies = self.streams.iter().map(|it| it.priority.urgency);
        let mut left = urgencies.fold(0_u32, |left, urgency| left | 1 << urgency);
        // What is sent does not unblock streams that are more urgent.
        while left != 0 {
            if self.emit_urgency(turn, left.trailing_zeros() as u8) {
                return true;
            }
            left &= left - 1;
        }
        false
    }

    /// The same for streams of one urgency: the incremental ones have a turn each, and the others one together.
    fn emit_urgency<A: App>(&mut self, turn: &mut Turn<'_, A>, urgency: u8) -> bool {
        let mut idle = 0;
        while idle <= self.streams.len() {
            if self.is_batch_full(turn) {
                return true;
            }
            let index = self.turn_of;
            let before = self.streams.len();
            let step = match self.streams.get(index) {
                None => self.emit_first(turn, urgency),
                Some(stream) if stream.priority.urgency != urgency => Step::Nothing,
                Some(stream) if !stream.priority.is_incremental => Step::Nothing,
                Some(_) => self.emit_from(turn, index),
            };
            match step {
                Step::Nothing => idle += 1,
                Step::Sent => idle = 0,
                Step::Full => return true,
            }
            self.turn_of = match index >= before {
                true => 0,
                // The next one has moved to the place of a stream that is over.
                false => index + usize::from(self.streams.len() == before),
            };
        }
        false
    }

    /// Sends a frame of the first stream of this urgency that is not incremental and has something to send.
    fn emit_first<A: App>(&mut self, turn: &mut Turn<'_, A>, urgency: u8) -> Step {
        let wanted = Priority {
            urgency,
            is_incremental: false,
        };
        for index in 0..self.streams.len() {
            let stream = self.streams.get(index);
            if !stream.is_some_and(|stream| stream.priority == wanted) {
                continue;
            }
            match self.emit_from(turn, index) {
                Step::Nothing => {}
                step => return step,
            }
        }
        Step::Nothing
    }

    /// The first of the streams that a request waits on to be started: that of the most urgent ones.
    pub(super) fn first_ready(&self) -> Option<usize> {
        let mut ready = (0..self.streams.len()).filter(|index| self.is_ready(*index));
        match self.priorities.are_used {
            false => ready.next(),
            true => ready.min_by_key(|index| self.urgency(*index)),
        }
    }

    fn is_ready(&self, index: usize) -> bool {
        self.streams.get(index).is_some_and(Stream::is_ready)
    }

    fn urgency(&self, index: usize) -> u8 {
        let stream = self.streams.get(index);
        stream.map_or(u8::MAX, |stream| stream.priority.urgency)
    }

    /// Which streams the application is asked for parts, if not all of them: a part of another would be sent before the next one of these.
    pub(super) fn pulled_first(&self) -> Option<Pulled> {
        if !self.priorities.are_used {
            return None;
        }
        let wanting = self.streams.iter().filter(|stream| stream.wants_part());
        let urgency = wanting.map(|stream| stream.priority.urgency).min()?;
        let mut wanting = self.streams.iter().filter(|stream| stream.wants_part());
        let first = wanting
            .find(|stream| stream.priority.urgency == urgency && !stream.priority.is_incremental);
        Some(Pulled {
            urgency,
            first: first.map(|stream| stream.id),
        })
    }
}

/// The streams that are asked for parts.
#[derive(Clone, Copy)]
pub(super) struct Pulled {
    urgency: u8,
    /// The only one of those that are not incremental.
    first: Option<u32>,
}

impl Pulled {
    /// Whether a stream is one of them.
    pub(super) fn includes(self, stream: &Stream) -> bool {
        let priority = stream.priority;
        priority.urgency == self.urgency
            && (priority.is_incremental || self.first == Some(stream.id))
    }
}
