//! The start of a connection: its first bytes, or its TLS handshake, select the protocol.

use net::Received;
use net::memory::{NoMemory, append, is_short};

use super::handshake::{Handshake, wrong_scheme};
use super::{Connection, Phase};
use crate::app::App;
use crate::context::Context;
use crate::h1::H1;
use crate::h2::{self, H2};
use crate::link::{Fate, Link, Turn, Unread};

/// The name of HTTP/2 in a TLS handshake (RFC 9113 section 3.2).
const H2_NAME: &[u8] = b"h2";

/// What is known of the start of a connection.
pub(super) enum First {
    /// A header of the PROXY protocol comes first.
    ProxyHeader,
    /// Bytes that do not select a protocol yet.
    Bytes(Vec<u8>),
}

impl First {
    /// Memory held, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        match self {
            First::ProxyHeader => 0,
            First::Bytes(bytes) => bytes.capacity(),
        }
    }
}

impl Phase {
    /// The phase of a new connection.
    pub(super) fn first(since_ms: u64, is_handshaking: bool, expects_header: bool) -> Phase {
        match (expects_header, is_handshaking) {
            (true, _) => Phase::Preface {
                since_ms,
                first: First::ProxyHeader,
            },
            (false, true) => Phase::Handshake(Handshake::new(since_ms)),
            (false, false) => Phase::preface(since_ms),
        }
    }

    /// A connection that has not sent anything.
    pub(super) fn preface(since_ms: u64) -> Phase {
        Phase::Preface {
            since_ms,
            first: First::Bytes(Vec::new()),
        }
    }
}

impl Connection {
    /// No request has started in time. One that has arrived meanwhile is served.
    #[cold]
    pub(super) fn late_preface(&mut self, context: &Context) -> Fate {
        match &mut self.phase {
            // What has arrived of it is not read.
            Phase::Preface {
                first: First::ProxyHeader,
                ..
            } => Fate::Close,
            Phase::Preface {
                since_ms,
                first: First::Bytes(first),
            } if first.is_empty() && self.link.will_read() => {
                *since_ms = context.clock.now_ms();
                Fate::Open
            }
            _ => self.end(context, Unread::Possible),
        }
    }

    /// Selects the protocol and serves the first bytes, or waits for more of them.
    pub(super) fn start<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        bytes: &[u8],
    ) -> Fate {
        let Phase::Preface {
            first: First::Bytes(first),
            ..
        } = &mut self.phase
        else {
            return Fate::Open;
        };
        let mut joined = std::mem::take(first);
        let all = match joined.is_empty() {
            true => bytes,
            false => {
                if let Err(NoMemory(bytes)) = append(&mut joined, bytes) {
                    context.note_shortage(bytes);
                    return Fate::Close;
                }
                &joined
            }
        };
        if let Some(reason) = wrong_scheme(all, &self.link) {
            return self.refuse_scheme(context, app, reason);
        }
        let Some(is_http2) = is_http2(&self.link, all, context) else {
            *first = all.to_vec();
            return Fate::Open;
        };
        let spare_bytes = context.limits.h2_spare_bytes();
        if is_http2 && is_short(spare_bytes) {
            context.note_shortage(spare_bytes);
            return Fate::Close;
        }
        let now_ms = context.clock.now_ms();
        self.phase = match is_http2 {
            true => Phase::H2(Box::new(H2::new(&context.limits, now_ms))),
            false => Phase::H1(H1::new(now_ms)),
        };
        let link = &mut self.link;
        let received = Received::Bytes(all.len());
        let turn = &mut Turn { link, context, app };
        let fate = match &mut self.phase {
            Phase::H1(h1) => h1.received(turn, &received, all),
            Phase::H2(h2) => h2.received(turn, &received, all),
            _ => Fate::Close,
        };
        self.conclude(context, app, fate)
    }
}

/// Whether a connection uses HTTP/2: by its TLS handshake (RFC 7301), else by its first bytes. None if they do not suffice.
fn is_http2(link: &Link, first: &[u8], context: &Context) -> Option<bool> {
    match link.transport.protocol() {
        Some(protocol) => Some(protocol == H2_NAME),
        None if link.is_secure() || !context.accepts_prior_knowledge => Some(false),
        None => h2::is_prior_knowledge(first),
    }
}
