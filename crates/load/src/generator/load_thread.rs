//! One thread's loop: sockets, timing and the order of work.
//!
//! [`exchange`] sends batches and receives their responses, [`frames`] is what HTTP/2 changes about that, [`messages`] is WebSocket, [`dialling`] opens and closes connections, [`arrivals`] is the open loop,
//! [`closing`] is which side closes, [`opening`] is the pace of the start, [`secure`] is what TLS adds, [`surplus`] looks for responses that no request asked for.

mod arrivals;
mod closing;
mod dialling;
mod exchange;
mod frames;
mod messages;
mod opening;
mod secure;
mod surplus;
#[cfg(test)]
mod tests;
mod unfinished;
mod window;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use net::{Events, Poller, Readiness, TlsClientConfig, precise_ns};

use wire::websocket::Inflaters;

use super::board::Board;
use super::channel::Messages;
use super::checker::{Checker, Kind};
use super::connection::{Connection, Stage, Stamp};
use super::dial::Destination;
use super::mix::Mix;
use super::schedule::Schedule;
use super::series::{SECOND_NS, Series};
use super::session::{Job, Requests};
use super::tally::{Rules, Tally};
use super::{Limit, Plan, Shape};
use crate::Histogram;
use arrivals::Backlog;
use closing::Closing;
use opening::Opening;
use window::Window;

/// Large enough that the responses to a deep batch arrive in one read.
const RECEIVE_BUFFER_BYTES: usize = 256 * 1024;
/// How often to check for conditions that no event reports.
const TICK_NS: u64 = 10_000_000;
/// The number of ticks in which all connections are checked once and counts are published.
const SWEEP_TICKS: usize = 5;
/// Maximum number of connections being opened at the start: a listener's backlog may be as small as 100.
const OPENING_MAX: usize = 100;
/// How long before a request is due the thread wakes up. A thread that sleeps until then is 10 to 30 us late, and wakes with cold caches.
const SPIN_NS: u64 = 50_000;

/// What all threads of a run share.
pub(super) struct Common {
    pub(super) plan: Plan,
    pub(super) mix: Mix,
    /// What is sent over HTTP/2.
    pub(super) requests: Requests,
    /// What is sent over WebSocket.
    pub(super) messages: Option<Messages>,
    pub(super) kinds: Arc<[Kind]>,
    pub(super) board: Board,
    pub(super) tls: Option<TlsClientConfig>,
}

impl Common {
    /// # Errors
    /// If a request or a file of the plan cannot be used; the message says why.
    pub(super) fn new(plan: Plan) -> Result<Common, String> {
        let tls = plan.tls.as_ref().map(|it| it.config(plan.protocol));
        Ok(Common {
            mix: Mix::new(&plan)?,
            requests: Requests::new(&plan),
            messages: Messages::new(&plan)?,
            kinds: plan.requests.iter().map(Kind::new).collect(),
            board: Board::new(plan.threads, plan.is_gated),
            tls: tls.transpose()?,
            plan,
        })
    }

    /// What sessions share.
    #[inline]
    pub(super) fn job(&self) -> Job<'_> {
        Job {
            mix: &self.mix,
            kinds: &self.kinds,
            requests: &self.requests,
            messages: self.messages.as_ref(),
        }
    }
}

/// The results of one thread.
pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) series: Series,
    pub(super) unfinished: u64,
    /// For how long they have been sent or, in an open loop, due.
    pub(super) unfinished_ns: Histogram,
    /// Open loop: requests that were due in the measured time.
    pub(super) offered: u64,
    /// Open loop: those of them that were due while no connection was free.
    pub(super) waited: u64,
    pub(super) backlog: Backlog,
    pub(super) opened: u64,
    /// Connections that were open when the measured time started; `None`: the load did not wait for them.
    pub(super) open_at_start: Option<u64>,
    /// HTTP/2: the fewest streams that the server allows on a connection; `None`: any number.
    pub(super) streams_allowed: Option<u32>,
    /// Correct responses of each connection that had a request.
    pub(super) served: Vec<u64>,
    pub(super) length_ns: u64,
    pub(super) cpu_ns: u64,
    /// The time that it waited for a processor; `None`: the kernel does not report that.
    pub(super) wait_ns: Option<u64>,
    pub(super) start_late_ns: Option<u64>,
    pub(super) was_stopped: bool,
}

