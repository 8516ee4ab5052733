//! Reports of requests that the server refused because of a limit or because they were malformed, and of those whose upgrade it ignored.

mod websocket;

use std::fmt::{Display, Write as _};

use net::Peer;

pub(crate) use self::websocket::LostUpgrade;
use super::admission::Refused;
use super::budget::BUDGET;
use super::metrics::Victims;
use crate::limits::Limits;

/// Minimum time between two reports.
const PAUSE_MS: u64 = 5000;
/// Statuses of refusals that are reported. A slow peer's 408 and a lack of memory are not among them: the first is common, and the second has
/// its own report.
const REPORTED: [u16; 6] = [400, 413, 414, 431, 501, 505];

/// What a client gets that uses TLS on a port without it. Go's clients recognize such a response, and OpenSSL calls it a wrong version
/// number, which most users know; an alert or an end would look like a broken server.
pub(crate) const EXPECTS_NO_TLS: &str =
    "This port does not use TLS; use http:// instead of https://.";

/// Stands for connections that use TLS on a port without it.
const TLS: u16 = 1;
/// Minimum time between two reports of them: such clients try again and again.
const TLS_PAUSE_MS: u64 = 60_000;

/// The status of connections over the limit, even of those that are closed without a response.
const SURPLUS: u16 = 503;

/// Stands for HTTP/2 connections that were ended because of an error of their clients.
const HTTP2: u16 = 2;

/// Stands for TLS handshakes that failed.
const HANDSHAKE: u16 = 3;
/// Stands for connections without a valid header of the PROXY protocol.
const PROXY_HEADER: u16 = 4;
/// Stands for requests that the budget of memory did not allow.
const MEMORY: u16 = 5;
/// Stands for connections that lost what they made the server hold.
const HOLDER: u16 = 6;
/// Stands for idle connections that were closed for others.
const REAPED: u16 = 7;
/// Stands for requests that arrived slowly and ended for others.
const SLOW: u16 = 11;
/// Minimum time between two reports of the first two.
const MEMORY_PAUSE_MS: u64 = 1000;
/// Stand for requests and connections over a limit that is off by default.
const QUEUE_FULL: u16 = 8;
const QUEUE_TIMEOUT: u16 = 9;
const CLIENT_RATE: u16 = 429;
const CLIENT_CONNECTIONS: u16 = 10;
/// Maximum characters of a reason that is not ours.
const REASON_CHARACTERS_MAX: usize = 200;

/// Refusals with one status since the last report.
struct Refusal {
    status: u16,
    count: u64,
    /// The sentence that the last of them got.
    reason: String,
}

/// Counts refusals, and decides when to report them: the first at once, later ones together some seconds after it.
#[derive(Default)]
pub(crate) struct Refusals {
    since: Vec<Refusal>,
    reported_ms: Option<u64>,
    tls_reported_ms: Option<u64>,
    handshake_reported_ms: Option<u64>,
    memory_reported_ms: Option<u64>,
    /// A line for each failed handshake, if they are wanted.
    handshakes: Option<Vec<String>>,
    /// Some paths or routes have bounds of their own.
    pub(crate) has_path_bounds: bool,
    /// Requests are only sent to https, so there is a certificate.
    pub(crate) redirects_to_https: bool,
}

impl Refusals {
    /// Has each failed handshake reported too, at once, if that is wanted.
    pub(crate) fn with_handshakes(are_wanted: bool) -> Refusals {
        Refusals {
            handshakes: are_wanted.then(Vec::new),
            ..Refusals::default()
        }
    }

    /// Counts a refused request.
    #[cold]
    pub(crate) fn add(&mut self, status: u16, reason: &str) {
        if reason == EXPECTS_NO_TLS {
            self.count(TLS, "");
        } else if reason == BUDGET {
            self.count(MEMORY, "");
        } else if REPORTED.contains(&status) {
            self.count(status, reason);
        }
    }

