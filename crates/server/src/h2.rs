//! HTTP/2 over a link: streams in, responses out in any order (RFC 9113).
//!
//! *Reading* ([`input`]):
//!
//! | reading | event | reading then |
//! | --- | --- | --- |
//! | `Preface` | the client's preface arrives | `Settings` |
//! | `Settings` | the first frame is SETTINGS | `Frames` |
//! | `Frames` | HEADERS without the end of its block | `Block` |
//! | `Block` | the end of the block | `Frames` |
//! | `Preface`, `Settings`, `Block` | anything else, `header_timeout_ms` | `Closing` |
//! | `Frames` | a violation that ends the connection; the client's GOAWAY and no stream is left; a drain or `keep_alive_timeout_ms` and no stream is left | `Closing` |
//! | `Preface`, `Settings` | a drain | `Closing`, after GOAWAY and as long as a request may be on its way |
//! | `Block` | a drain, and no stream is left | the link is closed |
//! | `Closing` | everything has been sent | the link is closed |
//!
//! A request whose response is complete at once never becomes a [`Stream`]: HEADERS and DATA are written straight to the worker's send
//! buffer. Every other one has a place in `streams` until both sides have ended, and its content waits there for the windows ([`output`]).
//!
//! *Leaving* ([`closing`]) is the way to the end of the connection: `No`, then `Announced` (GOAWAY with the highest identifier, and a PING
//! that shows when the client has seen it), then `Final` (GOAWAY with the last stream that is served).
//!
//! Only [`deadlines`] decides who owes the next move, and until when.

mod admission;
mod closing;
mod content;
mod deadlines;
mod flood;
mod handlers;
mod holding;
mod input;
mod output;
mod priority;
mod publishing;
mod request;
mod shares;
mod start;
mod stream;
mod websocket;

use std::collections::VecDeque;

use net::Received;
use wire::h2::{
    Decoder, Encoder, FRAME_BYTES_MAX, Opened, PREFACE, ReceiveWindow, SendWindow, frame, settings,
};

use self::flood::Flood;
use self::handlers::Handlers;
use self::priority::Priorities;
use self::stream::{Stream, StreamEncoder};
use self::websocket::Carried;
use crate::app::{Abort, App};
use crate::exchange::Obeyed;
use crate::exchange::content::Inbound;
use crate::id::ExchangeId;
use crate::limits::{H2_RECORDS_BYTES, H2_STREAM_BYTES, Limits};
use crate::link::{Broken, Fate, Link, Turn};
use crate::mailbox::Command;
use crate::pace::Pace;
use net::memory::NoMemory;

/// What is read next.
enum Reading {
    Preface,
    Settings,
    Frames,
    Block(Box<Block>),
    /// Nothing: the connection ends when everything is sent.
    Closing,
}

/// A header block whose end has not arrived.
struct Block {
    stream: u32,
    /// Nothing follows it on its stream.
    is_last: bool,
    fragments: Vec<u8>,
    /// Their length, with a least length for each.
    counted_bytes: usize,
}

/// How far the connection is on the way to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaving {
    No,
    /// Streams are still accepted: the client may have opened some before it sees the announcement.
    Announced {
        since_ms: u64,
    },
    /// No stream after this one is served, as the client knows.
    Final {
        last: u32,
    },
}

impl Leaving {
    fn is_final(self) -> bool {
        matches!(self, Leaving::Final { .. })
    }
}

/// What the client's settings say.
#[derive(Clone, Copy, Debug)]
struct Client {
    window_bytes: u32,
    payload_bytes_max: usize,
}

/// A DATA frame whose end has not arrived, on a stream whose content is waited for.
#[derive(Clone, Copy, Debug)]
struct Arriving {
    stream: u32,
    since_ms: u64,
    /// How long it takes at the minimum rate.
    lasts_ms_max: u64,
}

/// A stream that this side has reset, and how much the client could send before it knew.
#[derive(Clone, Copy, Debug)]
struct Reset {
    stream: u32,
    window: ReceiveWindow,
}

/// Streams that this side has reset, to which the client may still send for some time: those of several round trips.
const RESET_REMEMBERED: usize = 1024;
/// Streams whose reset by the client is remembered: a client that resets one for each part of content that is under way repeats itself
/// soon.
const RESETS_REPEATED: usize = 128;
/// Frames that wait for a full socket, in bytes, before reading stops. Those of some hundreds of streams.
const WAITING_FRAMES_BYTES_MAX: usize = 16_384;

