//! The server of one thread: passes of the reactor over its connections.
//!
//! A pass is [`Worker::before_wait`] (commands that handlers posted), [`Worker::wait`] and [`Worker::dispatch`]. The parts are separate so
//! that the owner can release its locks while it waits, and can handle its own descriptors in the same set.
//!
//! Passes are bounded. A connection has a turn of about 10 ms ([`crate::context::share`]); if it has more to do, it goes to the end of the queue of
//! turns. A pass ends after about 20 ms, or 10 if callbacks of the owner's event loop wait, and leaves the rest to the next, so that
//! timers, signals and the event loop are not delayed.

mod accept;
mod handshakes;
mod interlude;
mod mail;
mod pass;
mod queue;
mod reaping;
mod relief;
mod rush;
mod stopping;
mod timers;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use net::{
    Clock, Events, Interest, Interrupted, Numbers, Peer, Poller, Ranking, TimerWheel, TlsConfig,
    Token, Transport, descriptors_max, memory,
};
use slab::Slab;

use self::accept::Accepting;
use self::handshakes::Handshakes;
use self::interlude::Postponed;
use self::mail::Bound;
use crate::access_log::AccessLog;
use crate::app::App;
use crate::connection::Connection;
use crate::connection::admission::Surplus;
use crate::context::Context;
use crate::context::admission::AdmissionConfig;
use crate::context::budget::Budget;
use crate::context::metrics::{Metrics, Refusal, Scarce};
use crate::context::proxies::Proxies;
use crate::context::refusal::Refusals;
use crate::context::request_ids::RequestIdConfig;
use crate::context::slow::{Slow, SlowRequests};
use crate::context::slow_routes::SlowRoutes;
use crate::context::websockets::WebSocketConfig;
use crate::id::ConnectionId;
use crate::limits::{Limits, RECEIVE_BYTES};
use crate::link::Fate;
use crate::mailbox::{Mail, Mailbox};
use crate::responder::Stamp;
use crate::responder::batch::{Exit, RESPONSES_MAX};
use crate::timeouts::Timeouts;

/// Space per connection in the receive buffer when several are read before any is served. Not a multiple of 4 KiB: the processor's first
/// cache would keep few of such blocks.
const AHEAD_BYTES: usize = 17 * 1024;
/// Maximum connections that are read before the first of them is served.
const AHEAD_MAX: usize = RESPONSES_MAX;
/// Connections over the limit that are refused with a response at the same time; more are closed without one.
const TURNED_AWAY_MAX: usize = 64;
/// At most one of so many descriptors of the process is a connection that is refused.
const DESCRIPTORS_PER_TURNED_AWAY: u64 = 16;

/// Without this much memory left, a connection is refused. More than a request needs to be started, so that those that are open are served.
const SPARE_BYTES: usize = 2 << 20;
/// Upper bound of what tables beside that of the connections have for each.
const PLACE_BYTES: usize = 64;

/// The reason for closing a connection that left bytes in the send buffer.
const LEFT_OVER: &str = "one connection's responses must never reach another";

/// Connection tokens are smaller: a generation of 31 bits and a key of 32 bits.
const LISTENER: Token = 1 << 63;
const FOREIGN: Token = LISTENER | 1 << 32;
/// Another worker asks this one to accept.
const ASKED: Token = FOREIGN + 1;
const GENERATIONS: u32 = 1 << 31;

/// Settings of a worker.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Limits in bytes and counts.
    pub limits: Limits,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Leave the `Server` field out.
    pub omits_server_field: bool,
    /// Accept HTTP/2 without TLS from clients that start with its preface (RFC 9113 section 3.3).
    pub accepts_prior_knowledge: bool,
    /// Report each TLS handshake that fails, besides their number.
    pub reports_handshakes: bool,
    /// Requests are only sent to https.
    pub redirects_to_https: bool,
    /// WebSockets.
    pub websocket: WebSocketConfig,
    /// Proxies in front of the server.
    pub proxies: Proxies,
    /// The ids of requests, if they have any.
    pub request_ids: Option<RequestIdConfig>,
    /// Applications report for how long requests wait.
    pub logs_waits: bool,
    /// Where requests are entered while their application has not started to respond.
    pub slow: Option<Arc<SlowRequests>>,
    /// Bytes that all connections of a worker may hold; 0 for any amount.
    pub memory_bytes_max: u64,
    /// Limits that are off by default, and bounds by path.
    pub admission: AdmissionConfig,
}

