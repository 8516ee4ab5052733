//! One thread's server: the pass of the reactor over its connections.
//!
//! A pass is [`Worker::before_wait`] (what handlers posted meanwhile), [`Worker::wait`], [`Worker::dispatch`]. It is in three parts so
//! that the owner can let go of locks of its own while it waits, and can look after descriptors of its own that are in the same set.

mod pass;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use net::{
    Accepted, Clock, Events, Interest, Interrupted, Listener, Peer, Poller, TimerWheel, Token,
    Transport,
};
use slab::Slab;

use crate::access_log::AccessLog;
use crate::app::{Abort, App, ExchangeId};
use crate::connection::{Connection, Fate};
use crate::exchange::Exchange;
use crate::group::{self, Group};
use crate::limits::Limits;
use crate::mailbox::{Command, Mailbox};
use crate::responder::Stamp;
use crate::timeouts::Timeouts;

/// Bytes that one read may bring: the worker's shared receive buffer.
pub(crate) const RECEIVE_BYTES: usize = 65_536;
/// Bytes of content that one read may bring into the application's memory: the more, the fewer turns for a long content.
pub(crate) const ROOM_BYTES_MAX: usize = 262_144;
/// A send buffer that grew beyond this is given back after use.
pub(crate) const SEND_BUFFER_KEPT_BYTES: usize = 1 << 20;
/// What is read before any of it is served goes side by side into the receive buffer; not in steps of 4 KiB, of which the processor's first
/// cache keeps few.
const AHEAD_BYTES: usize = 17 * 1024;
/// More than this is a batch of requests, or content: it is served before the next connection is read from.
const SINGLE_BYTES_MAX: usize = 768;
/// Connections that are read from before the first of them is served.
const AHEAD_MAX: usize = group::ANSWERS_MAX;
/// Connections accepted from one listener before the others have their turn.
const ACCEPTS_PER_PASS: usize = 256;
/// How long a pass accepts. The first request of a connection is served at once, and an application that takes its time over each must not
/// keep the other connections, the timers and the loop waiting for all of them.
const ACCEPTING_MAX: Duration = Duration::from_millis(10);
/// Connections over the limit that are told so at the same time; beyond that they are closed without a word.
const TURNED_AWAY_MAX: usize = 64;
/// Content handed over in one pass, after which those who wait for it have their turn: so it is still in the processor's cache when they
/// take it, and its memory serves the next part (bench: asgi-upload).
const CONTENT_BYTES_PER_PASS: usize = 2 * ROOM_BYTES_MAX;
/// How long accepting rests when the process has no descriptor left.
const EXHAUSTED_MS: u64 = 250;
/// Rounds of answering handlers that answer at once to what they are told, before sockets have their turn.
const MAILS_PER_PASS: usize = 16;

/// Why what a connection left in the send buffer ends it.
const LEFT_OVER: &str = "one connection's answers must never reach another";

const LISTENER: Token = 1 << 32;
const FOREIGN: Token = 1 << 33;
/// Reminder keys of listeners; connections count up from 0.
const LISTENER_KEY: u32 = u32::MAX - 1024;

/// What a worker is told when it is made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Config {
    /// Bytes and counts.
    pub limits: Limits,
    /// Times.
    pub timeouts: Timeouts,
    /// Leave the `Server` field out.
    pub omits_server_field: bool,
}

/// What connections share, apart from the application.
pub(crate) struct Core {
    pub(crate) limits: Limits,
    pub(crate) head_limits: wire::HeadLimits,
    /// The last field section of any connection: one per worker, so that an idle connection owns none.
    pub(crate) memo: wire::SectionMemo,
    pub(crate) timeouts: Timeouts,
    pub(crate) clock: Clock,
    pub(crate) stamp: Stamp,
    pub(crate) log: Option<AccessLog>,
    /// Answers of the connection that is being served; empty between connections.
    pub(crate) out: Vec<u8>,
    /// What waits for other connections' answers, to leave with them.
    pub(crate) group: Group,
    pub(crate) draining_since_ms: Option<u64>,
    /// Content handed over in this pass.
    pub(crate) content_bytes: usize,
    sequence: u64,
}

impl Core {
    pub(crate) fn is_draining(&self) -> bool {
        self.draining_since_ms.is_some()
    }