    /// Counts a connection over the limit.
    #[cold]
    pub(crate) fn add_connection(&mut self) {
        self.count(SURPLUS, "");
    }

    /// Counts a request over a limit that is off by default.
    #[cold]
    pub(crate) fn add_limited(&mut self, refused: Refused) {
        match refused {
            Refused::QueueFull => self.count(QUEUE_FULL, ""),
            Refused::QueueTimeout => self.count(QUEUE_TIMEOUT, ""),
            Refused::Rate { client, .. } => self.count(CLIENT_RATE, &client.to_string()),
        }
    }

    /// Counts a connection of a client that has too many.
    #[cold]
    pub(crate) fn add_client_connection(&mut self, client: &Peer) {
        self.count(CLIENT_CONNECTIONS, &address(client));
    }

    /// Counts an HTTP/2 connection that is ended because of an error of its client.
    #[cold]
    pub(crate) fn add_h2(&mut self, reason: &str) {
        self.count(HTTP2, reason);
    }

    /// Counts a TLS handshake that failed, except because the client has left.
    #[cold]
    pub(crate) fn add_handshake(&mut self, client: &Peer, error: &dyn Display) {
        let characters = error.to_string();
        let reason: String = characters
            .chars()
            .map(|it| if it.is_control() { ' ' } else { it })
            .take(REASON_CHARACTERS_MAX)
            .collect();
        let reason = format!("{}: {reason}", address(client));
        self.count(HANDSHAKE, &reason);
        if let Some(lines) = &mut self.handshakes {
            lines.push(format!("a TLS handshake failed: {reason}"));
        }
    }

    /// Counts a connection that is closed because it lacks a valid header of the PROXY protocol.
    #[cold]
    pub(crate) fn add_proxy_header(&mut self, client: &Peer, reason: &str) {
        let reason = format!("{}: {reason}", address(client));
        self.count(PROXY_HEADER, &reason);
    }

    /// Counts a connection that lost what it made the server hold.
    #[cold]
    pub(crate) fn add_holder(&mut self, reason: &str) {
        self.count(HOLDER, reason);
    }

    /// Counts idle connections that were closed because of `reason`.
    #[cold]
    pub(crate) fn add_reaped(&mut self, victims: Victims, count: usize, reason: &str) {
        let kind = match victims {
            Victims::Idle => REAPED,
            Victims::Slow => SLOW,
        };
        (0..count).for_each(|_| self.count(kind, reason));
    }

    fn count(&mut self, status: u16, reason: &str) {
        match self.since.iter_mut().find(|known| known.status == status) {
            Some(known) => {
                known.count += 1;
                if known.reason != reason {
                    reason.clone_into(&mut known.reason);
                }
            }
            None => self.since.push(Refusal {
                status,
                count: 1,
                reason: reason.to_owned(),
            }),
        }
    }

    /// How long the next wait may last until a report is due.
    #[inline]
    pub(crate) fn wait_ms(&self, now_ms: u64) -> Option<u64> {
        if self.handshakes.as_ref().is_some_and(|it| !it.is_empty()) {
            return Some(0);
        }
        let (mut wait_ms, mut is_any) = (u64::MAX, false);
        for refusal in &self.since {
            is_any = true;
            wait_ms = wait_ms.min(self.pause_ms(refusal.status, now_ms));
        }
        is_any.then_some(wait_ms)
    }

    /// How long a report of refusals with this status has to wait.
    fn pause_ms(&self, status: u16, now_ms: u64) -> u64 {
        let left_ms = |reported_ms: Option<u64>, pause_ms: u64| {
            let passed_ms = reported_ms.map(|at_ms| now_ms.saturating_sub(at_ms));
            passed_ms.map_or(0, |passed_ms| pause_ms.saturating_sub(passed_ms))
        };
        match status {
            TLS => left_ms(self.tls_reported_ms, TLS_PAUSE_MS),
            HANDSHAKE => left_ms(self.handshake_reported_ms, TLS_PAUSE_MS),
            MEMORY | HOLDER => left_ms(self.memory_reported_ms, MEMORY_PAUSE_MS),
            _ => left_ms(self.reported_ms, PAUSE_MS),
        }
    }