pub(super) struct LoadThread {
    common: Arc<Common>,
    index: usize,
    destination: Destination,
    tls: Option<TlsClientConfig>,
    poller: Poller,
    connections: Vec<Connection>,
    checker: Checker,
    inflaters: Inflaters,
    tally: Tally,
    series: Series,
    window: Window,
    buffer: Box<[u8]>,
    timeout_ns: u64,
    /// The time of the last reading of the clock.
    now_ns: u64,
    /// Since when this thread has been awake with nothing to do.
    idle_since_ns: Option<u64>,
    /// Closed loop: requests that may still be started.
    credit: u64,
    /// Requests that have started and have neither got a response nor failed.
    under_way: u64,
    /// The position of the next request in the mix.
    cursor: u32,
    /// The current target for the number of connections.
    target: usize,
    /// Connections from this index on were never opened.
    unopened: usize,
    /// Connections that were opened for the first time, and that the server may not have accepted yet.
    opening: usize,
    pace: Opening,
    opened: u64,
    /// Until then the open connections wait for the others, so that all of them get opened.
    opening_end_ns: Option<u64>,
    /// The connections are open, and the load waits for its start.
    awaits_start: bool,
    /// How long after its start the load that waited for it started.
    start_late_ns: Option<u64>,
    tick: usize,
    /// Open loop: when requests are due, and when the next one is.
    schedule: Option<Schedule>,
    due_ns: u64,
    alarm_ns: u64,
    offered: u64,
    waited: u64,
    backlog: Backlog,
    /// Closed loop: requests that have to be sent again, because a server ended their connections without processing them.
    requeued: VecDeque<Stamp>,
    /// Open loop: due times of requests that got no response without having failed.
    rescheduled: VecDeque<u64>,
    /// Open loop: connections that can take a request, the one that has waited longest first.
    free: VecDeque<u32>,
    /// Open loop: connections of this pass that failed while they were opened for a request.
    dials_failed: u32,
    closing: Closing,
    /// Connections that may have more to read, which no event will report, and whether their servers have ended.
    unread: Vec<(usize, bool)>,
    /// Open loop: the measured time is over, and no request is due any more.
    is_draining: bool,
    /// The load is over, and nothing more is sent.
    is_over: bool,
    /// It was ended before its plan was.
    was_stopped: bool,
}

impl LoadThread {
    /// The load of thread `index`.
    ///
    /// # Errors
    /// If no descriptor is left for the poller, or the path of a UNIX socket is too long.
    pub(super) fn new(common: Arc<Common>, index: usize) -> io::Result<LoadThread> {
        let plan = &common.plan;
        let share = |total| plan.share(total, index);
        let schedule = schedule(plan, index);
        let rules = Rules {
            is_open_loop: schedule.is_some(),
            deadline_ns: plan.deadline.map_or(u64::MAX, |it| it.as_nanos() as u64),
        };
        let mut connections = Vec::new();
        let connection = || Connection::new(common.job(), plan.protocol);
        connections.resize_with(share(plan.connections as u64) as usize, connection);
        let pace = Opening::new(plan, precise_ns());
        Ok(LoadThread {
            index,
            destination: Destination::new(&plan.address)?,
            tls: secure::own_config(&common),
            poller: Poller::new()?,
            checker: Checker::new(Arc::clone(&common.kinds)),
            inflaters: Inflaters::default(),
            tally: Tally::new(rules),
            series: Series::default(),
            window: Window::new(plan),
            buffer: vec![0; RECEIVE_BUFFER_BYTES].into_boxed_slice(),
            timeout_ns: plan.timeout.as_nanos().try_into().unwrap_or(u64::MAX),
            now_ns: precise_ns(),
            idle_since_ns: None,
            credit: plan.requests_total().map_or(u64::MAX, share),
            under_way: 0,
            // Threads start at different positions of the cycle.
            cursor: common.mix.advanced(0, plan.thread_number(index) as u32),
            target: connections.len(),
            connections,
            unopened: 0,
            opening: 0,
            opened: 0,
            opening_end_ns: Some(pace.end_ns(precise_ns())),
            pace,
            awaits_start: false,
            start_late_ns: None,
            tick: 0,
            schedule,
            due_ns: u64::MAX,
            alarm_ns: u64::MAX,
            offered: 0,
            waited: 0,
            backlog: Backlog::default(),
            requeued: VecDeque::new(),
            rescheduled: VecDeque::new(),
            free: VecDeque::new(),
            dials_failed: 0,
            closing: Closing::default(),
            unread: Vec::new(),
            is_draining: false,
            is_over: false,
            was_stopped: false,
            common,
        })
    }

