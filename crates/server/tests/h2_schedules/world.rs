//! Runs a schedule: one connection, its client, its application, and a clock that only the schedule advances.

use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{MemfdFlags, memfd_create};
use server::{Command, FilePart, Response};
use wire::h2::Priority;

use crate::harness::h2::H2Client;
use crate::harness::tls::h2_configs;
use crate::harness::{Server, response};
use crate::panics;
use crate::schedule::{Act, Kind, Move, Way};
use crate::sockets::Sockets;
use crate::{judgement, of_sockets};

const TRAILERS: &[u8] = b"x-end: yes\r\n";
const FILE_BYTES: usize = 65_536;
const FILE_OFFSET: usize = 3;
/// Rounds within which everything has been served.
const ROUNDS_MAX: usize = 600;
/// Waits within which every connection has ended.
const WAITS_MAX: usize = 2000;
const WRITTEN_BYTES_MAX: usize = 500_000;
/// Rounds without news after which WebSockets have received everything.
const QUIET_ROUNDS: usize = 10;

/// What follows the moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Last {
    /// Everybody goes on to the end.
    Finish,
    /// Nobody moves any more but time.
    FallSilent,
}

/// How far a handler is that acts later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Handler {
    Waiting,
    Begun,
    Complete,
    CompleteWithTrailers,
    Failed,
}

/// A request as the client knows it, and what its handler has done.
pub(crate) struct Asked {
    pub(crate) stream: u32,
    pub(crate) target: String,
    pub(crate) kind: Kind,
    pub(crate) sent: Vec<u8>,
    pub(crate) has_ended: bool,
    pub(crate) handler: Handler,
    pub(crate) written: Vec<u8>,
    pub(crate) informed: usize,
}

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) client: H2Client,
    clock: Arc<AtomicU64>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) sockets: Sockets,
    /// The streams of WebSockets that were open when nobody had anything to send.
    pub(crate) closes_last: Vec<u32>,
    pub(crate) is_draining: bool,
    has_left: bool,
    /// The client has said which responses it wants first.
    pub(crate) has_priorities: bool,
    /// Both sides have ended.
    has_closed: bool,
    /// Time has passed in which something may have been late.
    pub(crate) has_stalled: bool,
    /// The server has ended the connection before everybody had gone on to the end.
    pub(crate) has_ended: bool,
}

/// Runs a schedule from start to end.
///
/// # Errors
/// The first violation that is not an assertion of its own.
pub(crate) fn run(moves: &[Move], is_tls: bool, last: Last) -> Result<(), String> {
    let mut world = World::new(is_tls);
    for each in moves {
        world.make(*each);
        world.check()?;
    }
    match last {
        Last::FallSilent => world.fall_silent()?,
        Last::Finish => world.finish()?,
    }
    world.end()
}

/// A file in which no two frames are alike.
fn file() -> File {
    static FILE: OnceLock<File> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let mut file = File::from(memfd_create("f", MemfdFlags::CLOEXEC).expect("memory"));
        file.write_all(&file_content()).expect("memory");
        file
    });
    file.try_clone().expect("a descriptor")
}

fn file_content() -> Vec<u8> {
    (0..FILE_BYTES).map(|at| (at % 251) as u8).collect()
}

impl World {
    fn new(is_tls: bool) -> World {
        let (mut server, clock) = Server::with_manual_clock(|config| {
            config.accepts_prior_knowledge = true;
            config.limits.websocket_queued_bytes_max = 100_000;
        });
        let client = match is_tls {
            false => H2Client::new(server.connect()),
            true => H2Client::with_tls(server.connect_with_tls(&h2_configs().0)),
        };
        World {
            server,
            client,
            clock,
            asked: Vec::new(),
            sockets: Sockets::default(),
            closes_last: Vec::new(),
            is_draining: false,
            has_left: false,
            has_priorities: false,
            has_closed: false,
            has_stalled: false,
            has_ended: false,
        }
    }

