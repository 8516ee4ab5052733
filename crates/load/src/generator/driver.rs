//! The loop: sockets, time and the order of things.

use std::io;

use net::{Events, Interrupted, Poller, Readiness, Received, Sent, precise_ns};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::checker::{Checked, Checker};
use super::connection::{Connection, Stage};
use super::dial::Destination;
use super::report::{Ending, Report};
use super::tally::{ErrorClass, Tally};
use super::{Limit, Options};

/// Large enough that a deep batch of answers arrives in one read.
const RECEIVE_BUFFER_BYTES: usize = 256 * 1024;
const EVENTS_MAX: usize = 256;
/// How often timeouts are looked for and failed connections opened anew.
const SWEEP_NS: u64 = 50_000_000;
/// Connections that may be open and unheard of at the start: a listener's backlog may be as small as 100.
const OPENING_MAX: usize = 100;
/// How long the start may take until the loop runs with what is open.
const RAMP_NS: u64 = 1_000_000_000;
/// An incomplete head longer than this is no head.
const EARLY_BYTES_MAX: usize = 64 * 1024;

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

/// The measured time.
struct Window {
    start_ns: u64,
    end_ns: u64,
    start_cpu_ns: u64,
    is_warm: bool,
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
        let mut events = Events::with_capacity(EVENTS_MAX);
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
            if self
                .poller
                .wait(&mut events, Some(wait_ns.div_ceil(1_000_000)))?
                == Interrupted(true)
            {
                break;
            }
            for index in 0..events.len() {
                if let Some(readiness) = events.get(index) {
                    self.serve(readiness);
                }
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
        if readiness.writable {
            self.flush(index);
        }
        if readiness.readable || readiness.hung_up {
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

    /// Sends what is left of the batch.
    fn flush(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let Some(socket) = &connection.socket else {
            return;
        };
        if connection.unsent > 0 {
            if connection.unsent == connection.batch_len && self.options.is_persistent {
                connection.sent_ns = precise_ns();
            }
            match socket.send(connection.unsent(&self.requests)) {
                Sent::Bytes(count) => connection.unsent -= count,
                Sent::Broken(error) => return self.break_off(index, &error),
            }
        }
        self.watch(index);
    }

    /// Makes the poller wait for what the connection waits for.
    fn watch(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let wanted = connection.wanted_interest();
        if wanted == connection.interest {
            return;
        }
        connection.interest = wanted;
        let Some(socket) = &connection.socket else {
            return;
        };
        if self.poller.modify(socket, index as u64, wanted).is_err() {
            self.fail(index, ErrorClass::Connect);
        }
    }

    fn receive(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let Some(socket) = &connection.socket else {
            return;
        };
        let kept = connection.early.len();
        let Some(free) = self.buffer.get_mut(kept..) else {
            return self.fail(index, ErrorClass::Malformed);
        };
        match socket.receive(free) {
            Received::Bytes(count) => {
                if let Some(front) = self.buffer.get_mut(..kept) {
                    front.copy_from_slice(&connection.early);
                    connection.early.clear();
                }
                self.tally.bytes += count as u64;
                self.check(index, kept + count);
            }
            Received::Blocked => {}
            Received::End => self.end(index),
            Received::Broken(error) => self.break_off(index, &error),
        }
    }

    /// Judges the first `len` bytes of the buffer and does what follows from them.
    fn check(&mut self, index: usize, len: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if let Stage::Ending { was_good } = connection.stage {
            self.tally.unexpected_bytes(was_good);
            return self.leave(index);
        }
        let now_ns = precise_ns();
        let data = self.buffer.get(..len).unwrap_or_default();
        let checked = self
            .checker
            .check(&mut connection.answer, data, connection.outstanding);
        let rest = data.get(checked.consumed..).unwrap_or_default();
        let keeps_rest = !checked.malformed && rest.len() <= EARLY_BYTES_MAX;
        let surplus = checked.closes || checked.answers() == connection.outstanding;
        if !rest.is_empty() && !surplus && keeps_rest {
            connection.early.extend_from_slice(rest);
        }
        let is_surplus = surplus && !rest.is_empty();
        self.count(index, &checked, now_ns);
        if is_surplus {
            self.tally.unexpected_bytes(checked.good > 0);
            self.leave(index);
        } else if !keeps_rest {
            self.fail(index, ErrorClass::Malformed);
        } else {
            self.go_on(index, &checked, now_ns);
        }
    }

    /// Enters verdicts into the tally.
    fn count(&mut self, index: usize, checked: &Checked, now_ns: u64) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let answers = checked.answers();
        if answers == 0 {
            return;
        }
        connection.outstanding -= answers;
        self.under_way -= u64::from(answers);
        let latency_ns = now_ns.saturating_sub(connection.sent_ns);
        self.tally.good(checked.good, latency_ns);
        if answers > checked.good {
            let errors = &mut self.tally.errors;
            errors.add(ErrorClass::WrongStatus, u64::from(checked.wrong_status));
            errors.add(ErrorClass::WrongLength, u64::from(checked.wrong_length));
        }
        if connection.stage == Stage::Opening {
            connection.stage = Stage::Open;
            self.heard += 1;
            self.open_next();
        }
    }

    /// After answers: the next batch, the end of the connection, or nothing yet.
    fn go_on(&mut self, index: usize, checked: &Checked, now_ns: u64) {
        let is_ramping = self.is_ramping();
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if checked.closes {
            // What was pipelined behind the last answer is not answered any more; it is asked again elsewhere.
            self.take_back_batch(index);
            if let Some(connection) = self.connections.get_mut(index) {
                connection.stage = Stage::Ending {
                    was_good: checked.good > 0,
                };
                connection.sent_ns = now_ns;
            }
        } else if connection.outstanding > 0 || is_ramping {
            // Nothing to do until more is received, or until the start is over.
        } else if !self.options.is_persistent || self.credit == 0 {
            self.leave(index);
        } else {
            connection.sent_ns = now_ns;
            self.begin_batch(index);
            self.flush_next(index);
        }
    }

    fn is_done(&self) -> bool {
        self.credit == 0 && self.under_way == 0
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

    /// Sends a new batch whose time is stamped already.
    fn flush_next(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let Some(socket) = &connection.socket else {
            return;
        };
        match socket.send(connection.unsent(&self.requests)) {
            Sent::Bytes(count) => {
                connection.unsent -= count;
                if connection.unsent > 0 {
                    self.watch(index);
                }
            }
            Sent::Broken(error) => self.break_off(index, &error),
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

    /// The server ended its sending side.
    #[cold]
    fn end(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if matches!(connection.stage, Stage::Ending { .. }) {
            return self.leave(index);
        }
        if connection.answer.ends_with_connection() {
            let checked = self.checker.check_end(&mut connection.answer);
            self.count(index, &checked, precise_ns());
            self.take_back_batch(index);
            return self.leave(index);
        }
        self.fail(index, ErrorClass::EarlyEof);
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

impl Window {
    fn new(options: &Options) -> Window {
        let now_ns = precise_ns();
        let ns =
            |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let (warm_up_ns, length_ns) = match options.limit {
            Limit::Duration(length) => (ns(options.warm_up), ns(length)),
            Limit::Requests(_) => (0, u64::MAX),
        };
        let start_ns = now_ns.saturating_add(warm_up_ns);
        Window {
            start_ns,
            end_ns: start_ns.saturating_add(length_ns),
            start_cpu_ns: thread_cpu_ns(),
            is_warm: warm_up_ns == 0,
        }
    }

    /// The warm-up is over. The pass that noticed may have been late: the measured time keeps its length.
    fn begin(&mut self, now_ns: u64) {
        self.end_ns = self.end_ns.saturating_add(now_ns - self.start_ns);
        self.start_ns = now_ns;
        self.start_cpu_ns = thread_cpu_ns();
        self.is_warm = true;
    }

    fn next_ns(&self) -> u64 {
        if self.is_warm {
            self.end_ns
        } else {
            self.start_ns
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

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