/// The bound of memory that [`Limits::http2_connection_bytes_max`] states.
const _: () = {
    let resets = RESET_REMEMBERED * size_of::<Reset>() + RESETS_REPEATED * size_of::<u32>();
    let records = resets + 2 * WAITING_FRAMES_BYTES_MAX + size_of::<H2>();
    assert!(records as u64 <= H2_RECORDS_BYTES);
    let boxed = size_of::<Inbound>() + size_of::<Pace>() + size_of::<Carried>();
    // A table doubles when it grows.
    assert!((2 * size_of::<Stream>() + boxed) as u64 <= H2_STREAM_BYTES);
};

/// One HTTP/2 connection.
pub(crate) struct H2 {
    reading: Reading,
    /// Input that could not be used yet.
    input: Vec<u8>,
    settings_are_acknowledged: bool,
    /// `input` starts with frames that may be served in the next turn.
    waits_for_turn: bool,
    /// Start of the current wait for the rest of the preface, a frame or a header block.
    since_ms: u64,
    decoder: Decoder,
    encoder: Encoder,
    client: Client,
    send_window: SendWindow,
    receive_window: ReceiveWindow,
    opened: Opened,
    /// In the order of their identifiers, which is also that of their exchanges.
    streams: Vec<Stream>,
    /// Where in `streams` sending continues.
    turn_of: usize,
    /// Where in `streams` the application is asked for parts next.
    pull_of: usize,
    /// Where in `streams` a WebSocket is served first.
    websocket_of: usize,
    /// Frames to be sent before anything that is written later.
    frames: Vec<u8>,
    reset: VecDeque<Reset>,
    reset_by_client: VecDeque<u32>,
    /// The stream whose client may send [`AHEAD_BYTES`].
    ahead_of: Option<u32>,
    /// What contents that are held until they are complete may have together, beyond the windows of their streams ([`shares`]).
    collected_bytes_max: u64,
    /// Whether the window of one of them may be withheld.
    has_withheld: bool,
    /// As `ahead_of`, for a stream that carries a WebSocket.
    websocket_ahead: Option<u32>,
    /// At least what waits to be sent to WebSockets, besides messages that were not published: [`publishing`].
    queued_bytes_max: usize,
    /// Start of the current wait for a request.
    idle_since_ms: u64,
    leaving: Leaving,
    flood: Flood,
    handlers: Handlers,
    priorities: Priorities,
    /// Content of which a part has arrived.
    arriving: Option<Arriving>,
}

impl H2 {
    /// A connection whose preface is expected. The server's settings are the first thing that it sends.
    pub(crate) fn new(limits: &Limits, now_ms: u64) -> H2 {
        let window_bytes = limits.h2_window_bytes();
        let streams_max = limits.h2_streams_max as u32;
        let connection_bytes = connection_window_bytes(limits);
        let mut frames = Vec::new();
        frame::push_settings(
            &mut frames,
            &[
                (
                    settings::HEADER_TABLE_SIZE,
                    limits.h2_table_bytes_max as u32,
                ),
                (settings::MAX_CONCURRENT_STREAMS, streams_max),
                (settings::INITIAL_WINDOW_SIZE, window_bytes),
                (
                    settings::MAX_HEADER_LIST_SIZE,
                    limits.header_section_bytes_max.min(u64::from(u32::MAX)) as u32,
                ),
                (settings::ENABLE_CONNECT_PROTOCOL, 1),
                (settings::NO_RFC7540_PRIORITIES, 1),
            ],
        );
        if let Some(increment @ 1..) = connection_bytes.checked_sub(settings::WINDOW_BYTES) {
            frame::push_window_update(&mut frames, 0, increment);
        }
        H2 {
            reading: Reading::Preface,
            input: Vec::new(),
            settings_are_acknowledged: false,
            waits_for_turn: false,
            websocket_of: 0,
            since_ms: now_ms,
            decoder: Decoder::new(limits.h2_table_bytes_max as usize),
            encoder: Encoder::new(),
            client: Client {
                window_bytes: settings::WINDOW_BYTES,
                payload_bytes_max: FRAME_BYTES_MAX,
            },
            send_window: SendWindow::new(settings::WINDOW_BYTES),
            receive_window: ReceiveWindow::new(connection_bytes),
            opened: Opened::default(),
            streams: Vec::new(),
            turn_of: 0,
            pull_of: 0,
            frames,
            reset: VecDeque::new(),
            reset_by_client: VecDeque::new(),
            ahead_of: None,
            collected_bytes_max: 0,
            has_withheld: false,
            websocket_ahead: None,
            queued_bytes_max: 0,
            idle_since_ms: now_ms,
            leaving: Leaving::No,
            flood: Flood::default(),
            handlers: Handlers::default(),
            priorities: Priorities::default(),
            arriving: None,
        }
    }