    fn make(&mut self, each: Move) {
        match each {
            Move::Open(kind) => self.open(kind),
            Move::OpenSocket(way) => self.open_socket(way),
            Move::Socket { which, each } => {
                let (server, client) = (&mut self.server, &mut self.client);
                self.sockets.make(server, client, which, each);
            }
            Move::Publish(bytes) => self.sockets.publish(&self.server, bytes),
            Move::Data {
                which,
                bytes,
                is_last,
            } => self.data(which, usize::from(bytes), is_last),
            Move::Trailers { which } => {
                if let Some(index) = self.pick(which, |asked| !asked.has_ended) {
                    self.asked[index].has_ended = true;
                    self.client.trailers(self.asked[index].stream);
                }
            }
            Move::Reset { which } => {
                if let Some(index) = self.pick(which, |_| true) {
                    self.client.reset(self.asked[index].stream);
                    self.asked[index].has_ended = true;
                }
            }
            Move::Give { which: None, bytes } => self.client.give(0, bytes),
            Move::Give {
                which: Some(which),
                bytes,
            } => {
                if let Some(index) = self.pick(which, |_| true) {
                    self.client.give(self.asked[index].stream, bytes);
                }
            }
            Move::Window(bytes) => self.client.announce_window(bytes),
            Move::Setting(identifier, value) => self.client.announce(identifier, value),
            Move::Ping => self.client.ping(),
            Move::Prioritize(which, priority) => self.prioritize(which, priority),
            Move::Send(bytes) => self.client.send(usize::from(bytes)),
            Move::Pass => self.pass(),
            Move::Receive => self.receive(),
            Move::Act { which, act } => self.act_on_one(which, act),
            Move::Advance(ms) => self.advance(ms),
            Move::Stall(ms) => {
                self.stall();
                self.advance(ms);
            }
            Move::Drain => {
                self.is_draining = true;
                self.sockets.note(|it| it.has_drained = true);
                self.server.worker.drain();
            }
            Move::Leave => {
                self.has_left = true;
                self.client.leave();
            }
            Move::HalfClose if self.client.has_finished() => {}
            Move::HalfClose => {
                self.client.finish();
                self.sockets.note(|it| it.is_lost = true);
            }
            Move::Vanish => {
                self.client.vanish();
                self.sockets.note(|it| it.is_lost = true);
            }
        }
    }

    /// Something may be late from now on.
    fn stall(&mut self) {
        self.has_stalled = true;
        self.sockets.note(|it| it.has_stalled = true);
    }

    fn pass(&mut self) {
        self.server.pass();
        self.sockets.note_calls(&self.server);
    }

    fn receive(&mut self) {
        self.client.receive();
        self.sockets.read(&mut self.client);
    }