    /// Generates load until the end of the plan.
    ///
    /// # Errors
    /// If the poller fails.
    pub(super) fn run(mut self) -> io::Result<Outcome> {
        let mut events = Events::default();
        let mut next_tick_ns = 0;
        loop {
            self.begin_pass();
            if self.now_ns >= next_tick_ns {
                if !self.tick() {
                    break;
                }
                let next_phase_ns = self.window.next_phase_ns(self.now_ns);
                next_tick_ns = next_phase_ns.min(self.now_ns + TICK_NS);
            }
            if self.is_done() {
                break;
            }
            self.fire();
            self.poll(&mut events, next_tick_ns)?;
            self.serve_all(&events);
        }
        self.outcome(&mut events)
    }

    fn begin_pass(&mut self) {
        self.now_ns = precise_ns();
        self.dials_failed = 0;
        if let Some(since_ns) = self.idle_since_ns.take() {
            self.window.idle_ns += self.now_ns.saturating_sub(since_ns);
        }
    }

    /// Waits for events. A thread that stays awake, because a request is due soon, is idle from here on if there are none.
    fn poll(&mut self, events: &mut Events, next_tick_ns: u64) -> io::Result<()> {
        let wait_ms = self.wait_ms(next_tick_ns)?;
        let is_awake = wait_ms == 0 && !self.common.plan.is_sleepless && self.unread.is_empty();
        let before_ns = is_awake.then(precise_ns);
        self.poller.wait(events, Some(wait_ms))?;
        self.idle_since_ns = before_ns.filter(|_| events.get(0).is_none());
        Ok(())
    }

    /// The maximum length of the next wait; sets the alarm for anything due earlier.
    fn wait_ms(&mut self, next_tick_ns: u64) -> io::Result<u64> {
        // If no connection is free, a due request waits for one, not for its time.
        let due_ns = match self.free.is_empty() {
            true => u64::MAX,
            false => self.due_ns,
        };
        let is_near = due_ns < self.now_ns.saturating_add(SPIN_NS);
        if self.common.plan.is_sleepless || is_near || !self.unread.is_empty() {
            return Ok(0);
        }
        if self.schedule.is_some() && due_ns != self.alarm_ns {
            let wake_ns = (due_ns < u64::MAX).then(|| due_ns.saturating_sub(SPIN_NS));
            self.poller.set_alarm_at(wake_ns)?;
            self.alarm_ns = due_ns;
        }
        let left_ns = next_tick_ns.saturating_sub(self.now_ns);
        // The load does not start up to a millisecond late.
        let starts_next = self.awaits_start && next_tick_ns == self.window.origin_ns;
        Ok(match starts_next {
            true => left_ns / 1_000_000,
            false => left_ns.div_ceil(1_000_000),
        })
    }

    fn serve_all(&mut self, events: &Events) {
        let unread = std::mem::take(&mut self.unread);
        for readiness in events.iter() {
            self.serve(*readiness);
        }
        for (index, has_ended) in unread {
            self.receive(index, has_ended);
        }
    }

