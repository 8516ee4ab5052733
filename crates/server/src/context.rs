//! What all connections of a worker share while they are served, apart from the application.

pub(crate) mod addresses;
pub(crate) mod admission;
pub(crate) mod bounds;
pub(crate) mod budget;
pub(crate) mod clients;
pub mod metrics;
pub(crate) mod orphans;
pub(crate) mod proxies;
pub(crate) mod record;
pub(crate) mod refusal;
pub(crate) mod request_ids;
pub(crate) mod share;
pub(crate) mod slow;
pub(crate) mod slow_routes;
pub(crate) mod topics;
pub(crate) mod waiting;
pub(crate) mod websockets;

use std::io;
use std::sync::Arc;

use net::memory::{NoMemory, append, copy};
use net::{Clock, Peer, TlsDetails, descriptors_max, precise_ns};

use crate::access_log::{AccessLog, Began};
use crate::app::circumstances::Circumstances;
use crate::app::head::Head;
use crate::app::shortage::{Lacking, Shortages};
use crate::context::metrics::{Metrics, Relieved};
use crate::context::record::Record;
use crate::limits::Limits;
use crate::mailbox::Mailbox;
use crate::responder::{Responder, Stamp};

use crate::timeouts::{DRAINING_IDLE_MS, Timeouts};

use self::addresses::Addresses;
use self::admission::{Admission, AdmissionConfig};
use self::bounds::Bounds;
use self::budget::{BUDGET, Budget};
use self::orphans::Orphans;
use self::proxies::Proxies;
use self::refusal::Refusals;
use self::request_ids::{RequestIdConfig, RequestIds};
use self::share::Share;
use self::slow::Slow;
use self::slow_routes::{SlowRoutes, name_of};
use self::websockets::{WebSocketConfig, WebSockets};

/// A send buffer that grew beyond this is freed after use.
const OUT_KEPT_BYTES: usize = 1 << 20;
/// A part of at least this size replaces an empty send buffer instead of being copied into it.
pub(crate) const MOVED_BYTES_MIN: usize = 16 * 1024;

/// So much content ends a pass, and more may be added.
const PASS_ENDS: usize = usize::MAX / 2;

/// Without this much memory left, no request is started: it may have to wait, with copies of its head and its task.
pub(crate) const REQUEST_SPARE_BYTES: usize = 1 << 20;
/// A connection may have at most one request in work for so many descriptors of the process.
const DESCRIPTORS_PER_EXCHANGE: u64 = 64;

/// How many TLS handshakes have a place, and how many wait for one.
#[derive(Debug, Default)]
pub(crate) struct HandshakePlaces {
    pub(crate) taken: u64,
    pub(crate) awaiting: u64,
    /// Others wait to be accepted, and nobody knows how many.
    pub(crate) are_held_off: bool,
    /// Those that wait for their next step, or for a place first.
    pub(crate) queued: u64,
}

impl HandshakePlaces {
    /// How many handshakes wait for a place.
    pub(crate) fn awaited(&self) -> u64 {
        match self.are_held_off && self.awaiting > 0 {
            true => u64::MAX,
            false => self.awaiting,
        }
    }
}