    fn advance(&mut self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::Relaxed);
    }

    fn open(&mut self, kind: Kind) {
        if self.has_left {
            return;
        }
        let number = self.asked.len();
        let target = match kind {
            Kind::Now | Kind::Head => format!("/now/{number}"),
            Kind::Later | Kind::Unread => format!("/later/{number}"),
            Kind::Pulled(parts) => format!("/pull/{parts}/{number}"),
            Kind::Large(bytes) => format!("/big/{bytes}/{number}"),
            Kind::Read => format!("/read/{number}"),
            Kind::Parts => format!("/parts/{number}"),
            Kind::Panics => format!("/panic/{number}"),
        };
        let (method, has_content) = match kind {
            Kind::Read | Kind::Parts | Kind::Unread => ("POST", true),
            Kind::Head => ("HEAD", false),
            _ => ("GET", false),
        };
        let stream = self.client.open(method, &target, !has_content);
        self.asked.push(Asked {
            stream,
            target,
            kind,
            sent: Vec::new(),
            has_ended: !has_content,
            handler: Handler::Waiting,
            written: Vec::new(),
            informed: 0,
        });
    }

    fn open_socket(&mut self, way: Way) {
        if !self.has_left {
            let causes = self.sockets.open(&mut self.client, way);
            causes.has_drained = self.is_draining;
            causes.has_stalled = self.has_stalled;
            causes.is_lost |= self.client.has_finished();
        }
    }

    /// One of the requests that are not over.
    fn pick(&self, which: u8, is_meant: impl Fn(&Asked) -> bool) -> Option<usize> {
        let is_open = |index: &usize| {
            let asked = &self.asked[*index];
            !self.client.streams[&asked.stream].is_over() && is_meant(asked)
        };
        let open: Vec<usize> = (0..self.asked.len()).filter(is_open).collect();
        open.get(usize::from(which) % open.len().max(1)).copied()
    }

    fn prioritize(&mut self, which: Option<u8>, priority: Priority) {
        self.has_priorities = true;
        let is_incremental = u8::from(priority.is_incremental);
        let value = format!("u={}, i=?{is_incremental}", priority.urgency);
        let open = which.and_then(|which| self.pick(which, |_| true));
        let stream = match open {
            Some(index) => self.asked[index].stream,
            None => self.client.next(),
        };
        self.client.prioritize(stream, &value);
    }

    fn data(&mut self, which: u8, bytes: usize, is_last: bool) {
        let Some(index) = self.pick(which, |asked| !asked.has_ended) else {
            return;
        };
        let asked = &mut self.asked[index];
        let room = self.client.streams[&asked.stream].room_bytes;
        let room = room.min(self.client.room_bytes).max(0) as usize;
        let count = bytes.min(room).min(16_384);
        // No two streams have the same content.
        let start = asked.sent.len();
        let letter = |at: usize| b'a' + ((at * 7 + index * 11) % 26) as u8;
        let content: Vec<u8> = (start..start + count).map(letter).collect();
        asked.sent.extend_from_slice(&content);
        asked.has_ended = is_last;
        self.client.data(asked.stream, &content, is_last);
    }

    /// A handler that acts later does something.
    fn act_on_one(&mut self, which: u8, act: Act) {
        let owing: Vec<usize> = (0..self.asked.len())
            .filter(|index| self.owes(&self.asked[*index]))
            .collect();
        if let Some(index) = owing.get(usize::from(which) % owing.len().max(1)) {
            self.act(*index, act);
        }
    }

    fn act(&mut self, index: usize, act: Act) {
        let asked = &mut self.asked[index];
        let head = Response {
            status: 200,
            ..Response::default()
        };
        let (next, command) = match (asked.handler, act) {
            (Handler::Waiting, Act::Respond) => {
                asked.written = asked.target.clone().into();
                (
                    Handler::Complete,
                    Command::Respond(response(200, &asked.target)),
                )
            }
            (Handler::Waiting, Act::Inform) => {
                asked.informed += 1;
                let fields = b"Link: </a>\r\n".to_vec();
                (
                    Handler::Waiting,
                    Command::Inform {
                        status: 103,
                        fields,
                    },
                )
            }
            (Handler::Waiting, Act::Begin) => (Handler::Begun, Command::Begin(head)),
            (Handler::Begun, Act::Write(bytes)) if asked.written.len() < WRITTEN_BYTES_MAX => {
                let part = vec![b'a' + (index % 26) as u8; usize::from(bytes)];
                asked.written.extend_from_slice(&part);
                let command = match part.len() % 2 {
                    1 => Command::WriteHeld(Box::new(part)),
                    _ => Command::Write(part),
                };
                (Handler::Begun, command)
            }
            (Handler::Begun, Act::WriteFile(bytes)) if asked.written.len() < WRITTEN_BYTES_MAX => {
                let part = &file_content()[FILE_OFFSET..FILE_OFFSET + usize::from(bytes)];
                asked.written.extend_from_slice(part);
                let part = FilePart {
                    file: file().into(),
                    offset: FILE_OFFSET as u64,
                    length: u64::from(bytes),
                };
                (Handler::Begun, Command::WriteFile(part))
            }
            (Handler::Begun, Act::Finish) => (Handler::Complete, Command::Finish),
            (Handler::Begun, Act::FinishWith) => (
                Handler::CompleteWithTrailers,
                Command::FinishWith(TRAILERS.to_vec()),
            ),
            (_, Act::Fail) => (Handler::Failed, Command::Fail),
            _ => return,
        };
        asked.handler = next;
        let id = self.server.exchange(&asked.target);
        self.server.post(id, command);
    }

    /// Handlers complete what they have started, or also what they have not.
    fn complete(&mut self, also_waiting: bool) {
        for index in 0..self.asked.len() {
            let asked = &self.asked[index];
            match asked.handler {
                _ if !self.owes(asked) => {}
                Handler::Begun => self.act(index, Act::Finish),
                Handler::Waiting if also_waiting => self.act(index, Act::Respond),
                _ => {}
            }
        }
    }

    /// Whether the application was called for a request, and owes its response.
    fn owes(&self, asked: &Asked) -> bool {
        let app = &self.server.worker.app;
        let is_later = matches!(asked.kind, Kind::Later | Kind::Unread | Kind::Parts);
        if !is_later || !matches!(asked.handler, Handler::Waiting | Handler::Begun) {
            return false;
        }
        let called = app.called.iter().find(|it| it.target == asked.target);
        let is_over = |id| app.aborted.iter().any(|(aborted, _)| *aborted == id);
        called.is_some_and(|it| {
            let has_read = it.content.is_some() || app.content_of(it.id).1;
            !is_over(it.id) && (asked.kind != Kind::Parts || has_read || self.has_closed)
        })
    }

    /// Every connection has a deadline, an application that owes a response, or a turn that is due.
    fn check(&mut self) -> Result<(), String> {
        if let Some(text) = panics::take_unexpected() {
            return Err(format!("the server panicked: {text}"));
        }
        let has_deadline = self.server.worker.before_wait().is_some();
        let is_owed =
            self.asked.iter().any(|asked| self.owes(asked)) || self.sockets.is_owed(&self.server);
        if !self.server.is_empty() && !has_deadline && !is_owed {
            return Err("a connection waits for ever".to_owned());
        }
        judgement::of_contents(self)
    }

    fn finish(&mut self) -> Result<(), String> {
        self.client.open_everything();
        for index in 0..self.asked.len() {
            let asked = &mut self.asked[index];
            let arrived = &self.client.streams[&asked.stream];
            if !asked.has_ended && arrived.reset.is_none() && !arrived.was_cancelled {
                asked.has_ended = true;
                self.client.data(asked.stream, b"", true);
            }
        }
        let (mut quiet_rounds, mut before) = (0, None);
        for _ in 0..ROUNDS_MAX {
            let reached = self.sockets.go_on(&mut self.server, &mut self.client);
            self.client.send(usize::MAX);
            self.pass();
            self.receive();
            self.complete(true);
            self.check()?;
            let is_quiet = before.replace(reached) == Some(reached) && !self.client.has_pending();
            quiet_rounds = if is_quiet { quiet_rounds + 1 } else { 0 };
            if quiet_rounds == QUIET_ROUNDS {
                of_sockets::of_rest(self)?;
                self.closes_last.extend(self.sockets.close(&self.client));
            }
            let is_over = self.client.streams.values().all(|it| it.is_over());
            let is_rest = is_over && !self.client.has_pending() && !self.is_leaving();
            if self.client.is_ended() || is_rest {
                self.client.receive();
                break;
            }
            // The steps of a drain take time; not enough for anything else.
            self.advance(1);
        }
        if self.is_leaving() && !self.client.is_ended() {
            return Err("the connection is open after its last response".to_owned());
        }
        self.has_ended = self.client.is_ended();
        judgement::of_end(self)?;
        of_sockets::of_end(self)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.has_left || self.is_draining
    }

    /// Nobody moves but time. The connection ends by itself.
    fn fall_silent(&mut self) -> Result<(), String> {
        self.stall();
        for _ in 0..WAITS_MAX {
            self.complete(false);
            self.sockets.read_on(&mut self.server);
            self.pass();
            self.receive();
            if self.client.is_ended() {
                return Ok(());
            }
            let wait_ms = self.server.worker.before_wait();
            self.check()?;
            match wait_ms {
                Some(wait_ms) => self.advance(wait_ms.max(1)),
                None if self.server.is_empty() => {}
                None if self.asked.iter().any(|asked| self.owes(asked)) => {}
                None if self.sockets.is_owed(&self.server) => {}
                None => break,
            }
        }
        Err("the connection is open for ever".to_owned())
    }

    /// When all have ended, nothing is left, and every handler knows.
    fn end(mut self) -> Result<(), String> {
        self.client.vanish();
        self.has_closed = true;
        self.stall();
        for _ in 0..100 {
            self.server.pass();
            self.clock.fetch_add(1000, Ordering::Relaxed);
        }
        let held_bytes = self.server.worker.held_bytes();
        if !self.server.is_empty() || held_bytes != 0 {
            return Err(format!("{held_bytes} bytes of a connection are left"));
        }
        if let Some(asked) = self.asked.iter().find(|asked| self.owes(asked)) {
            return Err(format!("{} was not notified of its end", asked.target));
        }
        of_sockets::of_reports(&self)?;
        let aborted = &self.server.worker.app.aborted;
        for (at, (id, _)) in aborted.iter().enumerate() {
            if aborted[..at].iter().any(|(other, _)| other == id) {
                return Err(format!("{id:?} was aborted twice"));
            }
        }
        Ok(())
    }
}
