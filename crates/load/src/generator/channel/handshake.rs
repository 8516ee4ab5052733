//! The server's response to the handshake (RFC 6455 4.1).

use wire::websocket::extension::{self, Agreement};
use wire::websocket::handshake::{ACCEPT_BYTES, extensions, subprotocols};
use wire::{HeadLimits, ResponseHead, ResponseProgress, field_lines, parse_response};

use super::messages::Messages;

/// The start of what the server has sent.
pub(super) enum Progress {
    /// An interim response of this many bytes, which means nothing; 0: more is needed.
    Incomplete(usize),
    /// The connection is a WebSocket after this many bytes.
    Upgraded(usize, Option<Agreement>),
    /// It is not, for this reason.
    Refused(Refusal),
}

/// Why there is no WebSocket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) struct Refusal {
    /// The status of the response; 0: it is none.
    pub(in super::super) status: u16,
    pub(in super::super) reason: String,
}

/// Reads the response at the start of `data`.
pub(super) fn read(data: &[u8], accept: &[u8; ACCEPT_BYTES], messages: &Messages) -> Progress {
    let refuse = |status, reason: &str| {
        let reason = reason.to_owned();
        Progress::Refused(Refusal { status, reason })
    };
    let head = match parse_response(data, &HeadLimits::default(), false) {
        Ok(ResponseProgress::Complete(head)) => head,
        Ok(ResponseProgress::Incomplete) => return Progress::Incomplete(0),
        Err(_) => return refuse(0, "the response is not HTTP"),
    };
    match head.status {
        101 => {}
        100..200 => return Progress::Incomplete(head.consumed),
        status => return refuse(status, &format!("status {status}")),
    }
    match check(&head, accept, messages) {
        Ok(agreement) => Progress::Upgraded(head.consumed, agreement),
        Err(reason) => refuse(101, reason),
    }
}

/// Checks status 101: what was agreed on.
fn check(
    head: &ResponseHead<'_>,
    accept: &[u8; ACCEPT_BYTES],
    messages: &Messages,
) -> Result<Option<Agreement>, &'static str> {
    let has = |name: &str, token: &[u8]| {
        values(head, name).any(|value| {
            let mut members = value.split(|byte| *byte == b',');
            members.any(|it| it.trim_ascii().eq_ignore_ascii_case(token))
        })
    };
    if !has("upgrade", b"websocket") || !has("connection", b"upgrade") {
        return Err("the response does not name the protocol websocket");
    }
    let mut accepted = values(head, "sec-websocket-accept");
    if accepted.next() != Some(accept) || accepted.next().is_some() {
        return Err("Sec-WebSocket-Accept is not the hash of the key");
    }
    let is_offered = |it: &[u8]| messages.subprotocols.iter().any(|offered| offered == it);
    let mut selected = subprotocols(head.field_section);
    if selected.next().is_some_and(|it| !is_offered(it)) || selected.next().is_some() {
        return Err("the server selected a subprotocol that was not offered");
    }
    let agreement = extension::agreed(extensions(head.field_section))
        .map_err(|_| "the server selected an extension that was not offered")?;
    match (agreement, messages.websocket.is_compressed) {
        (Some(_), false) => Err("the server selected an extension that was not offered"),
        (None, true) => Err("the server does not agree to permessage-deflate"),
        _ => Ok(agreement),
    }
}

fn values<'a>(head: &ResponseHead<'a>, name: &str) -> impl Iterator<Item = &'a [u8]> {
    field_lines(head.field_section)
        .filter(move |(field, _)| field.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, value)| value)
}
