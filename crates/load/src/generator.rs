//! The generator: a closed loop over a fixed number of connections that checks every answer.
//!
//! Each connection sends a batch of requests (one, or as many as the pipeline is deep) in one send, waits until all of the batch is
//! answered, and sends the next. Status and length of every answer are checked; what failed is counted by class and never as
//! throughput. It is a closed loop, so its latencies are service times under saturation, not what users of an open system wait.
//!
//! Start reading at [`run`], then `driver` (sockets and time) and `checker` (bytes to verdicts, without I/O).

mod checker;
mod connection;
mod dial;
mod driver;
mod old_report;
mod plan;
mod report;
mod run;
mod tally;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

pub use old_report::Report;
pub use plan::{Address, Expectation, Limit, Plan, Request, Shape, Stage};
pub use report::{Lag, Latency, Progress, Report as RunReport, Second};
pub use run::Run;
pub use tally::{ErrorClass, Errors};

/// What to send, how, and what to expect.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the server listens.
    pub address: Address,
    /// How many addresses 127.0.0.1, 127.0.0.2, ... take turns as the source; 0 leaves the choice to the kernel. Only for a server on
    /// a loopback IPv4 address: with more addresses, ports in TIME_WAIT run out later.
    pub source_addresses: u8,
    /// How many connections are held open.
    pub connections: usize,
    /// Requests per batch. 1 is no pipelining; connection per request needs 1.
    pub pipeline_depth: u32,
    /// False: every request opens a connection of its own and says `Connection: close`.
    pub is_persistent: bool,
    /// The request method.
    pub method: String,
    /// The request target.
    pub target: String,
    /// The Host field; empty: made from the address.
    pub host: String,
    /// Further field lines, in order.
    pub field_lines: Vec<(String, String)>,
    /// How much content each request has; `None`: it has no `Content-Length` either.
    pub content_bytes: Option<usize>,
    /// When the run ends.
    pub limit: Limit,
    /// Time at the start in which answers are checked but not counted (errors are).
    pub warm_up: Duration,
    /// How long a batch may take until it counts as failed.
    pub timeout: Duration,
    /// The status that every answer must have.
    pub expected_status: u16,
    /// The content length that every answer must have; `None`: that of the first one.
    pub expected_length: Option<u64>,
    /// Never sleeps while it waits. On loopback, whoever sends to a sleeper pays for waking it: a server's processor time is its own
    /// only if the generator is awake.
    pub is_sleepless: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            address: Address::Internet(SocketAddr::from((Ipv4Addr::LOCALHOST, 8000))),
            source_addresses: 0,
            connections: 100,
            pipeline_depth: 1,
            is_persistent: true,
            method: String::from("GET"),
            target: String::from("/"),
            host: String::new(),
            field_lines: Vec::new(),
            content_bytes: None,
            limit: Limit::Duration(Duration::from_secs(10)),
            warm_up: Duration::ZERO,
            timeout: Duration::from_secs(5),
            expected_status: 200,
            expected_length: None,
            is_sleepless: false,
        }
    }
}

impl Options {
    /// The bytes of one request.
    pub fn request(&self) -> Vec<u8> {
        let mut request = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let host = match (&self.address, self.host.as_str()) {
            (Address::Internet(address), "") => address.to_string(),
            (Address::Local(_), "") => String::from("localhost"),
            (_, host) => host.to_owned(),
        };
        request.push_str(&format!("Host: {host}\r\n"));
        for (name, value) in &self.field_lines {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.is_persistent {
            request.push_str("Connection: close\r\n");
        }
        let content_bytes = self.content_bytes.unwrap_or(0);
        if self.content_bytes.is_some() {
            request.push_str(&format!("Content-Length: {content_bytes}\r\n"));
        }
        request.push_str("\r\n");
        let mut request = request.into_bytes();
        request.resize(request.len() + content_bytes, b'x');
        request
    }

    fn check(&self) -> Result<(), &'static str> {
        let loopback = matches!(self.address, Address::Internet(SocketAddr::V4(address)) if address.ip().is_loopback());
        let fields = || self.field_lines.iter();
        if self.connections == 0 || self.pipeline_depth == 0 {
            Err("connections and pipeline depth must be at least 1")
        } else if !self.is_persistent && self.pipeline_depth > 1 {
            Err("a connection per request leaves nothing to pipeline")
        } else if self.source_addresses > 0 && !loopback {
            Err("source addresses take turns only towards a loopback IPv4 address")
        } else if !wire::is_field_name(self.method.as_bytes())
            || !self.target.bytes().all(|byte| byte > b' ' && byte != 0x7f)
            || self.target.is_empty()
        {
            Err("the method or the request target holds a character that it must not")
        } else if fields().any(|(name, _)| !wire::is_field_name(name.as_bytes()))
            || fields().any(|(_, value)| !wire::is_field_value(value.as_bytes()))
            || !wire::is_field_value(self.host.as_bytes())
        {
            Err("a field line holds a character that it must not")
        } else {
            Ok(())
        }
    }

    /// The `index`-th source address; they take turns.
    fn source(&self, index: usize) -> Option<IpAddr> {
        let turns = usize::from(self.source_addresses);
        let last = 1 + index.checked_rem(turns)?;
        Some(IpAddr::from(Ipv4Addr::new(127, 0, 0, last as u8)))
    }
}

/// Drives the load and gives what came of it. A signal ends it early; the report then covers the time until there.
///
/// # Errors
/// When the options contradict themselves (`InvalidInput`), the limit of open descriptors is too low for them, or the poller breaks.
/// Whatever the server does is no error but counted in the report.
pub fn run(options: &Options) -> io::Result<Report> {
    let refuse = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
    options
        .check()
        .map_err(|message| refuse(message.to_owned()))?;
    let held = crate::raise_descriptor_limit();
    let needed = options.connections as u64 + 50;
    if held < needed {
        return Err(refuse(format!(
            "{needed} open files are needed and {held} are allowed (ulimit -Hn)"
        )));
    }
    driver::Driver::new(options)?.run()
}
