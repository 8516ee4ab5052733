//! HTTP/2 under random schedules: frames cut anywhere, windows, resets, an application that responds when it likes, time, drains.
//!
//! After every schedule, either all go on until everything has its end: then each response is whole and belongs to its stream. Or nobody
//! moves any more but time: then every connection ends by itself.

mod harness;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use harness::h2::H2Client;
use harness::{Server, response};
use proptest::prelude::*;
use server::{Command, Response};

/// Less than any timeout, in all of a schedule: what must not expire, does not.
const ADVANCE_MS_MAX: u64 = 50;
const MOVES_MAX: usize = 80;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Now,
    Later,
    Pushed,
    Pulled(u8),
    Big(u32),
    Read,
    Parts,
    Panics,
}

#[derive(Clone, Debug)]
enum Move {
    Open(Kind),
    Data {
        which: u8,
        bytes: u16,
        is_last: bool,
    },
    Trailers {
        which: u8,
    },
    Reset {
        which: u8,
    },
    Give {
        which: Option<u8>,
        bytes: u32,
    },
    Window(u32),
    Ping,
    Send(u16),
    Pass,
    Receive,
    Respond {
        which: u8,
    },
    Advance(u64),
    Drain,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Now),
        Just(Kind::Later),
        Just(Kind::Pushed),
        (0..40_u8).prop_map(Kind::Pulled),
        (0..200_000_u32).prop_map(Kind::Big),
        Just(Kind::Read),
        Just(Kind::Parts),
        Just(Kind::Panics),
    ]
}

/// Nothing, little, or much.
fn windows() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), 1..300_u32, 300..100_000_u32]
}

fn moves() -> impl Strategy<Value = Move> {
    let data = (any::<u8>(), 0..20_000_u16, any::<bool>());
    prop_oneof![
        8 => kinds().prop_map(Move::Open),
        6 => data.prop_map(|(which, bytes, is_last)| Move::Data { which, bytes, is_last }),
        1 => any::<u8>().prop_map(|which| Move::Trailers { which }),
        2 => any::<u8>().prop_map(|which| Move::Reset { which }),
        4 => (any::<Option<u8>>(), windows())
            .prop_map(|(which, bytes)| Move::Give { which, bytes: bytes.max(1) }),
        2 => windows().prop_map(Move::Window),
        1 => Just(Move::Ping),
        8 => (1..2000_u16).prop_map(Move::Send),
        4 => Just(Move::Send(u16::MAX)),
        8 => Just(Move::Pass),
        4 => Just(Move::Receive),
        5 => any::<u8>().prop_map(|which| Move::Respond { which }),
        2 => (1..ADVANCE_MS_MAX).prop_map(Move::Advance),
        1 => Just(Move::Drain),
    ]
}

/// A request as the client knows it.
struct Asked {
    stream: u32,
    target: String,
    kind: Kind,
    sent: Vec<u8>,
    has_ended: bool,
}

struct World {
    server: Server,
    client: H2Client,
    clock: Arc<AtomicU64>,
    asked: Vec<Asked>,
    /// Exchanges that have their response, by target.
    responded: Vec<String>,
    is_draining: bool,
}

impl World {
    fn new() -> World {
        let (mut server, clock) =
            Server::with_manual_clock(|config| config.accepts_prior_knowledge = true);
        let client = H2Client::new(server.connect());
        World {
            server,
            client,
            clock,
            asked: Vec::new(),
            responded: Vec::new(),
            is_draining: false,
        }
    }

    fn make(&mut self, each: &Move) {
        match *each {
            Move::Open(kind) => self.open(kind),
            Move::Data {
                which,
                bytes,
                is_last,
            } => self.data(which, usize::from(bytes), is_last),
            Move::Trailers { which } => self.end_with_trailers(which),
            Move::Reset { which } => {
                if let Some(index) = self.pick(which, |_, _| true) {
                    self.client.reset(self.asked[index].stream);
                    self.asked[index].has_ended = true;
                }
            }
            Move::Give { which: None, bytes } => self.client.give(0, bytes),
            Move::Give {
                which: Some(which),
                bytes,
            } => {
                if let Some(index) = self.pick(which, |_, _| true) {
                    self.client.give(self.asked[index].stream, bytes);
                }
            }
            Move::Window(bytes) => self.client.announce_window(bytes),
            Move::Ping => self.client.ping(),
            Move::Send(bytes) => self.client.send(usize::from(bytes)),
            Move::Pass => self.server.pass(),
            Move::Receive => self.client.receive(),
            Move::Respond { which } => self.respond(which),
            Move::Advance(ms) => {
                self.clock.fetch_add(ms, Ordering::Relaxed);
            }
            Move::Drain => {
                self.is_draining = true;
                self.server.worker.drain();
            }
        }
    }