    /// Adds an exchange's line to the access log, if there is one.
    pub(crate) fn log(&mut self, exchange: &Exchange) {
        if let (Some(log), Some(record)) = (&mut self.log, &exchange.record) {
            log.add(record, self.clock.unix_s(), self.clock.now_ms());
        }
    }

    #[inline]
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

/// A server without a thread: its owner calls it.
pub struct Worker<A> {
    /// The application.
    pub app: A,
    core: Core,
    poller: Arc<Poller>,
    events: Events,
    /// The first of them that was not served.
    next_event: usize,
    listeners: Vec<ListenerSlot>,
    connections: Slab<Connection>,
    open: Arc<AtomicUsize>,
    receive: Box<[u8]>,
    mailbox: Arc<Mailbox>,
    commands: Vec<(ExchangeId, Command)>,
    touched: Vec<u32>,
    again: Vec<u32>,
    timers: TimerWheel,
    /// The earliest reminder that stands for each connection key.
    reminders: Vec<u64>,
    due: Vec<u32>,
}

struct ListenerSlot {
    listener: Listener,
    /// The address every connection of it reaches; `None` when it listens on all addresses and each has to be asked.
    local: Option<Peer>,
    is_paused: bool,
}

impl<A: App> Worker<A> {
    /// A worker without listeners. `mailbox` is where the application posts what it has to say later.
    ///
    /// # Errors
    /// When no epoll set can be made.
    pub fn new(
        app: A,
        config: Config,
        log: Option<AccessLog>,
        mailbox: Arc<Mailbox>,
    ) -> io::Result<Worker<A>> {
        let clock = Clock::new();
        let core = Core {
            limits: config.limits,
            head_limits: config.limits.head(),
            memo: wire::SectionMemo::new(),
            timeouts: config.timeouts,
            clock,
            stamp: Stamp::new(!config.omits_server_field, clock.unix_s()),
            log,
            out: Vec::new(),
            group: Group::default(),
            draining_since_ms: None,
            content_bytes: 0,
            sequence: 0,
        };
        Ok(Worker {
            app,
            core,
            poller: Arc::new(Poller::new()?),
            events: Events::default(),
            next_event: 0,
            listeners: Vec::new(),
            connections: Slab::new(),
            open: Arc::default(),
            receive: vec![0; RECEIVE_BYTES.max(AHEAD_MAX * AHEAD_BYTES)].into(),
            mailbox,
            commands: Vec::new(),
            touched: Vec::new(),
            again: Vec::new(),
            timers: TimerWheel::new(clock.now_ms()),
            reminders: Vec::new(),
            due: Vec::new(),
        })
    }

    /// The set that everything is watched by.
    pub fn poller(&self) -> Arc<Poller> {
        Arc::clone(&self.poller)
    }

    /// Watches a set of descriptors that are not ours too: [`Worker::dispatch`] tells when one of them is ready.
    ///
    /// A set of their own, so that whatever their owner does with a descriptor's number, it never meets one of ours.
    ///
    /// # Errors
    /// When it is watched already, or the system's limit of watches is reached.
    pub fn watch_foreign(&self, set: &Poller) -> io::Result<()> {
        self.poller.add(set, FOREIGN, Interest::READ)
    }

    /// The number of open connections, to be read at any time.
    pub fn open_connections(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.open)
    }

    /// Replaces the access log; the old one is written to its end.
    pub fn set_access_log(&mut self, log: Option<AccessLog>) {
        self.core.log = log;
    }

    /// Accepts connections from a listening socket from now on.
    ///
    /// # Errors
    /// When it cannot be watched.
    pub fn add_listener(&mut self, socket: OwnedFd) -> io::Result<()> {
        let listener = Listener::new(socket)?;
        self.poller
            .add_shared(&listener, LISTENER | self.listeners.len() as Token)?;
        let local = match listener.local() {
            Peer::Internet(address) if address.ip().is_unspecified() => None,
            local => Some(local),
        };
        self.listeners.push(ListenerSlot {
            listener,
            local,
            is_paused: false,
        });
        Ok(())
    }

    /// Serves a connection that somebody else accepted.
    ///
    /// # Errors
    /// When it cannot be made non-blocking.
    pub fn adopt(&mut self, socket: OwnedFd) -> io::Result<()> {
        let transport = Transport::from_blocking(socket)?;
        transport.set_no_delay();
        let (client, server) = (transport.peer(), transport.local());
        self.open(transport, client, server);
        Ok(())
    }

