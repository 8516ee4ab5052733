//! Which requests begin now, which wait, and which are refused, because of limits that are off by default.
//!
//! A worker runs at most `concurrency_max` requests at once. Others wait, `queue_max` of them at most, each for `queue_timeout_ms` at most:
//!
//! | request | event | then |
//! | --- | --- | --- |
//! | arrives | its client has sent too many | 429 |
//! | arrives | none waits, and fewer run | begins |
//! | arrives | others wait, or as many run | waits |
//! | arrives | `queue_max` wait | 503 |
//! | waits | it is the first, and fewer run | begins |
//! | waits | `queue_timeout_ms` | 503, and never begins |
//! | waits | its client leaves, or resets its stream | dropped |
//!
//! Whether requests are looked at is one flag, [`super::Context::is_guarded`].

use std::io;
use std::net::IpAddr;

use net::{Clock, Peer};

use super::Context;
use super::bounds::{Bounds, PathRules};
use super::clients::Clients;
use super::metrics::{CLIENT_RATE, QUEUE_FULL, QUEUE_TIMEOUT, Refusal};
use super::waiting::{Grant, Place, Waiting};
use crate::id::ConnectionId;
use crate::limits::OptionalLimits;
use crate::response::Response;

/// How long the reactor waits at most while requests wait: not every end of a handler wakes it.
pub(crate) const LOOK_MS: u64 = 20;

/// The settings.
#[derive(Clone, Debug)]
pub struct AdmissionConfig {
    /// Limits that are off by default.
    pub limits: OptionalLimits,
    /// How many bits of an address of IPv6 are a client's.
    pub ipv6_prefix_bits: u32,
    /// Bounds by path.
    pub rules: PathRules,
}

impl Default for AdmissionConfig {
    fn default() -> AdmissionConfig {
        AdmissionConfig {
            limits: OptionalLimits::default(),
            ipv6_prefix_bits: 64,
            rules: PathRules::default(),
        }
    }
}

/// What becomes of a request that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Begin,
    Wait,
    Refuse(Refused),
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    QueueFull,
    QueueTimeout,
    /// Its client may send the next one in so many seconds.
    Rate {
        client: IpAddr,
        retry_after_s: u64,
    },
}

impl Refused {
    pub(crate) fn response(self) -> Response {
        match self {
            Refused::QueueFull | Refused::QueueTimeout => {
                Response::error(503, "The server is busy; try again shortly.")
            }
            Refused::Rate { retry_after_s, .. } => {
                let mut response =
                    Response::error(429, "This client sends too many requests; try again later.");
                let field = format!("Retry-After: {retry_after_s}\r\n");
                response.fields.extend_from_slice(field.as_bytes());
                response
            }
        }
    }

    fn metric(self) -> usize {
        match self {
            Refused::QueueFull => QUEUE_FULL,
            Refused::QueueTimeout => QUEUE_TIMEOUT,
            Refused::Rate { .. } => CLIENT_RATE,
        }
    }
}

/// The state of these limits. By default, there are none.
#[derive(Default)]
pub(crate) struct Admission {
    rules: PathRules,
    pub(crate) clients: Clients,
    waiting: Waiting,
    concurrency_max: u64,
    /// What becomes of the request that is looked at next, if it waited.
    pub(crate) grant: Option<Grant>,
    /// How long it has waited.
    pub(crate) waited_ms: u64,
}

impl Admission {
    /// # Errors
    /// If there is no memory for what is counted.
    pub(crate) fn new(config: AdmissionConfig) -> io::Result<Admission> {
        let limits = config.limits;
        let rate = (limits.client_requests_per_s_max, limits.client_burst_max);
        let connections_max = limits.client_connections_max;
        Ok(Admission {
            rules: config.rules,
            clients: Clients::new(connections_max, rate, config.ipv6_prefix_bits)?,
            concurrency_max: limits.concurrency_max,
            ..Admission::default()
        })
    }

    /// Whether requests have to be looked at.
    pub(crate) fn is_needed(&self) -> bool {
        !self.rules.is_empty() || self.concurrency_max > 0 || self.clients.limits_rates()
    }

    pub(crate) fn bounds_of(&self, path: &[u8], bounds: Bounds) -> Bounds {
        self.rules.bounds_of(path, bounds)
    }