/// A server that runs when its owner calls it, without a thread of its own.
pub struct Worker<A> {
    /// The application.
    pub app: A,
    context: Context,
    poller: Arc<Poller>,
    events: Events,
    /// The first event that has not been served.
    next_event: usize,
    /// Nothing is read ahead until then.
    ahead_rests_until_ms: u64,
    /// Passes since the last one that read everything.
    unread_passes: u32,
    accepting: Accepting,
    connections: Slab<Connection>,
    generation: u32,
    /// Connections among them that exceed the limit; they occupy no place.
    turned_away: usize,
    turned_away_max: usize,
    /// No idle connections are searched for until then.
    reaping_rests_until_ms: u64,
    open: Arc<AtomicUsize>,
    receive: Box<[u8]>,
    mail: VecDeque<Mail>,
    touched: Vec<ConnectionId>,
    /// Connections whose sockets did not accept everything sent between two passes.
    unsent: Vec<ConnectionId>,
    /// Notifications for the application, held until it may be called again.
    postponed: Postponed,
    /// Connections that have more to do, in the order of their turns.
    turns: VecDeque<ConnectionId>,
    handshakes: Handshakes,
    timers: TimerWheel,
    /// The earliest reminder set for each connection key, of whichever connection.
    reminders: Vec<u64>,
    /// Connections whose reminders are due, and that wait for their turn.
    due: Vec<u32>,
}

impl<A: App> Worker<A> {
    /// A worker without listeners. The application posts later responses to `mailbox`.
    ///
    /// # Errors
    /// If no epoll set can be created, or there is no memory for what is counted of clients.
    pub fn new(
        app: A,
        config: Config,
        log: Option<AccessLog>,
        mailbox: Arc<Mailbox>,
    ) -> io::Result<Worker<A>> {
        Worker::with_clock(app, config, log, mailbox, Clock::new())
    }

    /// As [`Worker::new`], with the caller's clock.
    ///
    /// # Errors
    /// As [`Worker::new`].
    pub fn with_clock(
        app: A,
        config: Config,
        log: Option<AccessLog>,
        mailbox: Arc<Mailbox>,
        clock: Clock,
    ) -> io::Result<Worker<A>> {
        net::watch_forks();
        memory::notice_limit();
        let stamp = Stamp::new(!config.omits_server_field, clock.unix_s());
        let now_ms = clock.now_ms();
        let turned_away_max = (descriptors_max() / DESCRIPTORS_PER_TURNED_AWAY) as usize;
        let settings = (config.limits, config.timeouts, config.websocket);
        let mut context = Context::new(settings, stamp, log, clock, mailbox);
        context.accepts_prior_knowledge = config.accepts_prior_knowledge;
        context.proxies = config.proxies;
        context.identify(config.request_ids);
        context.watch(config.slow.map(Slow::new));
        context.budget = Budget::new(config.memory_bytes_max);
        context.refusals = Refusals::with_handshakes(config.reports_handshakes);
        context.refusals.redirects_to_https = config.redirects_to_https;
        context.guard(config.admission, app.has_bounds())?;
        let poller = Poller::new()?;
        if let Some(log) = &context.log {
            log.watch(&poller)?;
        }
        Ok(Worker {
            app,
            context,
            poller: Arc::new(poller),
            events: Events::default(),
            next_event: 0,
            ahead_rests_until_ms: 0,
            unread_passes: 0,
            accepting: Accepting::new(),
            connections: Slab::new(),
            generation: 0,
            turned_away: 0,
            turned_away_max: turned_away_max.clamp(1, TURNED_AWAY_MAX),
            reaping_rests_until_ms: 0,
            open: Arc::default(),
            receive: vec![0; RECEIVE_BYTES.max(AHEAD_MAX * AHEAD_BYTES)].into(),
            mail: VecDeque::new(),
            touched: Vec::new(),
            unsent: Vec::new(),
            postponed: Postponed::default(),
            turns: VecDeque::new(),
            handshakes: Handshakes::default(),
            timers: TimerWheel::new(now_ms),
            reminders: Vec::new(),
            due: Vec::new(),
        })
    }

    /// The set that watches everything.
    pub fn poller(&self) -> Arc<Poller> {
        Arc::clone(&self.poller)
    }