    /// Stops accepting, and lets every connection end with its next answer, an idle one soon.
    pub fn drain(&mut self) {
        self.core.draining_since_ms = Some(self.core.clock.now_ms());
        // Whoever is connected already, as far as its client knows, is served.
        for index in 0..self.listeners.len() {
            self.accept(index, Duration::MAX);
        }
        self.stop_accepting();
        let keys: Vec<usize> = self.connections.iter().map(|(key, _)| key).collect();
        for key in keys {
            // Its deadline is another one now.
            self.with_connection(key, |_, _, _, _| Fate::Open);
        }
    }

    fn stop_accepting(&mut self) {
        for slot in self.listeners.drain(..) {
            // Closing our copy is not enough: the socket is shared with other processes.
            let _ = self.poller.remove(&slot.listener);
        }
    }

    /// Whether [`Worker::drain`] was called.
    pub fn is_draining(&self) -> bool {
        self.core.is_draining()
    }

    /// Whether no connection is open.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Closes everything now.
    pub fn stop(&mut self) {
        self.stop_accepting();
        self.core.group = Group::default();
        for mut connection in self.connections.drain() {
            connection.close(&mut self.core, &mut self.app, Abort::Disconnected);
        }
        self.open.store(0, Ordering::Relaxed);
    }

    /// Does what handlers posted, and gives how long the next wait may last (`None`: until something happens).
    pub fn before_wait(&mut self) -> Option<u64> {
        for key in std::mem::take(&mut self.again) {
            self.with_connection(key as usize, |connection, core, app, _| {
                connection.goes_again = false;
                connection.settle(core, app)
            });
        }
        // Last: what goes on may call handlers, and nobody else would wake us for what they post.
        let has_mail = self.take_mail();
        if let Some(log) = &mut self.core.log {
            log.flush();
        }
        if has_mail || !self.again.is_empty() || self.has_events() {
            return Some(0);
        }
        self.timers.wait_ms(self.core.clock.now_ms())
    }

    /// Whether the last pass has left something to the next.
    fn has_events(&self) -> bool {
        self.events.get(self.next_event).is_some()
    }

    /// Waits until something is ready, but not longer than `timeout_ms`.
    ///
    /// # Errors
    /// When the set itself is broken.
    pub fn wait(&mut self, timeout_ms: Option<u64>) -> io::Result<Interrupted> {
        if self.has_events() {
            return Ok(Interrupted(false));
        }
        self.next_event = 0;
        self.poller.wait(&mut self.events, timeout_ms)
    }

