//! Cost of sending a file over loopback: the worker compared with a loop that only reads a request and calls sendfile.
//!
//! `cargo bench -p bolide-server --bench file` alternates rounds of both, one client each, and prints the medians. The client's cost is
//! included in both rates, and in neither of the processor times.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};
use server::{
    Abort, App, Command, Config, ExchangeId, FilePart, Mailbox, Outcome, Pulled, Request,
    Responder, Response, Worker,
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n\r\n";
const ROUNDS: usize = 9;
const BYTES_PER_ROUND: u64 = 512 << 20;

/// An application that responds with the file.
struct Sends {
    file: File,
    length: u64,
    mailbox: Arc<Mailbox>,
}

impl App for Sends {
    fn call(&mut self, request: &Request<'_>, _: &mut Responder) -> Outcome {
        let head = Response {
            status: 200,
            length: Some(self.length),
            ..Response::default()
        };
        let part = FilePart {
            file: self.file.try_clone().expect("a free descriptor").into(),
            offset: 0,
            length: self.length,
        };
        self.mailbox.post(request.id, Command::Begin(head));
        self.mailbox.post(request.id, Command::WriteFile(part));
        self.mailbox.post(request.id, Command::Finish);
        Outcome::Pending
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

fn main() {
    for length in [4 << 10, 64 << 10, 1 << 20, 16 << 20] {
        let requests = (BYTES_PER_ROUND / length).min(20_000);
        let (mut ours, mut limit) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            limit.push(Cost::of(length, requests, send_only));
            ours.push(Cost::of(length, requests, serve));
        }
        let kib = length >> 10;
        let _ = writeln!(std::io::stdout(), "{kib} KiB, worker: {}", median(ours));
        let _ = writeln!(std::io::stdout(), "{kib} KiB, sendfile: {}", median(limit));
    }
}

/// The result of one round.
#[derive(Clone, Copy)]
struct Cost {
    megabytes_per_s: f64,
    server_cpu_us_per_request: f64,
}

impl Cost {
    /// Runs `server` on a connection and the file until its client closes.
    fn of(length: u64, requests: u64, server: fn(TcpStream, File, u64)) -> Cost {
        let (ours, theirs) = connect();
        let file = content(length);
        let serving = std::thread::spawn(move || {
            server(theirs, file, length);
            let cpu = clock_gettime(ClockId::ThreadCPUTime);
            cpu.tv_sec as f64 * 1e6 + cpu.tv_nsec as f64 / 1e3
        });
        let start = Instant::now();
        ask(&ours, length, requests);
        let seconds = start.elapsed().as_secs_f64();
        drop(ours);
        let cpu_us = serving.join().expect("the server ends well");
        Cost {
            megabytes_per_s: (length * requests) as f64 / 1e6 / seconds,
            server_cpu_us_per_request: cpu_us / requests as f64,
        }
    }
}

/// The medians of both figures, each sorted on its own.
fn median(costs: Vec<Cost>) -> String {
    let middle = |figure: fn(&Cost) -> f64| {
        let mut figures: Vec<f64> = costs.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or_default()
    };
    let rate = middle(|cost| cost.megabytes_per_s);
    let cpu_us = middle(|cost| cost.server_cpu_us_per_request);
    format!("{rate:.0} MB/s, {cpu_us:.1} us of processor per request")
}

fn connect() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let ours = TcpStream::connect(address).expect("it listens");
    let (theirs, _) = listener.accept().expect("a client waits");
    for socket in [&ours, &theirs] {
        socket.set_nodelay(true).expect("it is TCP");
    }
    (ours, theirs)
}

fn content(length: u64) -> File {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("content", flags).expect("free memory"));
    file.write_all(&vec![b'x'; length as usize])
        .expect("free memory");
    file
}

/// Sends one request after the other.
fn ask(mut socket: &TcpStream, length: u64, requests: u64) {
    let mut buffer = vec![0; 256 << 10];
    for _ in 0..requests {
        socket.write_all(REQUEST).expect("the server accepts");
        let mut head_bytes = None;
        let mut received = 0;
        while head_bytes.is_none_or(|head_bytes| received < head_bytes + length) {
            let count = socket.read(&mut buffer).expect("the server accepts");
            assert!(count > 0, "the server has closed");
            head_bytes = head_bytes.or_else(|| {
                let end = buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n");
                Some(end.expect("a whole head") as u64 + 4)
            });
            received += count as u64;
        }
    }
}

/// The baseline: blocking calls, no parsing.
fn send_only(mut socket: TcpStream, file: File, length: u64) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
    let mut request = [0; 256];
    while socket.read(&mut request).is_ok_and(|count| count > 0) {
        let more = rustix::net::SendFlags::MORE;
        rustix::net::send(&socket, head.as_bytes(), more).expect("the client is connected");
        let mut at = 0;
        while at < length {
            let count = (length - at) as usize;
            rustix::fs::sendfile(&socket, &file, Some(&mut at), count).expect("the client reads");
        }
    }
}

fn serve(socket: TcpStream, file: File, length: u64) {
    let mailbox = Arc::new(Mailbox::default());
    let app = Sends {
        file,
        length,
        mailbox: Arc::clone(&mailbox),
    };
    let mut worker = Worker::new(app, Config::default(), None, mailbox).expect("an epoll set");
    worker.adopt(socket.into()).expect("a usable socket");
    while !worker.is_empty() {
        let wait_ms = worker.before_wait();
        worker.wait(wait_ms).expect("the epoll set works");
        worker.dispatch();
    }
}
