//! The loop: sockets, time and the order of things.

mod exchange;
mod window;

use std::io;

use net::{Events, Interrupted, Poller, Readiness, Sent, precise_ns};
use rustix::io::Errno;

use super::checker::{Checked, Checker};
use super::connection::{Connection, Stage};
use super::dial::Destination;
use super::old_report::{Ending, Report};
use super::tally::{ErrorClass, Tally};
use super::{Limit, Options};
use window::{Window, thread_cpu_ns};

/// Large enough that a deep batch of answers arrives in one read.
const RECEIVE_BUFFER_BYTES: usize = 256 * 1024;
/// How often timeouts are looked for and failed connections opened anew.
const SWEEP_NS: u64 = 50_000_000;
/// Connections that may be open and unheard of at the start: a listener's backlog may be as small as 100.
const OPENING_MAX: usize = 100;
/// How long the start may take until the loop runs with what is open.
const RAMP_NS: u64 = 1_000_000_000;

pub(super) struct Driver<'a> {
    options: &'a Options,
    destination: Destination,
    poller: Poller,
    connections: Vec<Connection>,
    checker: Checker,
    tally: Tally,
    buffer: Box<[u8]>,
    /// The bytes of a full batch, and of one request.
    requests: Vec<u8>,
    request_len: usize,
    timeout_ns: u64,
    /// Requests that may still be begun.
    credit: u64,
    /// Requests begun and neither answered nor failed.
    under_way: u64,
    /// Connections that were never opened begin at this index.
    unopened: usize,
    opened: u64,
    /// Connections of the first round that answered once.
    heard: usize,
    /// Until then those that answered wait, so that all of many connections come to be open.
    ramp_end_ns: Option<u64>,
}