    fn serve(&mut self, readiness: Readiness) {
        let index = readiness.token as usize;
        if readiness.is_writable() && !readiness.is_hung_up() {
            self.writable(index);
        }
        if readiness.is_readable() || readiness.is_hung_up() {
            self.receive(index, readiness.has_ended());
        }
        if self.due_ns <= self.now_ns {
            self.fire();
        }
    }

    /// Checks for conditions that no event reports; false: the time is over.
    #[cold]
    fn tick(&mut self) -> bool {
        if self.common.board.is_stopped() {
            self.was_stopped = true;
            return false;
        }
        self.tick += 1;
        self.start_window();
        let now_ns = self.now_ns;
        self.window.note_start(now_ns);
        self.note_start();
        self.start_load();
        self.note_backlog();
        if now_ns >= self.window.second_end_ns && now_ns < self.window.end_ns {
            self.end_second();
        } else if self.tick.is_multiple_of(SWEEP_TICKS) {
            self.publish();
        }
        if now_ns >= self.window.end_ns {
            // Requests outstanding in an open loop belong to the measured time, and so do those that have just become due and can be sent.
            self.fire();
            self.is_draining = true;
            self.look_ahead();
            let drain_end_ns = self.window.end_ns.saturating_add(self.timeout_ns);
            if self.schedule.is_none() || self.under_way == 0 || now_ns >= drain_end_ns {
                return false;
            }
        }
        let since = |start_ns| Duration::from_nanos(now_ns.saturating_sub(start_ns));
        let (since_start, measured) = (since(self.window.origin_ns), since(self.window.start_ns));
        if let Some(all) = self.common.plan.connections_at(since_start, measured) {
            let threads = self.common.plan.threads_all();
            let number = self.common.plan.thread_number(self.index);
            self.target = (all.round() as usize + threads - 1 - number) / threads;
        }
        self.settle_accepted();
        self.fill();
        self.sweep();
        self.time_out_due();
        true
    }

    /// Makes sure that the start is known when all threads have opened their connections.
    fn start_window(&mut self) {
        let is_over = |end_ns| self.is_open() || self.now_ns >= end_ns;
        if !self.awaits_start && self.opening_end_ns.is_some_and(is_over) {
            self.common.board.has_opened(self.common.plan.threads);
            self.awaits_start = true;
            // With one thread, the start is now.
            self.now_ns = precise_ns();
        }
        if !self.window.is_known()
            && let Some(origin_ns) = self.common.board.origin_ns()
        {
            self.window.set(origin_ns);
            (self.tally.start_ns, self.tally.end_ns) = (self.window.start_ns, self.window.end_ns);
            self.look_ahead();
        }
    }

    /// Starts the load when its time has come, at the same moment in all threads.
    fn start_load(&mut self) {
        if self.awaits_start && self.now_ns >= self.window.origin_ns {
            self.awaits_start = false;
            self.opening_end_ns = None;
            if self.common.plan.is_gated {
                self.start_late_ns = Some(self.now_ns - self.window.origin_ns);
            }
            self.resume();
        }
    }

    fn end_second(&mut self) {
        self.publish();
        let mut table = self.common.board.seconds();
        let (ok, errors) = (self.tally.arrived(), &self.tally.errors);
        self.series.end_second(ok, errors, &mut table);
        drop(table);
        self.window.second_end_ns = self.window.second_end_ns.saturating_add(SECOND_NS);
    }

    /// Publishes what has been counted since the last time.
    fn publish(&mut self) {
        let tally = &mut self.tally;
        self.series.add(&tally.recent_ns);
        let mut live = self.common.board.live();
        live.take(self.index, tally.ok, tally.errors, &tally.recent_ns);
        tally.recent_ns.clear();
    }