    /// Takes the lines about single handshakes.
    #[cold]
    pub(crate) fn take_handshakes(&mut self) -> Vec<String> {
        self.handshakes
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Takes the lines that are to be reported now.
    #[cold]
    pub(crate) fn take(&mut self, now_ms: u64, limits: &Limits) -> Vec<String> {
        let are_due = [TLS, HANDSHAKE, MEMORY].map(|status| self.pause_ms(status, now_ms) == 0);
        let is_due = |refusal: &mut Refusal| match refusal.status {
            TLS => are_due[0],
            HANDSHAKE => are_due[1],
            MEMORY | HOLDER => are_due[2],
            _ => true,
        };
        let taken: Vec<Refusal> = self.since.extract_if(.., is_due).collect();
        for refusal in &taken {
            match refusal.status {
                TLS => self.tls_reported_ms = Some(now_ms),
                HANDSHAKE => self.handshake_reported_ms = Some(now_ms),
                MEMORY | HOLDER => self.memory_reported_ms = Some(now_ms),
                _ => {}
            }
        }
        self.reported_ms = Some(now_ms);
        let or_of_path = match self.has_path_bounds {
            true => " or the limit of its path",
            false => "",
        };
        let line = |refusal: &Refusal| match refusal.status {
            413 => refusal.line(limits) + or_of_path,
            TLS if self.redirects_to_https => {
                let count = refusal.count;
                let plural = if count == 1 { "" } else { "s" };
                format!(
                    "refused {count} connection{plural} with TLS at an address of --redirect-to-https, which is for plain HTTP"
                )
            }
            _ => refusal.line(limits),
        };
        taken.iter().map(line).collect()
    }
}

/// The client's address, without its port.
fn address(client: &Peer) -> String {
    match client {
        Peer::Internet(address) => address.ip().to_string(),
        Peer::Unix(_) | Peer::Local => "a local client".to_owned(),
    }
}

impl Refusal {
    /// The line, if it is about a shortage of memory or places.
    fn line_of_shortage(&self, plural: &str) -> Option<String> {
        let Refusal {
            status,
            count,
            reason,
        } = self;
        let line = match *status {
            MEMORY => {
                format!("refused {count} request{plural} with 503: clients hold nearly memory_max")
            }
            HOLDER => {
                format!("ended {count} connection{plural} that held most for longest: {reason}")
            }
            REAPED => format!("closed {count} idle connection{plural} for new ones: {reason}"),
            SLOW => format!(
                "ended {count} request{plural} that arrived slowly, for new connections: {reason}"
            ),
            _ => return None,
        };
        Some(line)
    }

    /// The line about a limit that is off by default.
    fn limited_line(&self, plural: &str) -> Option<String> {
        let (count, client) = (self.count, &self.reason);
        Some(match self.status {
            QUEUE_FULL => format!(
                "refused {count} request{plural} with 503: the queue is full (concurrency_max, queue_max)"
            ),
            QUEUE_TIMEOUT => format!(
                "refused {count} request{plural} with 503: waited too long (concurrency_max, queue_timeout_ms)"
            ),
            CLIENT_RATE => format!(
                "refused {count} request{plural} with 429, the last of {client} (client_requests_per_s_max, client_burst_max)"
            ),
            CLIENT_CONNECTIONS => format!(
                "refused {count} connection{plural} over client_connections_max, the last of {client}"
            ),
            _ => return None,
        })
    }

