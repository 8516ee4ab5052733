//! What one connection receives.

use std::collections::VecDeque;

use wire::h2::frame::{push_pong, push_settings_ack, push_window_update};
use wire::h2::settings::{self, SettingsPayload};
use wire::h2::{BlockError, ErrorCode, FRAME_BYTES_MAX, Frame, Parsed, parse};

use super::super::connection::Stamp;
use super::super::error::ErrorClass;
use super::head::Meaning;
use super::{Admission, Event, Fragments, Job, Session};

/// More of a header block is not collected.
const BLOCK_BYTES_MAX: usize = 256 * 1024;
/// A server that makes us respond to more frames without reading the responses is refused.
const RESPONSES_BYTES_MAX: usize = 1024 * 1024;

/// Why a connection must end: how its requests failed, and the code of GOAWAY.
pub(in super::super) struct Violation {
    pub(in super::super) class: ErrorClass,
    pub(in super::super) code: ErrorCode,
}

const PROTOCOL: Violation = Violation {
    class: ErrorClass::Malformed,
    code: ErrorCode::PROTOCOL_ERROR,
};
const COMPRESSION: Violation = Violation {
    class: ErrorClass::Malformed,
    code: ErrorCode::COMPRESSION_ERROR,
};
const FLOW_CONTROL: Violation = Violation {
    class: ErrorClass::Malformed,
    code: ErrorCode::FLOW_CONTROL_ERROR,
};
/// A response on a stream that was not opened, or a second one.
const UNEXPECTED: Violation = Violation {
    class: ErrorClass::UnexpectedBytes,
    code: ErrorCode::STREAM_CLOSED,
};

type Outcome = Result<Event, Violation>;

impl Session {
    /// Reads the frame at the start of `data`. Returns the number of bytes used, and what it means; `None`: it is incomplete.
    ///
    /// # Errors
    /// If the connection must end.
    #[inline]
    pub(in super::super) fn next(
        &mut self,
        data: &[u8],
        job: Job<'_>,
    ) -> Result<Option<(usize, Event)>, Violation> {
        let (frame, used) = match parse(data, FRAME_BYTES_MAX) {
            Ok(Parsed::Frame(frame, used)) => (frame, used),
            Ok(Parsed::Incomplete) => return Ok(None),
            Ok(Parsed::Violated(..)) => return Err(PROTOCOL),
            Err(violation) => {
                return Err(Violation {
                    class: ErrorClass::Malformed,
                    code: violation.code,
                });
            }
        };
        if self.fragments.is_some() {
            return Ok(Some((used, self.continuation(frame, used, job)?)));
        }
        let event = match frame {
            Frame::Headers {
                stream,
                block,
                is_last,
                is_whole: true,
                ..
            } => self.headers(stream, block, is_last, used, job)?,
            Frame::Data {
                stream,
                content,
                window_bytes,
                is_last,
            } => self.data(stream, content, window_bytes, is_last, job)?,
            other => self.other(other, used, job)?,
        };
        Ok(Some((used, event)))
    }

    #[inline]
    fn headers(
        &mut self,
        id: u32,
        block: &[u8],
        is_last: bool,
        head_bytes: usize,
        job: Job<'_>,
    ) -> Outcome {
        let Some(stream) = self.streams.get(id) else {
            return self.late_headers(id, block, is_last);
        };
        if self.admission == Admission::Unknown {
            // SETTINGS come first (RFC 9113 3.4).
            return Err(PROTOCOL);
        }
        let index = match job.mix.is_uniform() {
            true => 0,
            false => job.mix.kind(stream.stamp.position),
        };
        let Some(kind) = job.kinds.get(index) else {
            return Err(PROTOCOL);
        };
        let is_trailer = !stream.response.is_in_head();
        let meaning = match is_trailer {
            false => self
                .heads
                .begin(block, head_bytes, index, kind, &mut stream.response),
            true => self.heads.trailers(block).map(|()| Meaning::Final),
        };
        match meaning {
            Ok(Meaning::Final) if is_last => self.end(id, job),
            Ok(Meaning::Final) if !is_trailer => Ok(Event::None),
            Ok(Meaning::Interim) if !is_last => Ok(Event::None),
            Err(BlockError::Compression) => Err(COMPRESSION),
            _ => self.malformed(id),
        }
    }