    /// Whether the number of requests that run at once is limited.
    pub(crate) fn limits_concurrency(&self) -> bool {
        self.concurrency_max > 0
    }

    pub(crate) fn has_place(&self, running: usize) -> bool {
        (running as u64) < self.concurrency_max
    }
}

impl Context {
    /// What becomes of a request that could begin now, while `running` others run.
    pub(crate) fn queue_verdict(&self, running: usize) -> Verdict {
        let admission = &self.admission;
        if !admission.limits_concurrency()
            || admission.waiting.is_empty() && admission.has_place(running)
        {
            return Verdict::Begin;
        }
        match (admission.waiting.len() as u64) < self.limits.queue_max {
            true => Verdict::Wait,
            false => Verdict::Refuse(Refused::QueueFull),
        }
    }

    /// A request waits.
    pub(crate) fn queue(&mut self, connection: ConnectionId, stream: u32) {
        let now_ms = self.clock.now_ms();
        self.admission.waiting.add(connection, stream, now_ms);
        self.metrics.waiting_changed(1);
    }

    /// As [`Context::queue`], for a request that has already waited for `waited_ms`: it keeps its turn.
    #[cold]
    pub(crate) fn queue_again(&mut self, connection: ConnectionId, stream: u32, waited_ms: u64) {
        let since_ms = self.clock.now_ms().saturating_sub(waited_ms);
        let waiting = &mut self.admission.waiting;
        waiting.add_again(connection, stream, since_ms);
        self.metrics.waiting_changed(1);
    }

    /// The requests of a connection, or one of its streams, wait no longer.
    #[cold]
    pub(crate) fn leave_queue(&mut self, connection: ConnectionId, stream: Option<u32>) {
        let left = self.admission.waiting.forget(connection, stream);
        self.metrics.waiting_changed(-(left as i64));
    }

    /// Whether requests wait.
    #[inline]
    pub(crate) fn has_queue(&self) -> bool {
        !self.admission.waiting.is_empty()
    }

    /// Takes the request that has waited longest, if something becomes of it while `running` others run.
    pub(crate) fn next_queued(&mut self, running: usize) -> Option<(Place, Grant)> {
        let times_ms = (self.clock.now_ms(), self.timeouts.queue_timeout_ms);
        let may_begin = self.admission.has_place(running);
        let next = self.admission.waiting.next(times_ms, may_begin)?;
        self.metrics.waiting_changed(-1);
        Some(next)
    }

    /// Counts a request that is refused.
    #[cold]
    pub(crate) fn count_refused(&mut self, refused: Refused) {
        self.metrics.count_refused(refused.metric());
        self.refusals.add_limited(refused);
    }

    /// Whether something becomes of the request that has waited longest.
    pub(crate) fn queue_moves(&self, running: usize) -> bool {
        let times_ms = (Clock::tick_ms(), self.timeouts.queue_timeout_ms);
        let may_begin = self.admission.has_place(running);
        self.admission.waiting.moves(times_ms, may_begin)
    }

    /// Counts a connection. Returns false if its client, as far as it is known, has too many.
    #[inline]
    pub(crate) fn takes_client(&mut self, connection: usize, client: &Peer) -> bool {
        !self.admission.clients.limits_connections()
            || self.proxies.expects_header
            || self.takes_known_client(connection as u32, client)
    }

    /// Whether [`Context::takes_client`] would return false.
    #[cold]
    pub(crate) fn client_has_all(&self, client: &Peer) -> bool {
        let is_known = !self.proxies.expects_header && !self.proxies.trusts(client);
        is_known && self.admission.clients.has_all(client)
    }

    /// As [`Context::takes_client`], when its proxy has named the client.
    #[cold]
    pub(crate) fn takes_known_client(&mut self, connection: u32, client: &Peer) -> bool {
        self.proxies.trusts(client) || self.admission.clients.connected(connection, client)
    }

    /// A client has too many connections.
    #[cold]
    pub(crate) fn refuse_client(&mut self, client: &Peer) {
        self.metrics.refused(Refusal::Client);
        self.refusals.add_client_connection(client);
    }

    /// A connection is closed.
    #[inline]
    pub(crate) fn connection_ends(&mut self, id: ConnectionId) {
        if self.admission.clients.limits_connections() {
            self.admission.clients.disconnected(id.key);
        }
        if self.has_queue() {
            self.leave_queue(id, None);
        }
    }
}
