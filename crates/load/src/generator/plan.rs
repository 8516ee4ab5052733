//! What a run does: its target, its length, its requests, and the expected responses.
//!
//! A plan is plain data. [`Plan::check`] reports contradictions in one line that says how to fix them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::schedule::connections_at;
use super::tls::Tls;
pub use websocket::{Pattern, WebSocket};

mod websocket;

/// Where the server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// TCP.
    Internet(SocketAddr),
    /// A UNIX socket's path.
    Local(PathBuf),
}

/// When a run without stages ends.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit {
    /// After this time, which starts when the warm-up ends.
    Duration(Duration),
    /// After this many requests, without a warm-up.
    Requests(u64),
}

/// A part of a run in which the load changes linearly from one value to another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stage {
    /// How long it lasts.
    pub duration: Duration,
    /// Requests per second, or connections, at its start.
    pub from: f64,
    /// The same at its end.
    pub to: f64,
}

/// What decides when the next request is sent.
#[derive(Clone, PartialEq, Debug)]
pub enum Shape {
    /// Closed loop: a connection's next batch is sent when the responses to the last one are complete.
    Closed,
    /// Closed loop with a changing number of connections.
    Connections(Vec<Stage>),
    /// Open loop: requests are sent at this rate (requests per second), however fast the server responds.
    Rate(f64),
    /// Open loop at a changing rate.
    Rates(Vec<Stage>),
}

/// How connections are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// HTTP/1.0: one request at a time.
    Http10,
    /// HTTP/1.1.
    Http11 {
        /// Maximum number of outstanding requests on one connection. In a closed loop, that many are sent in one send. 1 means no
        /// pipelining.
        pipeline_depth: u32,
    },
    /// HTTP/2: with TLS as agreed in the handshake, otherwise with prior knowledge (RFC 9113 3.3).
    Http2 {
        /// Maximum number of outstanding requests on one connection; fewer if the server allows fewer. In a closed loop, a response is
        /// followed by the next request.
        streams: u32,
    },
    /// WebSocket over HTTP/1.1: a connection is upgraded, and a request is a message.
    WebSocket(WebSocket),
}

impl Protocol {
    /// Maximum number of outstanding requests on one connection.
    pub fn depth(self) -> u32 {
        match self {
            Protocol::Http10 => 1,
            Protocol::Http11 { pipeline_depth } => pipeline_depth,
            Protocol::Http2 { streams } => streams,
            Protocol::WebSocket(websocket) => websocket.depth,
        }
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http10 => "HTTP/1.0",
            Protocol::Http11 { .. } => "HTTP/1.1",
            Protocol::Http2 { .. } => "HTTP/2",
            Protocol::WebSocket(_) => "WebSocket",
        }
    }

    /// Whether it is HTTP/2.
    pub(super) fn has_streams(self) -> bool {
        matches!(self, Protocol::Http2 { .. })
    }

    /// Whether each message is sent by one connection and received by all.
    pub(super) fn is_broadcast(self) -> bool {
        matches!(self, Protocol::WebSocket(it) if it.pattern == Pattern::Broadcast)
    }

    /// The name that is offered in a TLS handshake (RFC 7301).
    pub(super) fn alpn(self) -> &'static [u8] {
        match self {
            Protocol::Http10 | Protocol::Http11 { .. } | Protocol::WebSocket(_) => b"http/1.1",
            Protocol::Http2 { .. } => b"h2",
        }
    }
}

/// Which HTTP response is correct.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    /// The status; `None`: 200 to 299.
    pub status: Option<u16>,
    /// The length of the content in bytes; `None`: that of the first response with a correct status.
    pub length: Option<u64>,
    /// Contents may differ in length between responses. No effect if a length or a content is expected.
    pub is_any_length: bool,
    /// The content.
    pub content: Option<Vec<u8>>,
    /// Every response equals the first one, head and content, except for the value of Date.
    pub is_template: bool,
}

/// One kind of request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The request target.
    pub target: String,
    /// The value of Host; empty: derived from the address.
    pub host: String,
    /// Further field lines, in order.
    pub field_lines: Vec<(String, String)>,
    /// The content; `None`: no `Content-Length` either.
    pub content: Option<Vec<u8>>,
    /// Its share of the requests, relative to the weights of the other kinds.
    pub weight: u32,
    /// What its response must be.
    pub expected: Expectation,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            method: String::from("GET"),
            target: String::from("/"),
            host: String::new(),
            field_lines: Vec::new(),
            content: None,
            weight: 1,
            expected: Expectation::default(),
        }
    }
}