    /// Runs one connection's part of a pass; a panic in it ends that connection only.
    #[inline]
    fn with_connection<F>(&mut self, key: usize, serve: F)
    where
        F: FnOnce(&mut Connection, &mut Core, &mut A, &mut [u8]) -> Fate,
    {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let (core, app, receive) = (&mut self.core, &mut self.app, &mut self.receive);
        let served = catch_unwind(AssertUnwindSafe(|| serve(connection, core, app, receive)));
        let fate = served.unwrap_or_else(|_| panicked(connection, core, app));
        debug_assert!(core.out.is_empty(), "{LEFT_OVER}");
        let has_left_over = !core.out.is_empty();
        core.out.clear();
        if fate == Fate::Close || has_left_over {
            self.connections.remove(key);
            self.open.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        if fate == Fate::Again && !std::mem::replace(&mut connection.goes_again, true) {
            self.again.push(connection.key);
        }
        let wanted = connection.wanted_interest();
        if connection.interest != Some(wanted) || std::mem::take(&mut connection.may_have_more) {
            watch(&self.poller, connection, wanted);
        }
        let deadline_ms = connection.deadline_ms(core);
        if let Some(standing) = self.reminders.get_mut(key)
            && deadline_ms < *standing
        {
            *standing = deadline_ms;
            self.timers.remind(connection.key, deadline_ms);
        }
    }

    fn accept(&mut self, index: usize, most: Duration) {
        let began = Instant::now();
        for _ in 0..ACCEPTS_PER_PASS {
            let Some(slot) = self.listeners.get_mut(index) else {
                return;
            };
            match slot.listener.accept() {
                Accepted::Connection(transport, client) => {
                    let server = slot.local.unwrap_or_else(|| transport.local());
                    self.open(transport, client, server);
                    if began.elapsed() >= most {
                        // The listener is reported again.
                        return;
                    }
                }
                Accepted::None => return,
                Accepted::Lost => {}
                Accepted::Exhausted(_) => {
                    slot.is_paused = self.poller.remove(&slot.listener).is_ok();
                    let again_ms = self.core.clock.now_ms() + EXHAUSTED_MS;
                    self.timers.remind(LISTENER_KEY + index as u32, again_ms);
                    return;
                }
            }
        }
    }

    /// Takes a connection in, and reads at once: a new client has mostly sent its request already.
    fn open(&mut self, transport: Transport, client: Peer, server: Peer) {
        let surplus =
            (self.connections.len() + 1).saturating_sub(self.core.limits.connections_max as usize);
        if surplus > TURNED_AWAY_MAX {
            return;
        }
        let entry = self.connections.vacant_entry();
        let key = entry.key();
        entry.insert(Connection::new(
            transport,
            client,
            server,
            key as u32,
            self.core.clock.now_ms(),
        ));
        self.open.fetch_add(1, Ordering::Relaxed);
        if self.reminders.len() <= key {
            self.reminders.resize(key + 1, u64::MAX);
        }
        self.with_connection(key, |connection, core, app, receive| {
            if surplus > 0 {
                connection.turn_away(core, app)
            } else {
                let buffer = receive.get_mut(..RECEIVE_BYTES).unwrap_or_default();
                connection.readable(core, app, buffer, false)
            }
        });
    }

    /// Does what handlers posted, then sends once per connection. What they post in answer to that is
    /// done too, up to a bound: true when more may be waiting.
    fn take_mail(&mut self) -> bool {
        for _ in 0..MAILS_PER_PASS {
            let mut commands = std::mem::take(&mut self.commands);
            self.mailbox.take(&mut commands);
            if commands.is_empty() {
                self.commands = commands;
                return false;
            }
            for (id, command) in commands.drain(..) {
                let Some(connection) = self.connections.get_mut(id.connection as usize) else {
                    continue;
                };
                let (core, app) = (&mut self.core, &mut self.app);
                let obeyed =
                    catch_unwind(AssertUnwindSafe(|| connection.obey(core, app, id, command)));
                if obeyed.is_err() {
                    self.with_connection(id.connection as usize, |connection, core, app, _| {
                        panicked(connection, core, app)
                    });
                } else if self.touched.last() != Some(&id.connection) {
                    self.touched.push(id.connection);
                }
            }
            self.commands = commands;
            for key in std::mem::take(&mut self.touched) {
                self.with_connection(key as usize, |connection, core, app, _| {
                    connection.settle(core, app)
                });
            }
        }
        true
    }

    fn expire(&mut self) {
        let now_ms = self.core.clock.now_ms();
        let mut due = std::mem::take(&mut self.due);
        self.timers.expire(now_ms, &mut due);
        for key in due.drain(..) {
            if key >= LISTENER_KEY {
                self.rest_is_over((key - LISTENER_KEY) as usize);
                continue;
            }
            match self.reminders.get_mut(key as usize) {
                Some(standing) if *standing <= now_ms => *standing = u64::MAX,
                // Overtaken by an earlier one, which has asked for the next.
                _ => continue,
            }
            self.with_connection(key as usize, |connection, core, app, _| {
                if connection.deadline_ms(core) <= now_ms {
                    connection.expire(core, app)
                } else {
                    Fate::Open
                }
            });
        }
        self.due = due;
    }

    fn rest_is_over(&mut self, index: usize) {
        if let Some(slot) = self.listeners.get_mut(index)
            && std::mem::take(&mut slot.is_paused)
        {
            slot.is_paused = self
                .poller
                .add_shared(&slot.listener, LISTENER | index as Token)
                .is_err();
        }
    }
}

fn panicked<A: App>(connection: &mut Connection, core: &mut Core, app: &mut A) -> Fate {
    core.out.clear();
    // The application may panic again when it is told.
    let close = AssertUnwindSafe(|| connection.close(core, app, Abort::Disconnected));
    catch_unwind(close).unwrap_or(Fate::Close)
}

fn watch(poller: &Poller, connection: &mut Connection, wanted: Interest) {
    let (transport, key) = (&connection.transport, Token::from(connection.key));
    let watched = match connection.interest {
        None => poller.add_edge(transport.as_fd(), key, wanted),
        Some(_) => poller.modify_edge(transport.as_fd(), key, wanted),
    };
    // Failing (the system's limit of watches) leaves the connection to its deadline.
    if watched.is_ok() {
        connection.interest = Some(wanted);
    }
}