impl<'a> Driver<'a> {
    pub(super) fn new(options: &'a Options) -> io::Result<Driver<'a>> {
        let request = options.request();
        let mut connections = Vec::new();
        connections.resize_with(options.connections, Connection::new);
        Ok(Driver {
            options,
            destination: Destination::new(&options.address)?,
            poller: Poller::new()?,
            connections,
            checker: Checker::new(
                options.expected_status,
                options.expected_length,
                options.method == "HEAD",
            ),
            tally: Tally::default(),
            buffer: vec![0; RECEIVE_BUFFER_BYTES].into_boxed_slice(),
            requests: request.repeat(options.pipeline_depth as usize),
            request_len: request.len(),
            timeout_ns: options.timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            credit: match options.limit {
                Limit::Requests(count) => count,
                Limit::Duration(_) => u64::MAX,
            },
            under_way: 0,
            unopened: 0,
            opened: 0,
            heard: 0,
            ramp_end_ns: (options.connections > OPENING_MAX).then(|| precise_ns() + RAMP_NS),
        })
    }

    pub(super) fn run(mut self) -> io::Result<Report> {
        let mut window = Window::new(self.options);
        let mut events = Events::default();
        let mut next_sweep_ns = precise_ns() + SWEEP_NS;
        for _ in 0..OPENING_MAX {
            self.open_next();
        }
        loop {
            let now_ns = precise_ns();
            if now_ns >= next_sweep_ns {
                self.sweep(now_ns);
                next_sweep_ns = now_ns + SWEEP_NS;
            }
            if self
                .ramp_end_ns
                .is_some_and(|end_ns| now_ns >= end_ns || !self.is_ramping())
            {
                self.end_ramp(now_ns);
            }
            if !window.is_warm && now_ns >= window.start_ns {
                window.begin(now_ns);
                self.tally.end_warm_up();
            }
            if now_ns >= window.end_ns || self.is_done() {
                break;
            }
            let wait_ns = next_sweep_ns.min(window.next_ns()).saturating_sub(now_ns);
            let wait_ms = match self.options.is_sleepless {
                true => 0,
                false => wait_ns.div_ceil(1_000_000),
            };
            if self.poller.wait(&mut events, Some(wait_ms))? == Interrupted(true) {
                break;
            }
            for readiness in events.iter() {
                self.serve(*readiness);
            }
        }
        Ok(self.report(&window))
    }

    fn report(&self, window: &Window) -> Report {
        let held = |it: &&Connection| matches!(it.stage, Stage::Open | Stage::Ending { .. });
        let ending = Ending {
            seconds: precise_ns().saturating_sub(window.start_ns) as f64 / 1e9,
            cpu_seconds: thread_cpu_ns().saturating_sub(window.start_cpu_ns) as f64 / 1e9,
            unfinished: self.under_way,
            connections_opened: self.opened,
            connections_held: self.connections.iter().filter(held).count() as u64,
        };
        Report::new(&self.tally, &ending)
    }

    fn serve(&mut self, readiness: Readiness) {
        let index = readiness.token as usize;
        if readiness.is_writable() {
            self.flush(index);
        }
        if readiness.is_readable() || readiness.is_hung_up() {
            self.receive(index);
        }
    }

    /// Opens the next connection of the first round, if one is left.
    fn open_next(&mut self) {
        if self.unopened < self.connections.len() {
            self.unopened += 1;
            self.open(self.unopened - 1);
        }
    }

    /// Opens a connection and sends its first batch as soon as it can.
    fn open(&mut self, index: usize) {
        if self.credit == 0 {
            return;
        }
        let source = self.options.source(self.opened as usize);
        let dialled = self.destination.connect(source);
        self.begin_batch(index);
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let socket = match dialled {
            Ok(socket) => socket,
            Err(error) => return self.fail(index, class_of(error)),
        };
        self.opened += 1;
        connection.stage = Stage::Opening;
        connection.sent_ns = precise_ns();
        // Towards loopback the handshake is over when connect returns: most first batches leave here.
        match socket.send(connection.unsent(&self.requests)) {
            Sent::Bytes(count) => connection.unsent -= count,
            Sent::Broken(error) => return self.break_off(index, &error),
        }
        connection.interest = connection.wanted_interest();
        let watched = self.poller.add(&socket, index as u64, connection.interest);
        connection.socket = Some(socket);
        if watched.is_err() {
            self.fail(index, ErrorClass::Connect);
        }
    }

    /// Takes a batch's worth of credit.
    fn begin_batch(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let count = u64::from(self.options.pipeline_depth).min(self.credit);
        self.credit -= count;
        self.under_way += count;
        connection.outstanding = count as u32;
        connection.batch_len = count as usize * self.request_len;
        connection.unsent = connection.batch_len;
    }

    /// Every request is answered or failed, and nothing can follow an answer any more.
    fn is_done(&self) -> bool {
        let is_ending = |it: &Connection| matches!(it.stage, Stage::Ending { .. });
        self.credit == 0 && self.under_way == 0 && !self.connections.iter().any(is_ending)
    }

    fn is_ramping(&self) -> bool {
        self.ramp_end_ns.is_some() && self.heard < self.connections.len() && self.credit > 0
    }

    /// The start is over: those that waited begin.
    #[cold]
    fn end_ramp(&mut self, now_ns: u64) {
        self.ramp_end_ns = None;
        for index in 0..self.unopened {
            let is_waiting = |it: &Connection| it.stage == Stage::Open && it.outstanding == 0;
            if self.connections.get(index).is_some_and(is_waiting) {
                self.go_on(index, &Checked::default(), now_ns);
            }
        }
    }

    /// Returns the credit of requests that will not be answered and did not fail.
    fn take_back_batch(&mut self, index: usize) {
        if let Some(connection) = self.connections.get_mut(index) {
            let count = u64::from(connection.outstanding);
            connection.outstanding = 0;
            connection.unsent = 0;
            self.under_way -= count;
            self.credit = self.credit.saturating_add(count);
        }
    }

    #[cold]
    fn break_off(&mut self, index: usize, error: &io::Error) {
        let is_ending = self
            .connections
            .get(index)
            .is_some_and(|it| matches!(it.stage, Stage::Ending { .. }));
        if is_ending {
            return self.leave(index);
        }
        let errno = Errno::from_io_error(error).unwrap_or(Errno::CONNRESET);
        self.fail(index, class_of(errno));
    }

    /// Every request under way on this connection failed. A connection that came about is opened anew at once, another at the next
    /// sweep.
    #[cold]
    fn fail(&mut self, index: usize, class: ErrorClass) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let count = u64::from(connection.outstanding);
        connection.outstanding = 0;
        self.under_way -= count;
        self.tally.errors.add(class, count);
        if connection.stage == Stage::Open {
            self.leave(index);
        } else {
            connection.close(Stage::Failed);
        }
    }

    /// Closes a connection that did what it was for, and opens the next in its place.
    fn leave(&mut self, index: usize) {
        self.take_back_batch(index);
        if let Some(connection) = self.connections.get_mut(index) {
            connection.close(Stage::Closed);
        }
        self.open(index);
    }

    /// Looks after what no event tells of.
    #[cold]
    fn sweep(&mut self, now_ns: u64) {
        for index in 0..self.unopened {
            let Some(connection) = self.connections.get(index) else {
                return;
            };
            let is_late = now_ns.saturating_sub(connection.sent_ns) > self.timeout_ns;
            match connection.stage {
                Stage::Failed | Stage::Closed => self.open(index),
                Stage::Ending { .. } if is_late => self.leave(index),
                Stage::Opening | Stage::Open if is_late && connection.outstanding > 0 => {
                    self.fail(index, ErrorClass::Timeout)
                }
                _ => {}
            }
        }
    }
}

fn class_of(error: Errno) -> ErrorClass {
    match error {
        Errno::CONNREFUSED | Errno::NOENT => ErrorClass::Refused,
        Errno::CONNRESET | Errno::PIPE => ErrorClass::Reset,
        Errno::TIMEDOUT => ErrorClass::Timeout,
        _ => ErrorClass::Connect,
    }
}
