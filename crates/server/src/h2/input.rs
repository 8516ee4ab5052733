//! Parses a connection's input and does what each frame asks for.

use net::memory::{append, is_short};
use wire::h2::{
    ErrorCode, FRAME_BYTES_MAX, Frame, PREFACE, Parsed, Scope, Violation, frame, settings,
};

use super::{Block, H2, Reading};
use crate::app::App;
use crate::link::Turn;

/// Fragments of a header block count as so many bytes at least, so that empty ones are limited too.
const FRAGMENT_BYTES: usize = 64;

impl H2 {
    #[inline]
    pub(super) fn feed<A: App>(&mut self, turn: &mut Turn<'_, A>, data: &[u8]) {
        if self.input.is_empty() {
            let used = self.advance(turn, data);
            let rest = data.get(used..).unwrap_or_default();
            if append(&mut self.input, rest).is_err() {
                self.input_lacks_memory(turn, rest.len());
            } else if !self.input.is_empty() {
                self.note_arriving(turn.context);
            }
            return;
        }
        if append(&mut self.input, data).is_err() {
            return self.input_lacks_memory(turn, data.len());
        }
        self.resume(turn);
    }

    #[cold]
    fn input_lacks_memory<A: App>(&mut self, turn: &mut Turn<'_, A>, bytes: usize) {
        turn.context.note_shortage(bytes);
        let violation = Violation::of_connection(ErrorCode::INTERNAL_ERROR, "no memory");
        self.violated(turn, violation);
    }