/// The part of a run in a load that several runs generate together. Each of them has the same plan, and generates what some of the threads of
/// one large run would generate, so that no request is lost or sent twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Threads of the runs before this one.
    pub threads_before: usize,
    /// Threads of all runs.
    pub threads_all: usize,
}

/// What a run does.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the server listens.
    pub address: Address,
    /// How TLS is used; `None`: it is not.
    pub tls: Option<Tls>,
    /// Threads, each with its share of connections and load.
    pub threads: usize,
    /// If the run is a part of a load: which one. Connections, requests, rates and stages are those of the whole load.
    pub part: Option<Part>,
    /// The connections are opened without requests, and the load waits for [`super::Run::begin`].
    pub is_gated: bool,
    /// How many connections are held open.
    pub connections: usize,
    /// How connections are used.
    pub protocol: Protocol,
    /// False: every request opens a connection of its own.
    pub is_persistent: bool,
    /// Local addresses that connections use in turn; none: the kernel chooses. With more of them, ports run out later.
    pub source_addresses: Vec<IpAddr>,
    /// CPUs that threads are bound to, in turn; none: the kernel chooses.
    pub cpus: Vec<usize>,
    /// Never sleeps while it waits. On loopback, a process that sends to a sleeping one also spends the time of waking it. The server's
    /// processor time is only its own if the generator is awake.
    pub is_sleepless: bool,
    /// The kinds of requests; a fixed cycle mixes them evenly by weight.
    pub requests: Vec<Request>,
    /// Time before the warm-up in which the load rises evenly from nothing; not counted either.
    pub ramp_up: Duration,
    /// Time at the start that is not counted.
    pub warm_up: Duration,
    /// When the run ends; no effect if stages define that.
    pub limit: Limit,
    /// What decides when requests are sent.
    pub shape: Shape,
    /// How long a response may take, from the send, before the request counts as failed.
    pub timeout: Duration,
    /// A correct response that takes longer counts as failed; measured like latency.
    pub deadline: Option<Duration>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            address: Address::Internet(SocketAddr::from((Ipv4Addr::LOCALHOST, 8000))),
            tls: None,
            threads: 1,
            part: None,
            is_gated: false,
            connections: 100,
            protocol: Protocol::Http11 { pipeline_depth: 1 },
            is_persistent: true,
            source_addresses: Vec::new(),
            cpus: Vec::new(),
            is_sleepless: false,
            requests: vec![Request::default()],
            ramp_up: Duration::ZERO,
            warm_up: Duration::ZERO,
            limit: Limit::Duration(Duration::from_secs(10)),
            shape: Shape::Closed,
            timeout: Duration::from_secs(5),
            deadline: None,
        }
    }
}

/// Field lines that the generator writes itself, and what to use instead.
const OWN_FIELDS: [(&str, &str); 3] = [
    ("connection", "is_persistent decides"),
    ("content-length", "it follows from the content"),
    ("transfer-encoding", "contents are sent with a length"),
];