    /// Serves what was read.
    #[inline]
    pub(crate) fn received<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        received: &Received,
        buffer: &[u8],
    ) -> Fate {
        match received {
            Received::Bytes(count) => self.feed(turn, buffer.get(..*count).unwrap_or_default()),
            Received::Blocked => return Fate::Open,
            // Without the client's frames, no window opens and nothing is acknowledged.
            Received::End | Received::Broken(_) => return self.abandon(turn, Abort::Disconnected),
        }
        self.settle(turn)
    }

    /// Whether the next input starts a frame or continues one.
    #[inline]
    pub(crate) fn waits_for_request(&self) -> bool {
        matches!(self.reading, Reading::Frames) && !self.waits_for_turn
    }

    /// Whether it has read more than it could use.
    pub(crate) fn has_unused_input(&self) -> bool {
        self.waits_for_turn
    }

    /// The peer sends no more; what it has sent is still read.
    pub(crate) fn peer_ended<A: App>(&mut self, turn: &mut Turn<'_, A>) {
        let now_ms = turn.now_ms();
        turn.link.note_peer_end(now_ms);
    }

    /// The socket accepts bytes again.
    pub(crate) fn writable<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if turn.link.resume(turn.context, false) == Err(Broken) {
            return self.abandon(turn, Abort::Disconnected);
        }
        if self.frames.len() >= WAITING_FRAMES_BYTES_MAX {
            // Meanwhile the rest of a frame or a header block was not read.
            self.since_ms = turn.now_ms();
        }
        self.settle(turn)
    }

    /// Executes a command that a handler posted. Nothing is sent before [`H2::settle`].
    pub(crate) fn obey<A: App>(
        &mut self,
        turn: &mut Turn<'_, A>,
        id: ExchangeId,
        command: Command,
    ) {
        let Some(index) = self.index_of_exchange(id) else {
            return;
        };
        match self.obey_websocket(turn, index, command) {
            None => {}
            Some(Command::Read) => self.read_more(turn, index, false),
            Some(Command::ReadWhole) => self.read_more(turn, index, true),
            Some(command) => self.respond(turn, index, command),
        }
    }

    /// Executes a handler's command for its response.
    fn respond<A: App>(&mut self, turn: &mut Turn<'_, A>, index: usize, command: Command) {
        let H2 {
            streams,
            frames,
            encoder,
            client,
            handlers,
            ..
        } = self;
        let Some(stream) = streams.get_mut(index) else {
            return;
        };
        let lacking = stream.make_room(&command, frames);
        let command = match lacking {
            Ok(()) => command,
            Err(NoMemory(bytes)) => {
                turn.context.note_shortage(bytes);
                stream.without_memory()
            }
        };
        let was_cut = matches!(command, Command::Fail) && lacking.is_err();
        let mut writer = StreamEncoder {
            stream: stream.id,
            encoding: &mut stream.encoding,
            encoder,
            frames,
            payload_bytes_max: client.payload_bytes_max,
        };
        let exchange = &mut stream.exchange;
        let obeyed = exchange.obey(&mut writer, &mut turn.context.responder, command);
        if obeyed == Obeyed::EndedEarly || was_cut {
            let id = exchange.id;
            handlers.abort(turn, id, Abort::Refused);
        }
    }

    /// Continues with what waited for this turn.
    pub(crate) fn proceed<A: App>(&mut self, turn: &mut Turn<'_, A>) -> Fate {
        if std::mem::take(&mut self.waits_for_turn) {
            // Their input arrived before the frames that wait.
            self.serve_websockets(turn);
            if !self.waits_for_turn {
                self.resume(turn);
            }
        }
        self.settle(turn)
    }

    /// The send buffer, with the frames that were written before; while the socket is full, where frames wait for it.
    #[inline]
    fn out<'a, A>(&'a mut self, turn: &'a mut Turn<'_, A>) -> &'a mut Vec<u8> {
        if turn.link.is_full() {
            return &mut self.frames;
        }
        let out = &mut turn.context.responder.out;
        if !self.frames.is_empty() {
            out.append(&mut self.frames);
            self.frames = Vec::new();
        }
        out
    }

    /// Whether the socket is to be read from.
    #[inline]
    pub(crate) fn takes_input(&self, link: &Link) -> bool {
        let is_open = !matches!(self.reading, Reading::Closing);
        is_open && !self.waits_for_turn && !self.has_many_frames(link)
    }

    /// Whether so many frames wait for the socket that nothing is read which could add to them. Until then a full socket does not stop
    /// reading: the client may reset streams, open windows and send content.
    fn has_many_frames(&self, link: &Link) -> bool {
        link.is_full() && self.frames.len() >= WAITING_FRAMES_BYTES_MAX
    }

    /// Memory held, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let streams: usize = self.streams.iter().map(Stream::held_bytes).sum();
        let block = match &self.reading {
            Reading::Block(block) => block.fragments.capacity() + size_of::<Block>(),
            _ => 0,
        };
        let own = self.input.capacity() + self.frames.capacity() + block + streams;
        let tables = self.decoder.held_bytes() + self.encoder.held_bytes();
        let places = self.streams.capacity() * size_of::<Stream>();
        let resets = self.reset.capacity() * size_of::<Reset>()
            + self.reset_by_client.capacity() * size_of::<u32>();
        let noted = self.handlers.held_bytes() + self.priorities.held_bytes();
        own + tables + places + resets + noted + size_of::<H2>()
    }

    /// The clock moved during a turn: a wait that started in it counts from its end.
    #[cold]
    pub(crate) fn exclude_turn(&mut self, from_ms: u64, to_ms: u64) {
        if self.since_ms >= from_ms {
            self.since_ms = to_ms;
        }
        if self.idle_since_ms >= from_ms {
            self.idle_since_ms = to_ms;
        }
        for stream in &mut self.streams {
            if let Some(inbound) = &mut stream.inbound {
                inbound.exclude_turn(from_ms, to_ms);
            }
            if let Some(pace) = &mut stream.pace {
                pace.skip(from_ms, to_ms);
            }
            let carried = stream.carried.as_deref_mut();
            if let Some(websocket) = carried.and_then(Carried::websocket) {
                websocket.exclude_turn(from_ms, to_ms);
            }
        }
    }

    /// Whether a part of a file is next.
    pub(crate) fn has_file(&self) -> bool {
        self.streams
            .iter()
            .any(|stream| stream.exchange.out.has_file())
    }

    fn index_of(&self, stream: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&stream, |it| it.id).ok()
    }

    fn index_of_exchange(&self, id: ExchangeId) -> Option<usize> {
        let key = |it: &Stream| it.exchange.id.sequence;
        self.streams.binary_search_by_key(&id.sequence, key).ok()
    }
}