    fn line(&self, limits: &Limits) -> String {
        let (status, count) = (self.status, self.count);
        let plural = if count == 1 { "" } else { "s" };
        if status == TLS {
            return format!(
                "refused {count} connection{plural} with TLS on a port without it (see --certificate)"
            );
        }
        if status == HANDSHAKE {
            let reason = &self.reason;
            return match count {
                1 => format!("1 TLS handshake failed: {reason}"),
                _ => format!("{count} TLS handshakes failed, the last: {reason}"),
            };
        }
        let rare = self.limited_line(plural);
        let rare = rare.or_else(|| self.line_of_websocket());
        if let Some(line) = rare.or_else(|| self.line_of_shortage(plural)) {
            return line;
        }
        if status == PROXY_HEADER {
            let reason = &self.reason;
            return format!(
                "closed {count} connection{plural} without a valid PROXY header, the last of {reason} (see --proxy-protocol)"
            );
        }
        if status == HTTP2 {
            let reason = &self.reason;
            return match count {
                1 => format!("ended 1 HTTP/2 connection: {reason}"),
                _ => format!("ended {count} HTTP/2 connections, the last: {reason}"),
            };
        }
        if status == SURPLUS {
            // Some get 503, and others are closed at once.
            let most = limits.connections_max;
            return format!(
                "refused {count} connection{plural}: connections_max ({most}) are open"
            );
        }
        let mut line = format!("refused {count} request{plural} with {status}: ");
        // Writing to a String cannot fail.
        let _ = match status {
            413 => write!(
                line,
                "content over body_bytes_max ({})",
                limits.body_bytes_max
            ),
            414 => write!(
                line,
                "request line over request_line_bytes_max ({})",
                limits.request_line_bytes_max
            ),
            431 => write!(
                line,
                "header section over header_section_bytes_max ({}) or field_lines_max ({})",
                limits.header_section_bytes_max, limits.field_lines_max
            ),
            _ if count == 1 => write!(line, "{}", self.reason),
            _ => write!(line, "the last: {}", self.reason),
        };
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_reported_at_once_and_others_together() {
        let limits = Limits::default();
        let mut refusals = Refusals::default();
        assert_eq!(refusals.wait_ms(1000), None);
        refusals.add(413, "too long");
        assert_eq!(refusals.wait_ms(1000), Some(0));
        assert_eq!(
            refusals.take(1000, &limits),
            ["refused 1 request with 413: content over body_bytes_max (16777216)"]
        );
        refusals.add(413, "too long");
        refusals.add(413, "too long");
        refusals.add(400, "Host is missing.");
        refusals.add_connection();
        assert_eq!(refusals.wait_ms(2000), Some(PAUSE_MS - 1000));
        assert_eq!(refusals.wait_ms(1000 + PAUSE_MS), Some(0));
        assert_eq!(
            refusals.take(1000 + PAUSE_MS, &limits),
            [
                "refused 2 requests with 413: content over body_bytes_max (16777216)",
                "refused 1 request with 400: Host is missing.",
                "refused 1 connection: connections_max (16384) are open",
            ]
        );
        assert_eq!(refusals.wait_ms(1000 + PAUSE_MS), None);
    }

    #[test]
    fn what_memory_requires_is_reported_every_second() {
        let limits = Limits::default();
        let mut refusals = Refusals::default();
        refusals.add(503, BUDGET);
        refusals.add_holder("1 MiB");
        assert_eq!(refusals.wait_ms(0), Some(0));
        let lines = [
            "refused 1 request with 503: clients hold nearly memory_max",
            "ended 1 connection that held most for longest: 1 MiB",
        ];
        assert_eq!(refusals.take(0, &limits), lines);
        refusals.add(503, BUDGET);
        refusals.add(503, BUDGET);
        assert_eq!(refusals.wait_ms(100), Some(MEMORY_PAUSE_MS - 100));
        let line = "refused 2 requests with 503: clients hold nearly memory_max";
        assert_eq!(refusals.take(MEMORY_PAUSE_MS, &limits), [line]);
        refusals.add_reaped(Victims::Idle, 3, "connections_max are open");
        let line = "closed 3 idle connections for new ones: connections_max are open";
        assert_eq!(refusals.take(2 * PAUSE_MS, &limits), [line]);
    }

    #[test]
    fn tls_on_a_plain_port_is_one_line_per_minute() {
        let limits = Limits::default();
        let mut refusals = Refusals::default();
        refusals.add(400, EXPECTS_NO_TLS);
        assert_eq!(refusals.wait_ms(0), Some(0));
        let line = "refused 1 connection with TLS on a port without it (see --certificate)";
        assert_eq!(refusals.take(0, &limits), [line]);
        refusals.add(400, EXPECTS_NO_TLS);
        refusals.add(400, EXPECTS_NO_TLS);
        refusals.add(413, "too long");
        assert_eq!(refusals.wait_ms(1000), Some(PAUSE_MS - 1000));
        let line = "refused 1 request with 413: content over body_bytes_max (16777216)";
        assert_eq!(refusals.take(PAUSE_MS, &limits), [line]);
        assert_eq!(refusals.wait_ms(PAUSE_MS), Some(TLS_PAUSE_MS - PAUSE_MS));
        let line = "refused 2 connections with TLS on a port without it (see --certificate)";
        assert_eq!(refusals.take(TLS_PAUSE_MS, &limits), [line]);
        assert_eq!(refusals.wait_ms(TLS_PAUSE_MS), None);
    }

    #[test]
    fn tls_where_requests_are_redirected_names_that_address() {
        let mut refusals = Refusals {
            redirects_to_https: true,
            ..Refusals::default()
        };
        refusals.add(400, EXPECTS_NO_TLS);
        let line = "refused 1 connection with TLS at an address of --redirect-to-https, which is for plain HTTP";
        assert_eq!(refusals.take(0, &Limits::default()), [line]);
    }

    #[test]
    fn failed_handshakes_are_one_line_per_minute() {
        let limits = Limits::default();
        let mut refusals = Refusals::default();
        let client = Peer::Internet(([203, 0, 113, 7], 50_000).into());
        refusals.add_handshake(&client, &"no certificate");
        let line = "1 TLS handshake failed: 203.0.113.7: no certificate";
        assert_eq!(refusals.take(0, &limits), [line]);
        refusals.add_handshake(&client, &"a");
        refusals.add_handshake(&Peer::Local, &"b\r\n".repeat(1000));
        assert_eq!(refusals.wait_ms(1000), Some(TLS_PAUSE_MS - 1000));
        let line = format!(
            "2 TLS handshakes failed, the last: a local client: {}b ",
            "b  ".repeat(66)
        );
        assert_eq!(refusals.take(TLS_PAUSE_MS, &limits), [line]);
        assert_eq!(refusals.wait_ms(TLS_PAUSE_MS), None);
    }

    #[test]
    fn each_failed_handshake_is_reported_if_that_is_wanted() {
        let limits = Limits::default();
        let mut refusals = Refusals::with_handshakes(true);
        assert_eq!(refusals.wait_ms(0), None);
        for _ in 0..2 {
            refusals.add_handshake(&Peer::Local, &"no certificate");
            assert_eq!(refusals.wait_ms(0), Some(0));
            let line = "a TLS handshake failed: a local client: no certificate";
            assert_eq!(refusals.take_handshakes(), [line]);
            refusals.take(0, &limits);
        }
        assert_eq!(refusals.wait_ms(0), Some(TLS_PAUSE_MS));
        assert!(refusals.take_handshakes().is_empty());
    }

    #[test]
    fn slow_peers_and_a_lack_of_memory_are_not_reported() {
        let mut refusals = Refusals::default();
        refusals.add(408, "slow");
        refusals.add(503, "no memory");
        assert_eq!(refusals.wait_ms(0), None);
    }
}