    fn open(&mut self, kind: Kind) {
        let number = self.asked.len();
        let target = match kind {
            Kind::Now => format!("/now/{number}"),
            Kind::Later => format!("/later/{number}"),
            Kind::Pushed => format!("/push/{number}"),
            Kind::Pulled(parts) => format!("/pull/{parts}/{number}"),
            Kind::Big(bytes) => format!("/big/{bytes}/{number}"),
            Kind::Read => format!("/read/{number}"),
            Kind::Parts => format!("/parts/{number}"),
            Kind::Panics => format!("/panic/{number}"),
        };
        let has_content = matches!(kind, Kind::Read | Kind::Parts);
        let method = if has_content { "POST" } else { "GET" };
        let stream = self.client.open(method, &target, !has_content);
        self.asked.push(Asked {
            stream,
            target,
            kind,
            sent: Vec::new(),
            has_ended: !has_content,
        });
    }

    /// One of the requests that are not over.
    fn pick(&self, which: u8, is_meant: impl Fn(&Self, &Asked) -> bool) -> Option<usize> {
        let open: Vec<usize> = (0..self.asked.len())
            .filter(|index| {
                let asked = &self.asked[*index];
                !self.client.streams[&asked.stream].is_over() && is_meant(self, asked)
            })
            .collect();
        let count = open.len().max(1);
        open.get(usize::from(which) % count).copied()
    }