impl Request {
    /// The bytes that are sent over HTTP/1.
    pub fn bytes(&self, plan: &Plan) -> Vec<u8> {
        let is_http10 = plan.protocol == Protocol::Http10;
        let version = if is_http10 { "1.0" } else { "1.1" };
        let mut head = format!("{} {} HTTP/{version}\r\n", self.method, self.target);
        let states_host = |(name, _): &(String, String)| name.eq_ignore_ascii_case("host");
        if !self.field_lines.iter().any(states_host) {
            head.push_str(&format!("Host: {}\r\n", self.authority(&plan.address)));
        }
        for (name, value) in &self.field_lines {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match (is_http10, plan.is_persistent) {
            (true, true) => head.push_str("Connection: keep-alive\r\n"),
            (false, false) => head.push_str("Connection: close\r\n"),
            _ => {}
        }
        if let Some(content) = &self.content {
            head.push_str(&format!("Content-Length: {}\r\n", content.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(self.content.as_deref().unwrap_or_default());
        bytes
    }

    /// The value of Host, unless a field line states it.
    pub(super) fn authority(&self, address: &Address) -> String {
        match address {
            _ if !self.host.is_empty() => self.host.clone(),
            Address::Internet(address) => address.to_string(),
            Address::Local(_) => String::from("localhost"),
        }
    }

    fn check(&self) -> Result<(), String> {
        let refuse = |message: &str| Err(format!("request {:?}: {message}", self.target));
        let is_value = |text: &str| wire::is_field_value(text.as_bytes());
        if !wire::is_field_name(self.method.as_bytes()) {
            return Err(format!("{:?} is not a method", self.method));
        }
        if self.target.is_empty() || self.target.bytes().any(|it| it <= b' ' || it >= 0x7f) {
            return refuse(
                "a target must not be empty, and other characters than ASCII must be percent-encoded",
            );
        }
        if !is_value(&self.host) {
            return refuse("the host contains an invalid character");
        }
        for (name, value) in &self.field_lines {
            if !wire::is_field_name(name.as_bytes()) || !is_value(value) {
                return refuse(&format!("{name:?}: {value:?} is not a field line"));
            }
            let own = |(field, _): &&(&str, &str)| name.eq_ignore_ascii_case(field);
            if let Some((_, instead)) = OWN_FIELDS.iter().find(own) {
                return refuse(&format!("leave out {name}: {instead}"));
            }
        }
        if self.weight == 0 {
            return refuse("a weight is at least 1");
        }
        let has_content = self.expected.content.is_some() || self.expected.length.is_some();
        if self.method == "HEAD" && has_content {
            return refuse("a response to HEAD has no content; leave out what is expected of it");
        }
        match (&self.expected.content, self.expected.length) {
            (Some(content), Some(length)) if content.len() as u64 != length => {
                refuse("expected_length is not the length of expected_content; leave it out")
            }
            _ if self.expected.is_template && self.expected.content.is_some() => {
                refuse("is_template and expected_content both define the response; give one")
            }
            _ => Ok(()),
        }
    }
}

impl Stage {
    fn is_sound(&self) -> bool {
        let is_amount = |amount: f64| amount.is_finite() && (0.0..=1e9).contains(&amount);
        !self.duration.is_zero() && is_amount(self.from) && is_amount(self.to)
    }
}

impl Plan {
    /// Checks the plan for contradictions; the message is one line that says how to fix them.
    ///
    /// # Errors
    /// If there is a contradiction.
    pub fn check(&self) -> Result<(), String> {
        let refuse = |message: &str| Err(message.to_owned());
        let depth = self.protocol.depth();
        if self.connections == 0 || depth == 0 || self.threads == 0 {
            return refuse("connections, pipeline_depth, streams and threads are at least 1");
        }
        if self.threads_all() > self.connections {
            return refuse("more threads than connections; give each thread at least one");
        }
        self.check_part()?;
        if !self.is_persistent && depth > 1 {
            let excess = match self.protocol.has_streams() {
                true => "has one stream; leave out streams, or reuse connections",
                false => "leaves nothing to pipeline; give one of them",
            };
            return Err(format!("a connection per request {excess}"));
        }
        if self.timeout.is_zero() {
            return refuse("a timeout is longer than nothing");
        }
        if self.limit == Limit::Requests(0) || self.limit == Limit::Duration(Duration::ZERO) {
            return refuse("a run lasts for some time or for some requests");
        }
        if self.requests_total().is_some() && !self.lead().is_zero() {
            return refuse("a number of requests has no warm-up; give a duration instead of it");
        }
        self.check_sources()?;
        self.check_shape()?;
        if self.requests.is_empty() {
            return refuse("there is no request to send");
        }
        self.requests.iter().try_for_each(Request::check)?;
        match &self.protocol {
            Protocol::WebSocket(websocket) => websocket.check(self),
            _ => Ok(()),
        }
    }

    fn check_part(&self) -> Result<(), String> {
        let Some(part) = &self.part else {
            return Ok(());
        };
        let end = part.threads_before.checked_add(self.threads);
        match end.is_some_and(|it| it <= part.threads_all) {
            true if !self.protocol.is_broadcast() => Ok(()),
            true => Err(String::from("a broadcast is not divided into parts")),
            false => Err(String::from("a part has more threads than the whole load")),
        }
    }

    fn check_sources(&self) -> Result<(), String> {
        let Address::Internet(address) = &self.address else {
            return match self.source_addresses.is_empty() {
                true => Ok(()),
                false => Err(String::from("a UNIX socket has no source addresses")),
            };
        };
        let is_other = |source: &&IpAddr| source.is_ipv4() != address.is_ipv4();
        match self.source_addresses.iter().find(is_other) {
            None => Ok(()),
            Some(source) => Err(format!(
                "no connection leads from {source} to {address}: one is IPv4, one IPv6"
            )),
        }
    }

    fn check_shape(&self) -> Result<(), String> {
        let is_sound = |stages: &[Stage]| {
            stages.iter().all(Stage::is_sound) && stages.iter().any(|it| it.from + it.to > 0.0)
        };
        let limits =
            "a stage lasts for some time, and its load is between 0 and a thousand million";
        match &self.shape {
            Shape::Rate(rate) if !(*rate > 0.0 && *rate <= 1e9) => {
                Err(format!("{rate} is not a rate of requests per second"))
            }
            Shape::Connections(stages) | Shape::Rates(stages) if !is_sound(stages) => {
                Err(format!("{limits}, and not always 0"))
            }
            Shape::Connections(_) | Shape::Rates(_) if !self.ramp_up.is_zero() => Err(
                String::from("stages set the start themselves; leave out the ramp-up"),
            ),
            Shape::Connections(stages) => {
                let most = stages
                    .iter()
                    .map(|it| it.from.max(it.to))
                    .fold(0.0, f64::max);
                match most as usize > self.connections {
                    true => Err(String::from("a stage has more connections than the plan")),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// Whether requests are sent when they are due, however fast the server responds.
    pub(super) fn is_open_loop(&self) -> bool {
        matches!(self.shape, Shape::Rate(_) | Shape::Rates(_))
    }

    /// Whether the number of connections follows the time, so that the load waits for none of them.
    pub(super) fn has_changing_connections(&self) -> bool {
        let is_ramped = self.shape == Shape::Closed && !self.ramp_up.is_zero();
        is_ramped || matches!(self.shape, Shape::Connections(_))
    }

    /// How many connections there are, this long after the start of the load and of the measured time; `None`: all, always.
    pub(super) fn connections_at(&self, since_start: Duration, measured: Duration) -> Option<f64> {
        match &self.shape {
            Shape::Connections(stages) => Some(connections_at(stages, measured)),
            Shape::Closed if !self.ramp_up.is_zero() => {
                let ramp = Stage {
                    duration: self.ramp_up,
                    from: 1.0,
                    to: self.connections as f64,
                };
                Some(connections_at(&[ramp], since_start))
            }
            _ => None,
        }
    }

    /// The time before the measured time.
    pub(super) fn lead(&self) -> Duration {
        self.ramp_up.saturating_add(self.warm_up)
    }

    /// How many threads generate the whole load.
    pub(super) fn threads_all(&self) -> usize {
        self.part.map_or(self.threads, |it| it.threads_all)
    }

    /// The number of this run's thread `index` among them.
    pub(super) fn thread_number(&self, index: usize) -> usize {
        index + self.part.map_or(0, |it| it.threads_before)
    }

    /// What thread `index` has of a total of the whole load: the rest of the division goes to the first threads.
    pub(super) fn share(&self, total: u64, index: usize) -> u64 {
        let (threads, number) = (self.threads_all() as u64, self.thread_number(index) as u64);
        total / threads + u64::from(number < total % threads)
    }

    /// Connections of this run.
    pub(super) fn own_connections(&self) -> u64 {
        let share = |index| self.share(self.connections as u64, index);
        (0..self.threads).map(share).sum()
    }

    /// How many requests of the whole load end it; `None`: a duration does.
    pub(super) fn requests_total(&self) -> Option<u64> {
        match (&self.shape, self.limit) {
            (Shape::Closed | Shape::Rate(_), Limit::Requests(total)) => Some(total),
            _ => None,
        }
    }

    /// The length of the measured time; `None`: until all requests are done.
    pub(super) fn length(&self) -> Option<Duration> {
        match (&self.shape, self.limit) {
            (Shape::Connections(stages) | Shape::Rates(stages), _) => {
                Some(stages.iter().map(|it| it.duration).sum())
            }
            (_, Limit::Duration(length)) => Some(length),
            (_, Limit::Requests(_)) => None,
        }
    }
}