/// Limits, time, and the buffers of the pass.
pub(crate) struct Context {
    pub(crate) limits: Limits,
    /// Requests of one connection that may have files open.
    pub(crate) files_max: u64,
    pub(crate) head_limits: wire::HeadLimits,
    pub(crate) timeouts: Timeouts,
    pub(crate) clock: Clock,
    /// The last field section of any connection. One per worker, so that idle connections do not hold one each.
    pub(crate) memo: wire::SectionMemo,
    /// The responder of the current request. Holds the responses of the connection being served, and those of others that wait.
    pub(crate) responder: Responder,
    pub(crate) log: Option<AccessLog>,
    pub(crate) metrics: Metrics,
    /// What watches for slow requests, if something does.
    pub(crate) slow: Option<Slow>,
    /// Slow requests that have ended; none without metrics.
    pub(crate) slow_routes: SlowRoutes,
    /// Whether requests have a line in the log, are counted or watched: one check for a request of which nothing is wanted.
    pub(crate) is_recorded: bool,
    /// Whether requests are looked at before they begin ([`admission`]).
    pub(crate) is_guarded: bool,
    pub(crate) admission: Admission,
    /// Those of the request that begins; always the server's, unless requests are looked at.
    pub(crate) bounds: Bounds,
    /// What handlers post.
    pub(crate) mailbox: Arc<Mailbox>,
    /// What the connection being served may still do in its turn.
    pub(crate) share: Share,
    pub(crate) draining_since_ms: Option<u64>,
    /// How long an idle connection is kept then.
    pub(crate) draining_idle_ms: u64,
    /// Bytes of content passed on in this pass.
    pub(crate) content_bytes: usize,
    /// Bytes held by all connections, besides their own records.
    pub(crate) budget: Budget,
    /// Expected length of a response with unknown length: that of a recent long one. Short ones are not recorded.
    pub(crate) long_response_bytes: u64,
    /// Of TLS handshakes.
    pub(crate) handshakes: HandshakePlaces,
    /// The decoded head of the HTTP/2 request that is being started.
    pub(crate) decoded_head: Vec<u8>,
    /// HTTP/2 without TLS is accepted from clients that start with its preface.
    pub(crate) accepts_prior_knowledge: bool,
    pub(crate) proxies: Proxies,
    /// Local addresses.
    pub(crate) addresses: Addresses,
    /// Handlers whose clients have left.
    pub(crate) orphans: Orphans,
    /// What gives requests their ids, if they have any.
    pub(crate) request_ids: Option<RequestIds>,
    /// Those of the request that was last called, of those of which proxies said something.
    pub(crate) forwarded: Option<Circumstances>,
    pub(crate) shortages: Shortages,
    pub(crate) refusals: Refusals,
    pub(crate) websockets: WebSockets,
    sequence: u64,
    /// Of those numbers, the second ones of requests that the application asked to be called again for.
    repeated: u64,
}