    fn data(&mut self, which: u8, bytes: usize, is_last: bool) {
        let Some(index) = self.pick(which, |_, asked| !asked.has_ended) else {
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

    fn end_with_trailers(&mut self, which: u8) {
        if let Some(index) = self.pick(which, |_, asked| !asked.has_ended) {
            self.asked[index].has_ended = true;
            self.client.trailers(self.asked[index].stream);
        }
    }

    /// Responds to a request whose handler waits.
    fn respond(&mut self, which: u8) {
        let waiting: Vec<usize> = (0..self.asked.len())
            .filter(|index| self.owes(&self.asked[*index]))
            .collect();
        let count = waiting.len().max(1);
        let Some(index) = waiting.get(usize::from(which) % count) else {
            return;
        };
        let target = self.asked[*index].target.clone();
        let id = self.server.exchange(&target);
        if matches!(self.asked[*index].kind, Kind::Pushed) {
            let head = Response {
                status: 200,
                ..Response::default()
            };
            let part = |text: &str| Command::Write(text.as_bytes().to_vec());
            self.server.post(id, Command::Begin(head));
            self.server.post(id, part(&target));
            self.server.post(id, part(&target));
            self.server.post(id, Command::Finish);
        } else {
            self.server
                .post(id, Command::Respond(response(200, &target)));
        }
        self.responded.push(target);
    }

    /// Whether the application was called for a request, and owes its response.
    fn owes(&self, asked: &Asked) -> bool {
        let responds_later = matches!(asked.kind, Kind::Later | Kind::Pushed | Kind::Parts);
        let app = &self.server.worker.app;
        let called = app.called.iter().find(|it| it.target == asked.target);
        let is_over = |id| app.aborted.iter().any(|(aborted, _)| *aborted == id);
        responds_later
            && !self.responded.contains(&asked.target)
            && called.is_some_and(|it| !is_over(it.id))
            && (!matches!(asked.kind, Kind::Parts)
                || called.is_some_and(|it| it.content.is_some() || app.content_of(it.id).1))
    }

    /// Every connection has a deadline, an application that owes a response, or a turn that is due.
    fn check(&mut self) {
        let has_deadline = self.server.worker.before_wait().is_some();
        let is_owed = self.asked.iter().any(|asked| self.owes(asked));
        assert!(
            self.server.is_empty() || has_deadline || is_owed,
            "a connection waits for ever"
        );
        self.check_contents();
    }

    /// What handlers have read is what was sent on their streams, in order.
    fn check_contents(&self) {
        for asked in &self.asked {
            let app = &self.server.worker.app;
            let Some(called) = app.called.iter().rfind(|it| it.target == asked.target) else {
                continue;
            };
            let read = match (asked.kind, &called.content) {
                (Kind::Read | Kind::Parts, Some(content)) => (content.clone(), true),
                (Kind::Parts, _) => app.content_of(called.id),
                _ => continue,
            };
            assert!(
                asked.sent.starts_with(read.0.as_bytes()),
                "{}",
                asked.target
            );
            assert!(
                !read.1 || read.0.len() == asked.sent.len(),
                "{}",
                asked.target
            );
        }
    }

    fn finish(&mut self) {
        self.client.announce_window(1 << 24);
        self.client.give(0, 1 << 28);
        for index in 0..self.asked.len() {
            let asked = &mut self.asked[index];
            if !asked.has_ended && !self.client.streams[&asked.stream].is_over() {
                asked.has_ended = true;
                self.client.data(asked.stream, b"", true);
            }
        }
        for _ in 0..400 {
            while self.client.has_pending() {
                self.client.send(usize::MAX);
                self.server.pass();
            }
            self.server.pass();
            self.client.receive();
            self.respond(0);
            let is_ended = self.client.client.is_ended();
            if is_ended || self.client.streams.values().all(|it| it.is_over()) {
                self.client.receive();
                break;
            }
        }
        for asked in &self.asked {
            self.judge(asked);
        }
    }

    /// The response is whole and its own.
    fn judge(&self, asked: &Asked) {
        let arrived = &self.client.streams[&asked.stream];
        let target = &asked.target;
        if self.is_draining
            && self
                .client
                .goaways
                .last()
                .is_some_and(|last| last.0 < asked.stream)
            && !arrived.is_over()
        {
            // The client knows that it was not served, and may repeat it elsewhere.
            return;
        }
        assert!(arrived.is_over(), "{target} has no response: {arrived:?}");
        if arrived.was_cancelled {
            return;
        }
        if let Some(code) = arrived.reset {
            let is_panic = matches!(asked.kind, Kind::Panics);
            let is_right = (is_panic && code == wire::h2::ErrorCode::INTERNAL_ERROR)
                || (self.is_draining && code == wire::h2::ErrorCode::REFUSED_STREAM);
            assert!(is_right, "{target} was reset: {code}");
            return;
        }
        let expected: Vec<u8> = match asked.kind {
            Kind::Now | Kind::Later | Kind::Parts => target.clone().into(),
            Kind::Pushed => format!("{target}{target}").into(),
            Kind::Pulled(parts) => vec![b'p'; 5 * usize::from(parts)],
            Kind::Big(bytes) => vec![b'x'; bytes as usize],
            Kind::Read => asked.sent.clone(),
            Kind::Panics => b"half of a response".to_vec(),
        };
        assert_eq!(arrived.status, 200, "{target}");
        assert!(
            arrived.content == expected,
            "{target}: {}",
            arrived.content.len()
        );
    }

    /// Nobody moves but time. The connection ends by itself.
    fn fall_silent(&mut self) {
        for _ in 0..2000 {
            self.server.pass();
            self.client.receive();
            if self.client.client.is_ended() {
                break;
            }
            let wait_ms = self.server.worker.before_wait();
            self.check();
            let Some(wait_ms) = wait_ms else { break };
            self.clock.fetch_add(wait_ms.max(1), Ordering::Relaxed);
        }
        assert!(
            self.client.client.is_ended(),
            "the connection is open for ever"
        );
    }

    /// When all have ended, nothing is left.
    fn end(mut self) {
        drop(self.client);
        for _ in 0..100 {
            self.server.pass();
            self.clock.fetch_add(1000, Ordering::Relaxed);
        }
        assert!(self.server.is_empty(), "a connection is left");
        assert_eq!(self.server.worker.held_bytes(), 0);
        let aborted = &self.server.worker.app.aborted;
        for (at, (id, _)) in aborted.iter().enumerate() {
            assert!(
                !aborted[..at].iter().any(|(other, _)| other == id),
                "{id:?} aborted twice"
            );
        }
    }
}

fn run(moves: &[Move], is_silent: bool) {
    let mut world = World::new();
    for each in moves {
        world.make(each);
        world.check();
    }
    match is_silent {
        true => world.fall_silent(),
        false => world.finish(),
    }
    world.end();
}

/// `BOLIDE_MODEL_CASES` is how many schedules each test runs.
fn config() -> ProptestConfig {
    let cases = std::env::var("BOLIDE_MODEL_CASES").map_or(Ok(500), |text| text.parse());
    ProptestConfig {
        cases: cases.expect("a number"),
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn what_all_finish_is_whole_and_leaves_nothing(
        moves in prop::collection::vec(moves(), 1..MOVES_MAX)
    ) {
        run(&moves, false);
    }

    #[test]
    fn what_nobody_finishes_ends_by_itself(
        moves in prop::collection::vec(moves(), 1..MOVES_MAX)
    ) {
        run(&moves, true);
    }
}