/// The window of the connection never stops a stream that may send: one whose handler does not read must not block the others.
fn connection_window_bytes(limits: &Limits) -> u32 {
    let bytes = u64::from(limits.h2_window_bytes()).saturating_mul(limits.h2_streams_max);
    let least = u64::from(settings::WINDOW_BYTES);
    bytes.clamp(least, u64::from(frame::STREAM_MAX)) as u32
}

/// Whether a connection that starts with `first` is HTTP/2 with prior knowledge (RFC 9113 section 3.3); None if that is not known yet.
pub(crate) fn is_prior_knowledge(first: &[u8]) -> Option<bool> {
    // No method of HTTP/1 that is in use starts with "PRI ".
    let compared = first.len().min(4);
    match first.get(..compared) == PREFACE.get(..compared) {
        false => Some(is_invalid_preface(first)),
        true if compared == 4 => Some(true),
        true => None,
    }
}

/// Whether the first line is complete and names no version of HTTP/1: no client of HTTP/1 has sent it, so it is an invalid preface (RFC 9113
/// section 3.4).
fn is_invalid_preface(first: &[u8]) -> bool {
    let Some(end) = memchr::memchr(b'\n', first) else {
        return false;
    };
    let line = first.get(..end).unwrap_or_default().trim_ascii_end();
    let names_version = |part: &[u8]| part.eq_ignore_ascii_case(b" HTTP/");
    !line.is_empty() && !line.windows(6).any(names_version)
}