    #[inline]
    fn data(
        &mut self,
        id: u32,
        content: &[u8],
        window_bytes: u32,
        is_last: bool,
        job: Job<'_>,
    ) -> Outcome {
        if !self.received.receive(window_bytes) {
            return Err(FLOW_CONTROL);
        }
        if let Some(increment) = self.received.take(window_bytes) {
            push_window_update(&mut self.out, 0, increment);
        }
        let Some(stream) = self.streams.get(id) else {
            return self.late_data(id, is_last);
        };
        if !stream.received.receive(window_bytes) {
            return Err(FLOW_CONTROL);
        }
        if let Some(increment) = stream.received.take(window_bytes)
            && !is_last
        {
            push_window_update(&mut self.out, id, increment);
        }
        let Some(kind) = job.kinds.get(job.mix.kind(stream.stamp.position)) else {
            return Err(PROTOCOL);
        };
        if stream.response.is_in_head() {
            return Err(PROTOCOL);
        }
        if !stream.response.take_framed(kind, content) {
            return self.malformed(id);
        }
        match is_last {
            true => self.end(id, job),
            false => Ok(Event::None),
        }
    }

    /// The server has ended a stream: the response is complete.
    #[inline]
    fn end(&mut self, id: u32, job: Job<'_>) -> Outcome {
        let Some(stream) = self.streams.get(id) else {
            return Ok(Event::None);
        };
        let Some(kind) = job.kinds.get(job.mix.kind(stream.stamp.position)) else {
            return Err(PROTOCOL);
        };
        if !stream.response.is_whole() {
            return self.malformed(id);
        }
        self.has_responded = true;
        let stamp = stream.stamp;
        let mut verdict = stream.response.judge(kind, 0);
        match stream.is_writing {
            true => {
                verdict.error = verdict.error.or(Some(ErrorClass::EarlyResponse));
                self.cancel(id, ErrorCode::CANCEL);
            }
            false => self.streams.close(id),
        }
        Ok(Event::Response(stamp, verdict))
    }

    /// The response on a stream violates HTTP.
    #[cold]
    fn malformed(&mut self, id: u32) -> Outcome {
        let stamp = self.streams.get(id).map(|it| it.stamp);
        self.cancel(id, ErrorCode::PROTOCOL_ERROR);
        Ok(match stamp {
            Some(stamp) => Event::Failure(stamp, ErrorClass::Malformed),
            None => Event::None,
        })
    }

    /// HEADERS on a stream that is not open: what was cancelled may still arrive.
    #[cold]
    fn late_headers(&mut self, id: u32, block: &[u8], is_last: bool) -> Outcome {
        if self.heads.skip(block).is_err() {
            return Err(COMPRESSION);
        }
        self.late_data(id, is_last)
    }

    #[cold]
    fn late_data(&mut self, id: u32, is_last: bool) -> Outcome {
        let Some(place) = self.cancelled.iter().position(|it| *it == id) else {
            return Err(UNEXPECTED);
        };
        if is_last {
            self.cancelled.swap_remove(place);
        }
        Ok(Event::None)
    }

    #[cold]
    fn continuation(&mut self, frame: Frame<'_>, used: usize, job: Job<'_>) -> Outcome {
        let Some(mut fragments) = self.fragments.take() else {
            return Err(PROTOCOL);
        };
        let (block, is_whole) = match frame {
            Frame::Continuation {
                stream,
                block,
                is_whole,
            } if stream == fragments.stream => (block, is_whole),
            _ => return Err(PROTOCOL),
        };
        fragments.head_bytes += used;
        fragments.block.extend_from_slice(block);
        if fragments.block.len() > BLOCK_BYTES_MAX {
            return Err(COMPRESSION);
        }
        if is_whole {
            let Fragments {
                stream,
                is_last,
                head_bytes,
                block,
            } = fragments;
            return self.headers(stream, &block, is_last, head_bytes, job);
        }
        self.fragments = Some(fragments);
        Ok(Event::None)
    }