    /// Continues with input that waited.
    pub(super) fn resume<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let since_ms = self.since_ms;
        let mut input = std::mem::take(&mut self.input);
        let used = self.advance(turn, &input);
        if used == 0 {
            self.since_ms = since_ms;
        }
        if used < input.len() {
            input.drain(..used);
            self.input = input;
            self.note_arriving(turn.context);
        }
    }

    /// Serves `data` from its start as far as possible. Returns the number of bytes used.
    fn advance<A: App>(&mut self, turn: &mut Turn<'_, A>, data: &[u8]) -> usize {
        let spare_bytes = turn.context.limits.h2_spare_bytes();
        if is_short(spare_bytes) {
            self.input_lacks_memory(turn, spare_bytes);
            return data.len();
        }
        let mut rest = data;
        while !rest.is_empty() && !self.waits_for_turn {
            let used = match self.reading {
                Reading::Closing => rest.len(),
                Reading::Preface => self.preface(turn, rest),
                Reading::Settings | Reading::Frames | Reading::Block(_) => {
                    self.next_frame(turn, rest)
                }
            };
            if used == 0 {
                break;
            }
            rest = rest.get(used..).unwrap_or_default();
        }
        let used = data.len() - rest.len();
        if used > 0 {
            self.arriving = None;
        }
        if !matches!(self.reading, Reading::Block(_)) {
            // A wait for a frame, or for the rest of one, starts.
            self.since_ms = turn.now_ms();
        }
        used
    }

    /// Reads the client's preface. Returns the number of bytes used.
    fn preface<A: App>(&mut self, turn: &mut Turn<'_, A>, input: &[u8]) -> usize {
        let count = input.len().min(PREFACE.len());
        if input.get(..count) != PREFACE.get(..count) {
            let reason = "the connection does not start with the preface of HTTP/2";
            self.violated(
                turn,
                Violation::of_connection(ErrorCode::PROTOCOL_ERROR, reason),
            );
            return input.len();
        }
        if count < PREFACE.len() {
            return 0;
        }
        self.reading = Reading::Settings;
        count
    }

    /// Serves one frame. Returns the number of bytes used, with those of a content that was served together with its request.
    #[inline]
    fn next_frame<A: App>(&mut self, turn: &mut Turn<'_, A>, input: &[u8]) -> usize {
        match wire::h2::parse(input, FRAME_BYTES_MAX) {
            Ok(Parsed::Frame(frame, used)) => {
                let after = input.get(used..).unwrap_or_default();
                match self.frame(turn, frame, after) {
                    Ok(more) => used + more,
                    Err(violation) => {
                        self.violated(turn, violation);
                        used
                    }
                }
            }
            Ok(Parsed::Incomplete) => 0,
            Ok(Parsed::Violated(violation, used)) => {
                let violation = match (&self.reading, self.is_idle(violation)) {
                    (Reading::Frames, false) => violation,
                    // Within a block, or on a stream that does not exist, it ends the connection.
                    _ => Violation {
                        scope: Scope::Connection,
                        ..violation
                    },
                };
                self.violated(turn, violation);
                used
            }
            Err(violation) => {
                self.violated(turn, violation);
                input.len()
            }
        }
    }

    /// Whether a violation is on a stream that was not opened. PRIORITY is allowed there, so only its own stream is concerned.
    fn is_idle(&self, violation: Violation) -> bool {
        match violation.scope {
            Scope::Stream(stream) => self.opened.check(stream).is_err(),
            Scope::Connection => false,
        }
    }

    /// Refuses a header block whose stream depends on itself. The block is decoded: the tables of both sides must not differ.
    #[cold]
    fn depends_on_itself(&mut self, stream: u32, block: &[u8]) -> Violation {
        if let Err(error) = self.decoder.skip(block) {
            return compression(error);
        }
        if self.index_of(stream).is_none()
            && !self.has_reset(stream)
            && let Err(violation) = self.opened.open(stream)
        {
            return violation;
        }
        frame::depends_on_itself(stream)
    }

    /// Does what a frame asks for. `after` is the input that follows it. Returns how much of that was used too.
    fn frame<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        frame: Frame<'_>,
        after: &[u8],
    ) -> Result<usize, Violation> {
        self.check_place(frame)?;
        match frame {
            Frame::Headers {
                stream,
                block,
                is_last,
                is_whole,
                depends_on_itself,
            } => {
                if depends_on_itself && is_whole {
                    return Err(self.depends_on_itself(stream, block));
                }
                if is_whole {
                    return self.header_block(turn, (stream, is_last), block, after);
                }
                self.start_block(turn, (stream, is_last), block)?;
            }
            Frame::Continuation {
                block, is_whole, ..
            } => return self.continue_block(turn, block, is_whole, after),
            Frame::Data {
                stream,
                content,
                window_bytes,
                is_last,
            } => {
                if content.is_empty() && !is_last {
                    self.count_idle(turn)?;
                }
                self.data(turn, stream, content, (window_bytes, is_last))?;
            }
            Frame::ResetStream { stream, .. } => {
                self.opened.check(stream)?;
                self.client_reset(turn, stream)?;
            }
            Frame::Settings(payload) => {
                self.count_idle(turn)?;
                for (identifier, value) in payload.values() {
                    self.apply(identifier, value)?;
                }
                frame::push_settings_ack(self.out(turn));
            }
            Frame::Ping(data) => {
                self.count_idle(turn)?;
                frame::push_pong(self.out(turn), data);
            }
            Frame::Pong(data) => {
                self.count_idle(turn)?;
                self.pong(turn, data);
            }
            Frame::WindowUpdate { stream, increment } => {
                self.count_window_update(turn)?;
                self.open_window(stream, increment)?;
            }
            Frame::GoAway { .. } => {
                self.count_idle(turn)?;
                self.client_leaves(turn);
            }
            Frame::SettingsAck => {
                self.decoder.settings_acknowledged();
                self.settings_are_acknowledged = true;
                self.count_idle(turn)?;
            }
            Frame::PriorityUpdate { stream, value } => self.update_priority(turn, stream, value)?,
            Frame::Priority { .. } | Frame::Unknown { .. } => self.count_idle(turn)?,
        }
        Ok(0)
    }

    /// Checks that a frame may follow what was read before: SETTINGS first, and nothing within a header block but its rest.
    fn check_place(&mut self, frame: Frame<'_>) -> Result<(), Violation> {
        match (&self.reading, frame) {
            (Reading::Frames, _) => {}
            (Reading::Settings, Frame::Settings(_)) => self.reading = Reading::Frames,
            (Reading::Settings, _) => {
                let reason = "the first frame is not SETTINGS";
                return Err(Violation::of_connection(ErrorCode::PROTOCOL_ERROR, reason));
            }
            (Reading::Block(block), Frame::Continuation { stream, .. })
                if block.stream == stream => {}
            _ => {
                let reason = "a header block is interrupted by another frame";
                return Err(Violation::of_connection(ErrorCode::PROTOCOL_ERROR, reason));
            }
        }
        Ok(())
    }

    /// Counts a frame that is not progress.
    pub(super) fn count_idle<A: App>(&mut self, turn: &Turn<'_, A>) -> Result<(), Violation> {
        let (limits, now_ms) = (&turn.context.limits, turn.now_ms());
        calm(self.flood.idle_frame(limits, now_ms))
    }

    fn count_window_update<A: App>(&mut self, turn: &Turn<'_, A>) -> Result<(), Violation> {
        let (limits, now_ms) = (&turn.context.limits, turn.now_ms());
        calm(self.flood.window_update(limits, now_ms))
    }

    /// The first fragment of a header block that is not complete.
    fn start_block<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        (stream, is_last): (u32, bool),
        fragment: &[u8],
    ) -> Result<(), Violation> {
        self.since_ms = turn.now_ms();
        self.reading = Reading::Block(Box::new(Block {
            stream,
            is_last,
            fragments: Vec::new(),
            counted_bytes: 0,
        }));
        self.add_fragment(turn, fragment)
    }

    fn add_fragment<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        fragment: &[u8],
    ) -> Result<(), Violation> {
        let Reading::Block(block) = &mut self.reading else {
            let reason = "CONTINUATION without a header block";
            return Err(Violation::of_connection(ErrorCode::PROTOCOL_ERROR, reason));
        };
        block.counted_bytes += fragment.len().max(FRAGMENT_BYTES);
        if block.counted_bytes as u64 > turn.context.limits.header_section_bytes_max {
            let reason = "a header block is longer than this server accepts";
            return Err(Violation::of_connection(
                ErrorCode::ENHANCE_YOUR_CALM,
                reason,
            ));
        }
        append(&mut block.fragments, fragment).map_err(|_| {
            turn.context.note_shortage(fragment.len());
            Violation::of_connection(ErrorCode::INTERNAL_ERROR, "no memory")
        })
    }

    fn continue_block<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        fragment: &[u8],
        is_whole: bool,
        after: &[u8],
    ) -> Result<usize, Violation> {
        self.add_fragment(turn, fragment)?;
        if !is_whole {
            return Ok(0);
        }
        match std::mem::replace(&mut self.reading, Reading::Frames) {
            Reading::Block(block) => {
                let Block {
                    stream,
                    is_last,
                    fragments,
                    ..
                } = *block;
                self.header_block(turn, (stream, is_last), &fragments, after)
            }
            _ => Ok(0),
        }
    }

    /// Applies one of the client's settings.
    fn apply(&mut self, identifier: u16, value: u32) -> Result<(), Violation> {
        match identifier {
            settings::HEADER_TABLE_SIZE => self.encoder.set_table_bytes_max(value as usize),
            settings::MAX_FRAME_SIZE => {
                // Longer frames than every endpoint accepts would gain nothing, and delay other streams.
                self.client.payload_bytes_max = (value as usize).min(FRAME_BYTES_MAX);
            }
            settings::INITIAL_WINDOW_SIZE => {
                let change = i64::from(value) - i64::from(self.client.window_bytes);
                self.client.window_bytes = value;
                for stream in &mut self.streams {
                    stream.send_window.change(change).map_err(|_| {
                        let reason = "a change of INITIAL_WINDOW_SIZE makes a window too large";
                        Violation::of_connection(ErrorCode::FLOW_CONTROL_ERROR, reason)
                    })?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The client gives more room.
    fn open_window(&mut self, stream: u32, increment: u32) -> Result<(), Violation> {
        let increment = i64::from(increment);
        let reason = "a window becomes too large";
        if stream == 0 {
            let changed = self.send_window.change(increment);
            return changed
                .map_err(|_| Violation::of_connection(ErrorCode::FLOW_CONTROL_ERROR, reason));
        }
        self.opened.check(stream)?;
        let Some(stream) = self
            .index_of(stream)
            .and_then(|index| self.streams.get_mut(index))
        else {
            return Ok(());
        };
        let id = stream.id;
        stream
            .send_window
            .change(increment)
            .map_err(|_| Violation::of_stream(id, ErrorCode::FLOW_CONTROL_ERROR, reason))
    }
}

/// Ends the connection unless the number of frames without progress is allowed.
fn calm(is_allowed: bool) -> Result<(), Violation> {
    match is_allowed {
        true => Ok(()),
        false => Err(Violation::of_connection(
            ErrorCode::ENHANCE_YOUR_CALM,
            "too many frames without progress",
        )),
    }
}

/// A header block cannot be decoded.
pub(super) fn compression<E>(_: E) -> Violation {
    Violation::of_connection(
        ErrorCode::COMPRESSION_ERROR,
        "a header block cannot be decoded",
    )
}
