//! What is counted of WebSocket besides messages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{End, Refusal};

/// Handshakes and ends, for the whole run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct WebSocketReport {
    /// Connections that became WebSockets.
    pub upgrades: u64,
    /// Close frames of the server by code; 1005: without one.
    pub closes: BTreeMap<u16, u64>,
    /// Responses that were no WebSocket, by status; 0: the response was not HTTP.
    pub refusals: BTreeMap<u16, u64>,
    /// Pings of the server that got no pong of their own, because it did not read those to earlier ones.
    pub pings_unanswered: u64,
    /// What was wrong with the first of them, or with the first violation of the protocol.
    pub first_failure: String,
}

impl WebSocketReport {
    pub(in super::super) fn note_upgrade(&mut self) {
        self.upgrades += 1;
    }

    #[cold]
    pub(in super::super) fn note_end(&mut self, end: &End) {
        let reason = match end {
            End::Closed(code) => {
                let code = code.map_or(1005, |it| it.0);
                *self.closes.entry(code).or_default() += 1;
                return;
            }
            End::Refused(Refusal { status, reason }) => {
                *self.refusals.entry(*status).or_default() += 1;
                reason.clone()
            }
            End::Failed(failure) => failure.reason().to_owned(),
        };
        if self.first_failure.is_empty() {
            self.first_failure = reason;
        }
    }

    /// Adds the counts of another thread, or run.
    pub(in super::super) fn merge(mut self, other: &WebSocketReport) -> WebSocketReport {
        self.upgrades += other.upgrades;
        self.pings_unanswered += other.pings_unanswered;
        for (code, count) in &other.closes {
            *self.closes.entry(*code).or_default() += count;
        }
        for (status, count) in &other.refusals {
            *self.refusals.entry(*status).or_default() += count;
        }
        if self.first_failure.is_empty() {
            self.first_failure.clone_from(&other.first_failure);
        }
        self
    }
}
