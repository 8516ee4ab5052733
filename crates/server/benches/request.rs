//! Cost of a request without Python: finding its route, and serving it with a worker whose application returns a constant.
//!
//! `cargo bench -p bolide-server` prints nanoseconds per request. To count instructions see `benches/callgrind.py`: the arguments are the
//! name of one case and a number of rounds of 240 requests each.

use std::hint::black_box;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use server::{
    Abort, App, Command, Config, ExchangeId, Fields, Mailbox, Match, Outcome, Parameters, Pulled,
    Request, Responder, Response, Router, Worker,
};
use wire::h2::{Encoder, FRAME_BYTES_MAX, Frame, PREFACE, Parsed, frame};

/// Requests in one send.
const PIPELINED: usize = 24;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n";
/// With `Server` and `Date`.
const RESPONSE_BYTES: usize = 146;
const SENDS_PER_ROUND: usize = 10;

/// An application that returns a constant response, or posts it.
#[derive(Default)]
struct Constant {
    mailbox: Option<Arc<Mailbox>>,
}

impl App for Constant {
    fn call(&mut self, request: &Request<'_>, responder: &mut Responder) -> Outcome {
        if let Some(mailbox) = &self.mailbox {
            let response = Response {
                status: 200,
                content: b"Hello, World!".to_vec(),
                ..Response::default()
            };
            mailbox.post(request.id, Command::Respond(response));
            return Outcome::Pending;
        }
        let fields = Fields::constant(b"Content-Type: text/plain; charset=utf-8\r\n");
        responder.respond(200, fields, b"Hello, World!");
        Outcome::Responded
    }

    fn pull(&mut self, _: ExchangeId, _: &mut Vec<u8>) -> Pulled {
        Pulled::End
    }

    fn content(&mut self, _: ExchangeId, _: &[u8], _: bool) -> bool {
        true
    }

    fn writable(&mut self, _: ExchangeId) {}

    fn abort(&mut self, _: ExchangeId, _: Abort) {}
}

/// Runs a number of rounds.
type Case = fn(usize);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let rounds = arguments.iter().find_map(|argument| argument.parse().ok());
    let chosen = |name: &str| arguments.iter().any(|argument| argument == name);
    let cases: [(&str, Case); 5] = [
        ("route-literal", |rounds| route(rounds, b"/articles/latest")),
        ("route-parameters", |rounds| {
            route(rounds, b"/users/42/posts/a-first-post");
        }),
        ("serve", serve),
        ("serve-h2", |rounds| serve_h2(rounds, false)),
        ("serve-h2-posted", |rounds| serve_h2(rounds, true)),
    ];
    let all = !cases.iter().any(|(name, _)| chosen(name));
    for (name, case) in cases.into_iter().filter(|(name, _)| all || chosen(name)) {
        let rounds = rounds.unwrap_or(2000);
        let start = Instant::now();
        case(rounds);
        let requests = (rounds * SENDS_PER_ROUND * PIPELINED) as f64;
        let each_ns = start.elapsed().as_secs_f64() * 1e9 / requests;
        let _ = writeln!(std::io::stdout(), "{name}: {each_ns:.1} ns per request");
    }
}

fn route(rounds: usize, path: &[u8]) {
    let mut router = Router::new();
    for pattern in [
        "/",
        "/articles/latest",
        "/users/{id:int}",
        "/users/{id:int}/posts/{slug}",
    ] {
        router.add("GET", pattern).expect("a good pattern");
    }
    let mut parameters = Parameters::default();
    for _ in 0..rounds * SENDS_PER_ROUND * PIPELINED {
        let found = router.find(wire::Method::Get, b"GET", black_box(path), &mut parameters);
        assert!(matches!(found, Match::Route(_)), "it is there");
    }
}

fn serve(rounds: usize) {
    let mailbox = Arc::new(Mailbox::default());
    let mut worker =
        Worker::new(Constant::default(), Config::default(), None, mailbox).expect("an epoll set");
    let (mut client, socket) = UnixStream::pair().expect("a pair of sockets");
    worker.adopt(socket.into()).expect("a usable socket");
    let batch = REQUEST.repeat(PIPELINED);
    let mut responses = vec![0; 65_536];
    for _ in 0..rounds * SENDS_PER_ROUND {
        client.write_all(&batch).expect("the worker is there");
        let mut received = 0;
        // One send carries all responses, unless the machine was so busy that the connection's turn ended between two of them.
        while received < PIPELINED {
            worker.before_wait();
            worker.wait(Some(0)).expect("the epoll set works");
            worker.dispatch();
            let count = client.read(&mut responses).expect("the worker has served");
            received += count / RESPONSE_BYTES;
        }
    }
}

/// The same over HTTP/2. Posted responses are those of streams with a record.
fn serve_h2(rounds: usize, is_posted: bool) {
    let mailbox = Arc::new(Mailbox::default());
    let app = Constant {
        mailbox: is_posted.then(|| Arc::clone(&mailbox)),
    };
    let config = Config {
        accepts_prior_knowledge: true,
        ..Config::default()
    };
    let mut worker = Worker::new(app, config, None, mailbox).expect("an epoll set");
    let (mut client, socket) = UnixStream::pair().expect("a pair of sockets");
    client.set_nonblocking(true).expect("a socket");
    worker.adopt(socket.into()).expect("a usable socket");
    let mut batch = PREFACE.to_vec();
    frame::push_settings(&mut batch, &[]);
    frame::push_window_update(&mut batch, 0, 1 << 30);
    let (mut encoder, mut stream) = (Encoder::new(), 1);
    let mut responses = Vec::new();
    for _ in 0..rounds * SENDS_PER_ROUND {
        for _ in 0..PIPELINED {
            frame::push_headers(&mut batch, stream, true, FRAME_BYTES_MAX, |out| {
                let fields = b"user-agent: bench\r\naccept: */*\r\naccept-encoding: gzip\r\n";
                encoder.request(b"GET", b"http", b"127.0.0.1:8000", b"/", fields, out);
            });
            stream += 2;
        }
        client.write_all(&batch).expect("the worker is there");
        batch.clear();
        let mut complete = 0;
        while complete < PIPELINED {
            worker.before_wait();
            worker.wait(Some(0)).expect("the epoll set works");
            worker.dispatch();
            let _ = client.read_to_end(&mut responses);
            complete += take_responses(&mut responses);
        }
    }
}

/// Removes whole frames. Returns how many of them end a response.
fn take_responses(received: &mut Vec<u8>) -> usize {
    let (mut used, mut complete) = (0, 0);
    while let Ok(Parsed::Frame(frame, length)) = wire::h2::parse(&received[used..], FRAME_BYTES_MAX)
    {
        used += length;
        complete += usize::from(matches!(frame, Frame::Data { is_last: true, .. }));
    }
    received.drain(..used);
    complete
}