impl Context {
    pub(crate) fn new(
        (mut limits, timeouts, websocket): (Limits, Timeouts, WebSocketConfig),
        stamp: Stamp,
        log: Option<AccessLog>,
        clock: Clock,
        mailbox: Arc<Mailbox>,
    ) -> Context {
        // Each request in work may wait with a file open: one connection gets a small part of the descriptors.
        let pipelined_max = (descriptors_max() / DESCRIPTORS_PER_EXCHANGE).max(1);
        limits.pipelined_exchanges_max = limits.pipelined_exchanges_max.min(pipelined_max);
        let mut responder = Responder::new(stamp);
        responder.messages.level = websocket.compression.level();
        Context {
            limits,
            files_max: pipelined_max,
            head_limits: limits.head(),
            timeouts,
            clock,
            memo: wire::SectionMemo::new(),
            responder,
            slow: None,
            slow_routes: SlowRoutes::default(),
            is_recorded: log.is_some(),
            is_guarded: false,
            admission: Admission::default(),
            bounds: Bounds {
                body_bytes_max: limits.body_bytes_max,
                handler_timeout_ms: timeouts.handler_timeout_ms,
                has_waited: false,
            },
            metrics: Metrics::timing(log.as_ref().is_some_and(AccessLog::is_precise)),
            log,
            mailbox,
            share: Share::default(),
            draining_since_ms: None,
            draining_idle_ms: DRAINING_IDLE_MS,
            content_bytes: 0,
            budget: Budget::new(0),
            long_response_bytes: 0,
            handshakes: HandshakePlaces::default(),
            decoded_head: Vec::new(),
            accepts_prior_knowledge: false,
            proxies: Proxies::default(),
            addresses: Addresses::default(),
            orphans: Orphans::default(),
            request_ids: None,
            forwarded: None,
            shortages: Shortages::default(),
            refusals: Refusals::default(),
            websockets: WebSockets::new(websocket, &limits),
            sequence: 0,
            repeated: 0,
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining_since_ms.is_some()
    }

    /// Gives requests ids, if there is a setting about them. To be called before [`Context::guard`].
    pub(crate) fn identify(&mut self, config: Option<RequestIdConfig>) {
        self.responder.stamp.sends_ids = config.as_ref().is_some_and(|config| config.is_sent);
        self.request_ids = config.map(RequestIds::new);
    }

    /// Looks at requests from now on, if one of these limits is set, or if an application has routes with bounds of their own.
    ///
    /// # Errors
    /// If there is no memory for what is counted.
    pub(crate) fn guard(&mut self, config: AdmissionConfig, has_routes: bool) -> io::Result<()> {
        self.admission = Admission::new(config)?;
        self.is_guarded = self.request_ids.is_some();
        self.guard_routes(self.admission.is_needed() || has_routes);
        Ok(())
    }

    /// The same for an application that has other routes now. Requests are not looked at less: those that arrived before may still run.
    pub(crate) fn guard_routes(&mut self, has_bounds: bool) {
        self.is_guarded |= has_bounds;
        self.refusals.has_path_bounds |= has_bounds;
    }

    /// The bounds of requests without a rule.
    pub(crate) fn usual_bounds(&self) -> Bounds {
        Bounds {
            body_bytes_max: self.limits.body_bytes_max,
            handler_timeout_ms: self.timeouts.handler_timeout_ms,
            has_waited: false,
        }
    }

    /// Goes on without the access log.
    pub(crate) fn end_log(&mut self) -> Option<AccessLog> {
        let log = self.log.take();
        self.records();
        log
    }

    /// Counts from now on.
    pub(crate) fn measure(&mut self, metrics: Metrics, slow_routes: SlowRoutes) {
        self.metrics = metrics;
        self.slow_routes = slow_routes;
        self.metrics.set_held_max(self.budget.bytes_max());
        self.records();
    }

    /// Watches for slow requests from now on, or does not.
    pub(crate) fn watch(&mut self, slow: Option<Slow>) {
        self.slow = slow;
        self.records();
    }

    fn records(&mut self) {
        let log = self.log.as_ref();
        self.responder.keeps_lines = log.is_some_and(AccessLog::has_response_fields);
        self.is_recorded = self.log.is_some() || self.metrics.is_on() || self.slow.is_some();
        let is_precise = self.log.as_ref().is_some_and(AccessLog::is_precise);
        self.metrics.time_turns(is_precise);
    }

    /// Records a usual response, a 200 that was complete when the call returned, if it is only to be counted. Returns whether it was.
    #[inline(never)]
    pub(crate) fn is_only_counted(&mut self, head: &wire::RequestHead<'_>) -> bool {
        let is_only_counted = self.log.is_none();
        if is_only_counted {
            if let Some(slow) = &self.slow {
                slow.call_ended(200);
            }
            self.metrics.responded(head.method, 200);
            if let Some(took_ns) = self.metrics.call_ended() {
                self.slow_routes.note(name_of(Head::of(head)), took_ns);
            }
        }
        is_only_counted
    }

    /// What is to be recorded of a request when its response is complete. `head` is `None` for one that was refused before it was
    /// understood.
    pub(crate) fn record<'a>(
        &self,
        sender: (Peer, impl FnOnce() -> Option<&'a Arc<TlsDetails>>),
        head: Option<Head<'_>>,
        began_ms: u64,
        (status, content_bytes): (u16, u64),
    ) -> Record {
        let line = self.log.as_ref().and_then(|log| {
            let began = Began {
                ms: began_ms,
                turn_ns: self.metrics.turn_began_ns(),
            };
            let mut line = log.record(sender, head, began)?;
            line.waited_ms = self.admission.waited_ms;
            if status != 0 {
                line.begin(status, content_bytes, self.responder.lines());
            }
            Some(Box::new(line))
        });
        let method = head.map_or(wire::Method::Other, Head::method);
        let tally = self.metrics.tally(method, status);
        let slow = self.slow.as_ref();
        let slow = slow.and_then(|slow| slow.call_ended(status));
        let id_line = match self.responder.sends_ids() {
            true => head.and_then(Head::id_line).map(Into::into),
            false => None,
        };
        Record {
            line,
            tally,
            slow,
            id_line,
        }
    }

    /// Adds to a record, if it is counted, that the application was just called for the request. Its response `is_complete`, or goes on.
    pub(crate) fn note_call(
        &self,
        record: &mut Record,
        head: &wire::RequestHead<'_>,
        is_complete: bool,
    ) {
        if let Some(tally) = &mut record.tally {
            tally.called = self.metrics.called(is_complete, || name_of(Head::of(head)));
        }
    }

    /// Records a request whose response is complete, or given up.
    pub(crate) fn complete(&mut self, record: Record) {
        if let (Some(log), Some(line)) = (&mut self.log, &record.line) {
            let now = (self.clock.unix_s(), self.clock.now_ms());
            log.add(line, now, precise_ns);
        }
        if let Some(tally) = record.tally
            && let Some(took_ns) = self.metrics.completed(&tally)
            && let Some(called) = tally.called
        {
            self.slow_routes.note(called.name, took_ns);
        }
    }

    /// Counts a shortage of memory, which is reported at the end of the pass.
    #[cold]
    pub(crate) fn note_shortage(&mut self, bytes: usize) {
        self.shortages.add(Lacking::Request, bytes);
    }

    /// As [`Context::note_shortage`], for a message of a WebSocket.
    #[cold]
    pub(crate) fn note_message_shortage(&mut self, bytes: usize) {
        self.shortages.add(Lacking::Message, bytes);
    }

    /// Counts a shortage of memory, if that is what broke a connection.
    #[cold]
    pub(crate) fn note_broken(&mut self, error: &io::Error) {
        if let Some(NoMemory(bytes)) = NoMemory::of(error) {
            self.note_shortage(bytes);
        }
    }

    /// Counts a shortage of memory for the content that the call wrote, if there was one. Returns whether there was.
    #[inline]
    pub(crate) fn note_lacked_response(&mut self) -> bool {
        let bytes = self.responder.take_lacked_bytes();
        if bytes > 0 {
            self.note_shortage(bytes);
        }
        bytes > 0
    }

    /// Charges a connection for what it holds. If the budget is exceeded, the pass ends, so that others end before more is read.
    #[inline]
    pub(crate) fn charge(&mut self, before: usize, after: usize) {
        if self.budget.charge(before, after) {
            self.content_bytes = PASS_ENDS;
        }
    }

    /// What is held for clients that have left. As [`Context::charge`].
    #[inline]
    pub(crate) fn charge_departed(&mut self, bytes: u64) {
        if self.budget.charge_departed(bytes) {
            self.content_bytes = PASS_ENDS;
        }
    }

    /// What is held of published frames, which connections share. As [`Context::charge`].
    #[inline]
    pub(crate) fn charge_published(&mut self) {
        let held = self.websockets.published.bytes();
        let before = std::mem::replace(&mut self.websockets.charged_bytes, held);
        if held != before {
            self.charge(before, held);
        }
    }

    /// The response to a request that would make the server hold more than it may.
    #[cold]
    pub(crate) fn budget_refusal(&mut self) -> (u16, &'static str) {
        self.metrics.relieved(Relieved::Refused);
        (503, BUDGET)
    }

    /// Records the length of a response that had to wait.
    pub(crate) fn note_response(&mut self, bytes: u64) {
        let faded = self.long_response_bytes - self.long_response_bytes.div_ceil(16);
        self.long_response_bytes = faded.max(bytes);
    }

    #[inline]
    pub(crate) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// The next call or refusal is not of a new request.
    #[cold]
    pub(crate) fn repeats_request(&mut self) {
        self.repeated += 1;
    }

    /// Requests that were started or refused.
    #[inline]
    pub(crate) fn requests(&self) -> u64 {
        self.sequence - self.repeated
    }

    /// Adds bytes to send. A large part replaces an empty send buffer, without a copy. Returns the bytes if there is no memory for them.
    #[inline]
    pub(crate) fn put_out(&mut self, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
        let out = &mut self.responder.out;
        if out.is_empty() && bytes.len() >= MOVED_BYTES_MIN {
            *out = bytes;
        } else if append(out, &bytes).is_err() {
            return Err(bytes);
        }
        Ok(())
    }

    /// How long the next wait may last until shortages or refusals are to be reported.
    #[inline]
    pub(crate) fn report_in_ms(&self, now_ms: u64) -> Option<u64> {
        let (shortages, refusals) = (&self.shortages, &self.refusals);
        let waits_ms = [shortages.wait_ms(now_ms), refusals.wait_ms(now_ms)];
        waits_ms.into_iter().flatten().min()
    }

    /// Takes what was written from `start` on. Without memory for the copy it is lost.
    pub(crate) fn take_out(&mut self, start: usize) -> Result<Vec<u8>, NoMemory> {
        let out = &mut self.responder.out;
        if start == 0 {
            return Ok(std::mem::take(out));
        }
        let taken = copy(out.get(start..).unwrap_or_default());
        out.truncate(start);
        taken.inspect_err(|NoMemory(bytes)| self.note_shortage(*bytes))
    }

    /// Empties the send buffer, and frees it if it grew too large to be kept.
    #[inline]
    pub(crate) fn clear_out(&mut self) {
        let out = &mut self.responder.out;
        out.clear();
        if out.capacity() > OUT_KEPT_BYTES {
            *out = Vec::new();
        }
    }
}
