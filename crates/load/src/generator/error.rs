//! The ways in which requests fail, and their counts.

use std::collections::BTreeMap;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// The ways in which a request fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorClass {
    /// No connection was established, for reasons other than refusal: no free port, no route, a full UNIX backlog.
    Connect,
    /// No server listens there.
    Refused,
    /// The TLS handshake failed, or what came after it was not TLS.
    Tls,
    /// The response was not complete in time.
    Timeout,
    /// The server reset the connection.
    Reset,
    /// The server ended the connection before the response was complete.
    EarlyEof,
    /// A complete response with less content than expected.
    Short,
    /// A complete response with more content than expected.
    Long,
    /// The response violates HTTP.
    Malformed,
    /// A complete response with another status than expected.
    WrongStatus,
    /// A complete response of the right length with other bytes than expected.
    WrongBody,
    /// The response was followed by unexpected bytes.
    UnexpectedBytes,
    /// A correct response that arrived after the deadline.
    Late,
    /// HTTP/2: the server reset the stream.
    StreamReset,
    /// HTTP/2: the server sent GOAWAY instead of a response, although it had sent none on the connection, or because of an error.
    GoAway,
    /// The response was complete before the request was sent.
    EarlyResponse,
    /// WebSocket: the server refused the handshake, or responded to it wrongly.
    Handshake,
    /// WebSocket: the server closed the connection before the response.
    Closed,
}

impl ErrorClass {
    /// All classes.
    pub const ALL: [ErrorClass; 18] = [
        ErrorClass::Connect,
        ErrorClass::Refused,
        ErrorClass::Tls,
        ErrorClass::Timeout,
        ErrorClass::Reset,
        ErrorClass::EarlyEof,
        ErrorClass::Short,
        ErrorClass::Long,
        ErrorClass::Malformed,
        ErrorClass::WrongStatus,
        ErrorClass::WrongBody,
        ErrorClass::UnexpectedBytes,
        ErrorClass::Late,
        ErrorClass::StreamReset,
        ErrorClass::GoAway,
        ErrorClass::EarlyResponse,
        ErrorClass::Handshake,
        ErrorClass::Closed,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::Connect => "connect",
            ErrorClass::Refused => "refused",
            ErrorClass::Tls => "tls",
            ErrorClass::Timeout => "timeout",
            ErrorClass::Reset => "reset",
            ErrorClass::EarlyEof => "early_eof",
            ErrorClass::Short => "short",
            ErrorClass::Long => "long",
            ErrorClass::Malformed => "malformed",
            ErrorClass::WrongStatus => "wrong_status",
            ErrorClass::WrongBody => "wrong_body",
            ErrorClass::UnexpectedBytes => "unexpected_bytes",
            ErrorClass::Late => "late",
            ErrorClass::StreamReset => "stream_reset",
            ErrorClass::GoAway => "goaway",
            ErrorClass::EarlyResponse => "early_response",
            ErrorClass::Handshake => "handshake",
            ErrorClass::Closed => "closed",
        }
    }
}

/// Failed requests by class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Errors {
    counts: [u64; ErrorClass::ALL.len()],
}

impl Errors {
    /// How many requests failed in this way.
    pub fn get(&self, class: ErrorClass) -> u64 {
        self.counts.get(class as usize).copied().unwrap_or(0)
    }

    /// How many requests failed.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Every class with its count.
    pub fn iter(&self) -> impl Iterator<Item = (ErrorClass, u64)> {
        ErrorClass::ALL
            .into_iter()
            .map(|class| (class, self.get(class)))
    }

    pub(super) fn merge(&mut self, other: &Errors) {
        for (total, more) in self.counts.iter_mut().zip(other.counts) {
            *total += more;
        }
    }

    pub(super) fn add(&mut self, class: ErrorClass, count: u64) {
        if let Some(total) = self.counts.get_mut(class as usize) {
            *total += count;
        }
    }
}

impl Serialize for Errors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.counts.len()))?;
        for (class, count) in self.iter() {
            map.serialize_entry(class.name(), &count)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Errors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Errors, D::Error> {
        let counts = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let mut errors = Errors::default();
        for (name, count) in counts {
            let mut classes = ErrorClass::ALL.into_iter();
            let class = classes.find(|it| it.name() == name);
            let class = class.ok_or_else(|| D::Error::custom("there is no such class"))?;
            errors.add(class, count);
        }
        Ok(errors)
    }
}