    /// Whether every request got its response or failed, and no unexpected bytes can follow a response.
    fn is_done(&self) -> bool {
        let is_all = self.under_way == 0
            && match self.schedule {
                Some(_) => self.window.is_known() && self.due_ns == u64::MAX,
                None => self.credit == 0,
            };
        let is_ending = |it: &Connection| matches!(it.stage, Stage::Ending { .. });
        is_all
            && self.common.plan.requests_total().is_some()
            && !self.connections.iter().any(is_ending)
    }

    fn outcome(mut self, events: &mut Events) -> io::Result<Outcome> {
        let (length_ns, cpu_ns) = self.window.spent_ns();
        let wait_ns = self.window.waited_ns();
        if self.backlog.end.is_none() && self.window.is_known() {
            self.waited += self.overdue_without_connection();
        }
        let mut unfinished_ns = self.ages_under_way_ns();
        let overdue_ns = self.ages_overdue_ns();
        let overdue = overdue_ns.total();
        unfinished_ns.merge(&overdue_ns);
        unfinished_ns.merge(&self.tally.unfinished_ns);
        let (under_way, offered) = (self.under_way, self.offered);
        self.await_surplus(events)?;
        match self.backlog.end {
            // What arrived after the measured time belongs to none of its seconds.
            Some(_) => {
                self.series.add(&self.tally.drained_ns);
                self.series.end_rest();
            }
            None => self.end_second(),
        }
        let incomplete = self.connections.iter();
        let incomplete = incomplete.map(|it| u64::from(it.incomplete(self.common.job())));
        self.tally.requests_sent -= incomplete.sum::<u64>();
        let allowed = self
            .connections
            .iter()
            .filter_map(|it| it.streams_allowed());
        let streams_allowed = allowed.min();
        let with_settings = self.connections.iter().filter(|it| it.has_settings());
        self.tally.settings_received += with_settings.count() as u64;
        let job = self.common.job();
        self.connections
            .iter_mut()
            .for_each(|it| it.disconnect(job));
        let used = self.connections.iter().filter(|it| it.is_used);
        Ok(Outcome {
            unfinished: under_way + overdue + self.tally.unfinished_ns.total(),
            unfinished_ns,
            offered: offered + overdue,
            waited: self.waited,
            backlog: self.backlog,
            opened: self.opened,
            open_at_start: self.pace.open_at_start,
            streams_allowed,
            served: used.map(|it| it.served).collect(),
            length_ns,
            cpu_ns,
            wait_ns,
            start_late_ns: self.start_late_ns,
            was_stopped: self.was_stopped,
            tally: self.tally,
            series: self.series,
        })
    }
}

/// The schedule of one thread in an open loop.
fn schedule(plan: &Plan, index: usize) -> Option<Schedule> {
    use super::plan::Stage;
    let stage = |duration, rate| Stage {
        duration,
        from: rate,
        to: rate,
    };
    let (stages, limit) = match (&plan.shape, plan.limit) {
        (Shape::Rates(stages), _) => {
            let first = stages.first().map_or(0.0, |it| it.from);
            let warm_up = (!plan.warm_up.is_zero()).then(|| stage(plan.warm_up, first));
            (
                warm_up.into_iter().chain(stages.iter().copied()).collect(),
                None,
            )
        }
        (Shape::Rate(rate), Limit::Duration(length)) => {
            let ramp = Stage {
                from: 0.0,
                ..stage(plan.ramp_up, *rate)
            };
            let ramp = (!plan.ramp_up.is_zero()).then_some(ramp);
            let rest = stage(plan.warm_up + length, *rate);
            (ramp.into_iter().chain([rest]).collect(), None)
        }
        (Shape::Rate(rate), Limit::Requests(total)) => {
            let length_s = (total as f64 + 1.0) / rate;
            (
                vec![stage(Duration::from_secs_f64(length_s), *rate)],
                Some(total),
            )
        }
        _ => return None,
    };
    let (number, threads) = (plan.thread_number(index), plan.threads_all());
    Some(Schedule::new(&stages, number, threads, limit))
}