    /// Frames other than those of responses.
    fn other(&mut self, frame: Frame<'_>, used: usize, job: Job<'_>) -> Outcome {
        if self.admission == Admission::Unknown
            && !matches!(frame, Frame::Settings(_) | Frame::GoAway { .. })
        {
            // SETTINGS come first (RFC 9113 3.4). A server may leave before it has sent any.
            return Err(PROTOCOL);
        }
        match frame {
            Frame::Settings(payload) => self.settings(payload, job)?,
            Frame::SettingsAck | Frame::Pong(_) => {}
            Frame::Priority { .. } | Frame::Unknown { .. } => {}
            Frame::Ping(data) => push_pong(&mut self.out, data),
            Frame::WindowUpdate { stream, increment } => {
                return self.window_update(stream, increment, job);
            }
            Frame::ResetStream { stream, .. } => return self.stream_reset(stream),
            Frame::GoAway { last_stream, code } => return Ok(self.go_away(last_stream, code)),
            Frame::Headers {
                stream,
                block,
                is_last,
                ..
            } => {
                self.fragments = Some(Fragments {
                    stream,
                    is_last,
                    head_bytes: used,
                    block: block.to_vec(),
                });
            }
            Frame::Data { .. } | Frame::Continuation { .. } => return Err(PROTOCOL),
            // Only clients may send it (RFC 9218 7.1).
            Frame::PriorityUpdate { .. } => return Err(PROTOCOL),
        }
        match self.unsent().len() > RESPONSES_BYTES_MAX {
            true => Err(Violation {
                class: ErrorClass::Malformed,
                code: ErrorCode::ENHANCE_YOUR_CALM,
            }),
            false => Ok(Event::None),
        }
    }

    fn settings(&mut self, payload: SettingsPayload<'_>, job: Job<'_>) -> Result<(), Violation> {
        if self.admission == Admission::Unknown {
            self.admission = Admission::Concurrent(u32::MAX);
        }
        for (identifier, value) in payload.values() {
            match (identifier, self.admission) {
                (settings::MAX_CONCURRENT_STREAMS, Admission::Concurrent(_)) => {
                    if value == 0 && self.admission != Admission::Concurrent(0) {
                        self.closed_since_ns = self.heard_ns;
                    }
                    self.admission = Admission::Concurrent(value);
                }
                // No server pushes to a client that has refused it (RFC 9113 6.5.2).
                (settings::ENABLE_PUSH, _) if value != 0 => return Err(PROTOCOL),
                (settings::HEADER_TABLE_SIZE, _) => {
                    self.blocks.set_table_bytes_max(value as usize);
                }
                (settings::INITIAL_WINDOW_SIZE, _) => {
                    let change = i64::from(value) - i64::from(self.stream_window);
                    self.stream_window = value;
                    for stream in self.streams.iter_mut() {
                        stream.window.change(change).map_err(|_| FLOW_CONTROL)?;
                    }
                }
                _ => {}
            }
        }
        self.has_settings = true;
        push_settings_ack(&mut self.out);
        self.write_content(job);
        Ok(())
    }

    fn window_update(&mut self, id: u32, increment: u32, job: Job<'_>) -> Outcome {
        let change = i64::from(increment);
        if id == 0 {
            self.window.change(change).map_err(|_| FLOW_CONTROL)?;
        } else if let Some(stream) = self.streams.get(id) {
            if stream.window.change(change).is_err() {
                return self.malformed(id);
            }
        } else {
            self.check_opened(id)?;
        }
        self.write_content(job);
        Ok(Event::None)
    }

    #[cold]
    fn stream_reset(&mut self, id: u32) -> Outcome {
        let Some(stamp) = self.streams.get(id).map(|it| it.stamp) else {
            self.cancelled.retain(|it| *it != id);
            self.check_opened(id)?;
            return Ok(Event::None);
        };
        self.forget(id);
        Ok(Event::Failure(stamp, ErrorClass::StreamReset))
    }

    /// A stream that is not open was opened before.
    fn check_opened(&self, id: u32) -> Result<(), Violation> {
        match id < self.next_stream && id % 2 == 1 {
            true => Ok(()),
            false => Err(PROTOCOL),
        }
    }

    /// The server processes the streams up to this one, and no others.
    #[cold]
    fn go_away(&mut self, last_stream: u32, code: ErrorCode) -> Event {
        self.admission = Admission::Closed;
        let refused = self.streams.iter().filter(|it| it.id > last_stream);
        let refused: Vec<(u32, Stamp)> = refused.map(|it| (it.id, it.stamp)).collect();
        for (id, _) in &refused {
            self.forget(*id);
            self.cancelled.push(*id);
        }
        Event::Refusal {
            stamps: refused
                .into_iter()
                .map(|(_, stamp)| stamp)
                .collect::<VecDeque<_>>(),
            is_error: code != ErrorCode::NO_ERROR || !self.has_responded,
        }
    }
}
