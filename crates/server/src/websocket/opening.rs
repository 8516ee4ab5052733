//! The opening handshake: what the server decides about it before the application does, and the fields of the response that accepts it.

use wire::RequestHead;
use wire::websocket::extension::{self, Agreement};
use wire::websocket::handshake::{
    self, ACCEPT_BYTES, Refusal, VERSION, check_connect, check_upgrade,
};

use crate::app::App;
use crate::app::websocket::Opening;
use crate::context::clients::ClientPlace;
use crate::context::websockets::WebSockets;
use crate::link::Turn;
use crate::link::admission::ClientIsFull;
use crate::response::{CLIENT_IS_FULL, Response};

/// A handshake that the application may accept.
#[derive(Debug)]
pub(crate) struct Handshake {
    /// The value of Sec-WebSocket-Accept; None over HTTP/2.
    accept: Option<[u8; ACCEPT_BYTES]>,
    pub(crate) agreement: Option<Agreement>,
    /// Counts the WebSocket for the client that a proxy names.
    pub(crate) client: Option<Box<ClientPlace>>,
}

/// A handshake that the server refuses.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) reason: &'static str,
    /// Encoded field lines.
    fields: Vec<u8>,
}

impl Refused {
    pub(crate) fn new(status: u16, reason: &'static str) -> Refused {
        let fields = Vec::new();
        Refused {
            status,
            reason,
            fields,
        }
    }

    fn of(refusal: Refusal) -> Refused {
        let mut refused = Refused::new(refusal.status(), refusal.reason());
        if refusal == Refusal::VersionUnsupported {
            push_line(&mut refused.fields, b"Sec-WebSocket-Version", VERSION);
        }
        refused
    }

    /// A response of HTTP/1.1 with 426 names the protocol (RFC 9110 section 15.5.22).
    fn with_upgrade(mut self) -> Refused {
        if self.status == 426 {
            push_line(&mut self.fields, b"Upgrade", b"websocket");
        }
        self
    }

    pub(crate) fn response(&self) -> Response {
        let mut response = Response::error(self.status, self.reason);
        response.fields.extend_from_slice(&self.fields);
        response
    }
}

/// Checks a request of HTTP/1.1 that asks for the upgrade.
pub(crate) fn check_h1(head: &RequestHead<'_>, shared: &WebSockets) -> Result<Handshake, Refused> {
    let accept = check_upgrade(head).map_err(|refusal| Refused::of(refusal).with_upgrade())?;
    check(head, shared, Some(accept))
}

/// Checks an extended CONNECT of HTTP/2.
pub(crate) fn check_h2(head: &RequestHead<'_>, shared: &WebSockets) -> Result<Handshake, Refused> {
    check_connect(head.field_section).map_err(Refused::of)?;
    check(head, shared, None)
}

fn check(
    head: &RequestHead<'_>,
    shared: &WebSockets,
    accept: Option<[u8; ACCEPT_BYTES]>,
) -> Result<Handshake, Refused> {
    let host = head.authority.or(head.host);
    let mut fields = wire::field_lines(head.field_section);
    let is_allowed = fields.all(|(name, value)| {
        !name.eq_ignore_ascii_case(b"origin") || shared.config.origins.allow(value, host)
    });
    if !is_allowed {
        let reason = "This server does not accept WebSockets from this origin.";
        return Err(Refused::new(403, reason));
    }
    let agreement = match shared.config.compression.preference() {
        None => None,
        Some(preference) => {
            let offers = handshake::extensions(head.field_section);
            let reason = "Sec-WebSocket-Extensions is malformed";
            extension::select(offers, preference).map_err(|_| Refused::new(400, reason))?
        }
    };
    Ok(Handshake {
        accept,
        agreement,
        client: None,
    })
}

impl Handshake {
    /// The same, counted for the client that a proxy names.
    ///
    /// # Errors
    /// If that client has as many connections as it may have.
    pub(crate) fn counted<A: App>(
        self,
        turn: &mut Turn<'_, A>,
        head: &RequestHead<'_>,
    ) -> Result<Handshake, Refused> {
        match turn.place_client(head) {
            Ok(place) => Ok(Handshake {
                client: place.map(Box::new),
                ..self
            }),
            Err(ClientIsFull) => Err(Refused::new(503, CLIENT_IS_FULL)),
        }
    }

    /// Encoded field lines of the response that accepts it.
    pub(crate) fn fields(&self, opening: &Opening) -> Vec<u8> {
        let mut fields = Vec::new();
        if let Some(accept) = &self.accept {
            fields.extend_from_slice(b"Upgrade: websocket\r\nConnection: Upgrade\r\n");
            push_line(&mut fields, b"Sec-WebSocket-Accept", accept);
        }
        if let Some(subprotocol) = &opening.subprotocol {
            push_line(&mut fields, b"Sec-WebSocket-Protocol", subprotocol);
        }
        if let Some(agreement) = &self.agreement {
            let mut value = Vec::new();
            agreement.push_value(&mut value);
            push_line(&mut fields, b"Sec-WebSocket-Extensions", &value);
        }
        fields.extend_from_slice(&opening.fields);
        fields
    }
}

fn push_line(fields: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [name, b": ", value, b"\r\n"] {
        fields.extend_from_slice(part);
    }
}