    /// Also watches a foreign set of descriptors: [`Worker::dispatch`] returns true when one of them is ready.
    ///
    /// A separate set, so that a number that its owner reuses never refers to a descriptor of the worker.
    ///
    /// # Errors
    /// If it is watched already, or the system's limit of watches is reached.
    pub fn watch_foreign(&self, set: &Poller) -> io::Result<()> {
        self.poller.add(set, FOREIGN, Interest::READ)
    }

    /// The number of open connections, readable at any time.
    pub fn open_connections(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.open)
    }

    /// Bytes that all connections together hold besides their own records: input that could not be used yet, content, and responses that
    /// wait.
    pub fn held_bytes(&self) -> u64 {
        self.context.budget.held_bytes()
    }

    /// How many requests there have been, whether the application was called for them or they were refused.
    #[inline]
    pub fn requests(&self) -> u64 {
        self.context.requests()
    }

    /// Counts from now on, in numbers that no other worker uses, and ranks slow requests in a ranking of its own.
    pub fn measure(&mut self, numbers: Numbers, ranking: Ranking) {
        self.context
            .measure(Metrics::new(numbers), SlowRoutes::new(ranking));
    }

    /// The application has other routes from now on.
    pub fn routes_changed(&mut self) {
        self.context.guard_routes(self.app.has_bounds());
    }

    /// Writes the access log completely, if it can be written within a second, and ends it.
    pub fn finish_access_log(&mut self) {
        if let Some(mut log) = self.context.end_log() {
            let reports = log.finish();
            self.context.metrics.set_log_missing(log.missing_lines());
            reports.iter().for_each(|line| self.app.warn(line));
        }
    }

    /// Continues the access log, if there is one, in another file.
    pub fn reopen_access_log(&mut self, file: File) {
        if let Some(log) = &mut self.context.log {
            log.reopen(file);
        }
    }

    /// Serves a connection that was accepted elsewhere.
    ///
    /// # Errors
    /// If it cannot be made non-blocking.
    pub fn adopt(&mut self, socket: OwnedFd) -> io::Result<()> {
        self.adopt_transport(Transport::from_blocking(socket)?);
        Ok(())
    }

    /// As [`Worker::adopt`], for a client that uses TLS from its first byte on.
    ///
    /// # Errors
    /// As [`Worker::adopt`].
    pub fn adopt_with_tls(&mut self, socket: OwnedFd, tls: &TlsConfig) -> io::Result<()> {
        self.adopt_transport(Transport::from_blocking(socket)?.with_tls(tls));
        Ok(())
    }

    fn adopt_transport(&mut self, transport: Transport) {
        transport.set_no_delay();
        let (client, server) = (transport.peer(), transport.local());
        self.open(transport, client, server);
    }

    fn keys(&self) -> Vec<usize> {
        self.connections.iter().map(|(key, _)| key).collect()
    }

    /// Executes posted commands, and returns how long the next wait may last (`None`: without limit).
    pub fn before_wait(&mut self) -> Option<u64> {
        let has_mail = self.take_mail(Bound::Pass);
        if let Some(log) = &mut self.context.log {
            log.flush();
            self.context.metrics.set_log_missing(log.missing_lines());
            let reports = log.take_reports();
            reports.iter().for_each(|line| self.app.warn(line));
        }
        let now_ms = self.context.clock.now_ms();
        let reports_in_ms = self.context.report_in_ms(now_ms);
        let reports_in_ms = match reports_in_ms {
            Some(0) => self.report(now_ms),
            _ => reports_in_ms,
        };
        let has_more = has_mail || !self.turns.is_empty() || !self.due.is_empty();
        if has_more || self.has_events() || self.has_handshakes() {
            return Some(0);
        }
        let queue_in_ms = match self.context.has_queue() {
            true => Some(self.queue_wait_ms()),
            false => None,
        };
        let waits_ms = [
            queue_in_ms,
            self.timers.wait_ms(now_ms),
            self.context.orphans.wait_ms(now_ms),
            self.accepting.wait_ms(now_ms),
            reports_in_ms,
            self.relief_wait_ms(now_ms),
        ];
        waits_ms.into_iter().flatten().min()
    }

    /// Reports shortages and refusals that are due. Returns how long the next wait may last until others are.
    #[cold]
    fn report(&mut self, now_ms: u64) -> Option<u64> {
        if self.context.shortages.wait_ms(now_ms) == Some(0) {
            self.report_shortages(now_ms);
        }
        if self.context.refusals.wait_ms(now_ms) == Some(0) {
            self.report_refusals(now_ms);
        }
        self.context.report_in_ms(now_ms)
    }

    fn report_shortages(&mut self, now_ms: u64) {
        for shortage in self.context.shortages.take(now_ms) {
            self.app.lacked_memory(&shortage);
        }
    }

    fn report_refusals(&mut self, now_ms: u64) {
        for line in self.context.refusals.take_handshakes() {
            self.app.handshake_failed(&line);
        }
        let lines = self.context.refusals.take(now_ms, &self.context.limits);
        lines.iter().for_each(|line| self.app.warn(line));
    }

    #[cold]
    fn rank_slow_routes(&mut self) {
        let now_ms = self.context.clock.now_ms();
        let app = &self.app;
        let routes = &mut self.context.slow_routes;
        routes.rank(now_ms, |method_name, path| app.route(method_name, path));
    }

    /// Whether events of the last wait have not been served yet.
    pub fn has_events(&self) -> bool {
        self.events.get(self.next_event).is_some()
    }

    /// Waits until something is ready, at most `timeout_ms`.
    ///
    /// # Errors
    /// If the set itself is broken.
    pub fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<Interrupted> {
        if self.has_events() {
            return Ok(Interrupted(false));
        }
        self.next_event = 0;
        if self.context.slow_routes.are_noted() {
            self.rank_slow_routes();
        }
        let metrics = &mut self.context.metrics;
        metrics.wait_begins(self.context.budget.held_bytes());
        let waited = self.poller.wait(&mut self.events, timeout_ms);
        metrics.wait_ends();
        waited
    }

    /// Adds a connection and reads at once, unless it uses TLS: a new client has usually sent its request already.
    fn open(&mut self, transport: Transport, client: Peer, server: Peer) {
        self.context.metrics.accepted();
        let surplus = self.surplus(&client);
        if let Some(surplus) = surplus {
            self.note_surplus(surplus, &client);
            let is_short = surplus == Surplus::Memory;
            let has_place = !is_short || self.connections.len() < self.connections.capacity();
            // A response would need a handshake.
            let has_place = has_place && !transport.is_secure();
            if self.turned_away >= self.turned_away_max || !has_place {
                // Over TCP, a close with unread input would be a reset.
                transport.shutdown_both();
                return;
            }
        }
        self.turned_away += usize::from(surplus.is_some());
        // Connections served earlier in this pass took time.
        let now_ms = self.context.clock.tick();
        self.generation = (self.generation + 1) % GENERATIONS;
        let entry = self.connections.vacant_entry();
        let key = entry.key();
        let id = ConnectionId {
            key: key as u32,
            generation: self.generation,
        };
        let is_tcp = matches!(client, Peer::Internet(_));
        let transport = Arc::new(Exit::new(transport, id, is_tcp));
        let exits = &mut self.context.responder.batch.exits;
        exits.open(id, Arc::clone(&transport));
        let server = self.context.addresses.shared(server);
        let expects_header = self.context.proxies.expects_header;
        let state = (now_ms, expects_header);
        entry.insert(Connection::new(transport, id, (client, server), state));
        self.open.fetch_add(1, Ordering::Relaxed);
        self.context.metrics.set_open(self.connections.len());
        self.accepting.opened(key, self.admitted(), now_ms);
        if self.reminders.len() <= key {
            self.reminders.resize(key + 1, u64::MAX);
        }
        self.with_connection(key, |connection, context, app, receive| {
            if let Some(surplus) = surplus {
                connection.turn_away(context, app, surplus)
            } else if connection.handshake().is_some() {
                // An event follows, and then its turn among the handshakes.
                Fate::Open
            } else {
                let buffer = receive.get_mut(..RECEIVE_BYTES).unwrap_or_default();
                connection.readable(context, app, buffer, false)
            }
        });
        self.send_before_next();
    }

    /// Why one more connection cannot be served, if so.
    #[inline]
    fn surplus(&mut self, client: &Peer) -> Option<Surplus> {
        if self.is_short() {
            return Some(Surplus::Memory);
        }
        if self.admitted() >= self.connections_max() {
            // Others do not lose their connections for one that is refused.
            if self.context.client_has_all(client) {
                return Some(Surplus::Client);
            }
            if !self.reap(Scarce::Places) {
                return Some(Surplus::Total);
            }
        }
        let key = self.connections.vacant_key();
        (!self.context.takes_client(key, client)).then_some(Surplus::Client)
    }

    #[cold]
    fn note_surplus(&mut self, surplus: Surplus, client: &Peer) {
        let context = &mut self.context;
        match surplus {
            Surplus::Memory => context.note_shortage(SPARE_BYTES),
            Surplus::Total => context.refusals.add_connection(),
            Surplus::Client => return context.refuse_client(client),
        }
        context.metrics.refused(match surplus {
            Surplus::Memory => Refusal::Memory,
            Surplus::Total | Surplus::Client => Refusal::Limit,
        });
    }

    /// The number of connections being served.
    #[inline]
    fn admitted(&self) -> usize {
        self.connections.len() - self.turned_away
    }

    /// Whether too little memory is left for another connection.
    #[inline]
    fn is_short(&self) -> bool {
        let (length, capacity) = (self.connections.len(), self.connections.capacity());
        let grown_bytes = match length < capacity {
            true => 0,
            // Growth doubles a table, and its entries are copied.
            false => 2 * capacity * (size_of::<Connection>() + PLACE_BYTES),
        };
        memory::is_short(SPARE_BYTES + grown_bytes)
    }

    /// The slot of a connection, if it is still open.
    #[inline]
    fn find(&self, id: ConnectionId) -> Option<usize> {
        let connection = self.connections.get(id.key as usize)?;
        (connection.id() == id).then_some(id.key as usize)
    }

    /// Runs one connection's turn; a panic in it ends that connection only.
    #[inline]
    fn with_connection<F>(&mut self, key: usize, serve: F)
    where
        F: FnOnce(&mut Connection, &mut Context, &mut A, &mut [u8]) -> Fate,
    {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let (context, app) = (&mut self.context, &mut self.app);
        let began_ms = context.clock.now_ms();
        context.share.begin(began_ms);
        context.metrics.turn_begins();
        context.responder.connection = connection.id();
        let receive = &mut self.receive;
        let served = catch_unwind(AssertUnwindSafe(|| {
            serve(connection, context, app, receive)
        }));
        let fate = served.unwrap_or_else(|_| panicked(connection, context, app));
        debug_assert!(context.responder.out.is_empty(), "{LEFT_OVER}");
        let has_left_over = !context.responder.out.is_empty();
        context.responder.out.clear();
        let now_ms = context.clock.tick();
        context.metrics.turn_ends(context.share.sent_bytes());
        let messages = std::mem::take(&mut context.responder.messages.pushed);
        context.metrics.messages_sent(messages);
        if now_ms != began_ms {
            connection.exclude_turn(began_ms, now_ms, context);
        }
        let fate = if has_left_over { Fate::Reset } else { fate };
        if !matches!(fate, Fate::Open | Fate::Again) {
            return self.close(key, fate);
        }
        if fate == Fate::Again && connection.asks_turn() {
            self.turns.push_back(connection.id());
        }
        connection.account(context);
        connection.update_watch(&self.poller, context);
        let deadline_ms = connection.deadline_ms(context);
        if let Some(standing) = self.reminders.get_mut(key)
            && deadline_ms < *standing
        {
            *standing = deadline_ms;
            self.timers.remind(key as u32, deadline_ms);
        }
    }

    fn close(&mut self, key: usize, fate: Fate) {
        if let Some(connection) = self.connections.try_remove(key) {
            self.turned_away -= usize::from(connection.is_turned_away());
            self.context.responder.batch.exits.close(connection.id());
            self.context.connection_ends(connection.id());
            connection.close(&self.poller, &mut self.context, fate);
            self.open.fetch_sub(1, Ordering::Relaxed);
            self.context.metrics.set_open(self.connections.len());
            self.closed(key);
        }
    }
}

impl<A> Drop for Worker<A> {
    /// Closes every connection as [`Worker::stop`] does, without notifying the application.
    fn drop(&mut self) {
        for connection in self.connections.drain() {
            self.context.responder.batch.exits.close(connection.id());
            connection.close(&self.poller, &mut self.context, Fate::Reset);
        }
    }
}

fn panicked<A: App>(connection: &mut Connection, context: &mut Context, app: &mut A) -> Fate {
    context.responder.give_up();
    // The application may panic again when it is notified.
    let abandon = AssertUnwindSafe(|| connection.abandon(context, app));
    match catch_unwind(abandon) {
        Ok(Fate::Open) | Err(_) => Fate::Reset,
        Ok(fate) => fate,
    }
}
