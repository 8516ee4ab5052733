//! Negotiates permessage-deflate (RFC 6455 9.1, RFC 7692 5 and 7.1).

use super::deflate::WindowBits;
use crate::grammar::{is_token, trim_ows};

/// The name of the extension.
const PERMESSAGE_DEFLATE: &[u8] = b"permessage-deflate";

/// What both sides agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// The server's window.
    pub server: Side,
    /// The client's window.
    pub client: Side,
    /// The response names the server's window, whatever it is: to leave out what the offer names would be to ignore it (RFC 7692 7.1.2.1).
    pub names_server_window: bool,
}

/// How one side compresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Side {
    /// Whether a message may refer to earlier ones.
    pub keeps_context: bool,
    /// How far back.
    pub window: WindowBits,
}

/// What a server wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preference {
    /// Each message for itself: no connection has memory for compression while it is idle.
    WithoutContext,
    /// Messages refer to earlier ones, at most as far back as the window.
    WithContext(WindowBits),
}

/// A line of Sec-WebSocket-Extensions that does not have the form of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// Selects the first offer that a server can accept, from the values of the client's Sec-WebSocket-Extensions lines: what is agreed on.
///
/// # Errors
/// If a value is malformed: the handshake is refused with 400 (RFC 6455 9.1).
pub fn select<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    preference: Preference,
) -> Result<Option<Agreement>, Malformed> {
    let mut selected = None;
    for value in values {
        let mut rest = value;
        while let Some((extension, after)) = next_extension(rest)? {
            let offer = Offer::parse(extension.parameters)?;
            if selected.is_none() && extension.name.eq_ignore_ascii_case(PERMESSAGE_DEFLATE) {
                selected = offer.and_then(|offer| offer.accept(preference));
            }
            rest = after;
        }
    }
    Ok(selected)
}

/// What a client offers that can decompress every window, and never refers to its earlier messages.
pub const OFFER: &[u8] = PERMESSAGE_DEFLATE;

/// What a server has agreed on, from the values of its response's Sec-WebSocket-Extensions lines, after [`OFFER`]. `None`: no extension.
///
/// # Errors
/// If a value is malformed, or not a response to the offer: the client fails the connection (RFC 6455 4.1, RFC 7692 7.1).
pub fn agreed<'a>(values: impl Iterator<Item = &'a [u8]>) -> Result<Option<Agreement>, Malformed> {
    let mut agreement = None;
    for value in values {
        let mut rest = value;
        while let Some((extension, after)) = next_extension(rest)? {
            let is_known = extension.name.eq_ignore_ascii_case(PERMESSAGE_DEFLATE);
            let response = Offer::parse(extension.parameters)?.filter(|_| is_known);
            let response = response.filter(|it| it.client_window.is_none());
            let accepted = response.ok_or(Malformed)?.as_response();
            if agreement.replace(accepted).is_some() {
                return Err(Malformed);
            }
            rest = after;
        }
    }
    Ok(agreement)
}

impl Agreement {
    /// The value of the response's Sec-WebSocket-Extensions line.
    ///
    /// `client_max_window_bits` is named only if the client may reduce its window, which [`Offer::accept`] has made sure of.
    pub fn push_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(PERMESSAGE_DEFLATE);
        let sides = [
            ("server", &self.server, self.names_server_window),
            ("client", &self.client, false),
        ];
        for (name, side, names_window) in sides {
            if !side.keeps_context {
                out.extend_from_slice(format!("; {name}_no_context_takeover").as_bytes());
            }
            if names_window || side.window != WindowBits::MAX {
                let bits = side.window.get();
                out.extend_from_slice(format!("; {name}_max_window_bits={bits}").as_bytes());
            }
        }
    }
}

/// The parameters of an offer (RFC 7692 7.1).
#[derive(Clone, Copy, Default, Debug)]
struct Offer {
    server_without_context: bool,
    client_without_context: bool,
    server_window: Option<u8>,
    /// Present: the client may reduce its window; to at most this.
    client_window: Option<u8>,
}

impl Offer {
    /// `None` if a parameter is unknown, repeated or out of range: the offer is declined (RFC 7692 7.1).
    fn parse(parameters: &[u8]) -> Result<Option<Offer>, Malformed> {
        let mut offer = Offer::default();
        let mut is_acceptable = true;
        let mut rest = parameters;
        while let Some((name, value, after)) = next_parameter(rest)? {
            is_acceptable &= offer.take(name, value);
            rest = after;
        }
        Ok(is_acceptable.then_some(offer))
    }

    fn take(&mut self, name: &[u8], value: Option<&[u8]>) -> bool {
        let is_new = |flag: &mut bool| value.is_none() && !core::mem::replace(flag, true);
        match name {
            b"server_no_context_takeover" => is_new(&mut self.server_without_context),
            b"client_no_context_takeover" => is_new(&mut self.client_without_context),
            b"server_max_window_bits" => {
                let bits = value.and_then(window_bits);
                bits.is_some() && core::mem::replace(&mut self.server_window, bits).is_none()
            }
            b"client_max_window_bits" => {
                let bits = value.map_or(Some(15), window_bits);
                bits.is_some() && core::mem::replace(&mut self.client_window, bits).is_none()
            }
            _ => false,
        }
    }

    /// The same parameters in a response, whose client did not offer to reduce its window. A window of 256 octets fits into one of 512.
    fn as_response(self) -> Agreement {
        let server_window = self
            .server_window
            .and_then(|bits| WindowBits::new(bits.max(9)));
        Agreement {
            server: Side {
                keeps_context: !self.server_without_context,
                window: server_window.unwrap_or(WindowBits::MAX),
            },
            client: Side {
                keeps_context: !self.client_without_context,
                window: WindowBits::MAX,
            },
            names_server_window: self.server_window.is_some(),
        }
    }

    /// What a server with `preference` agrees on. It declines a window of 256 octets for itself, which zlib cannot keep to.
    fn accept(self, preference: Preference) -> Option<Agreement> {
        let server_limit = match self.server_window {
            Some(bits) => WindowBits::new(bits)?,
            None => WindowBits::MAX,
        };
        let (keeps_context, wanted) = match preference {
            Preference::WithoutContext => (false, WindowBits::MAX),
            Preference::WithContext(window) => (true, window),
        };
        // The client's window can be reduced only if it says that it can, and the response names no greater one than the offer (RFC 7692
        // 7.1.2.2): none at all for a client that keeps to 256 octets anyway.
        let client_limit = match self.client_window.map(WindowBits::new) {
            Some(Some(bits)) => bits.min(wanted),
            Some(None) | None => WindowBits::MAX,
        };
        Some(Agreement {
            server: Side {
                keeps_context: keeps_context && !self.server_without_context,
                window: server_limit.min(wanted),
            },
            client: Side {
                keeps_context: keeps_context && !self.client_without_context,
                window: client_limit,
            },
            names_server_window: self.server_window.is_some(),
        })
    }
}

/// A number from 8 to 15 without leading zeros.
fn window_bits(value: &[u8]) -> Option<u8> {
    match value {
        [digit @ b'8'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => Some(10 + digit - b'0'),
        _ => None,
    }
}

struct Extension<'a> {
    name: &'a [u8],
    parameters: &'a [u8],
}

/// The next element of the list, and what follows its comma. Empty elements are skipped (RFC 9110 5.6.1).
fn next_extension(list: &[u8]) -> Result<Option<(Extension<'_>, &[u8])>, Malformed> {
    let mut rest = list;
    loop {
        if rest.is_empty() {
            return Ok(None);
        }
        let end = end_of_part(rest, b',')?;
        let (element, after) = rest.split_at_checked(end).ok_or(Malformed)?;
        rest = after.get(1..).unwrap_or_default();
        let element = trim_ows(element);
        if element.is_empty() {
            continue;
        }
        let end = end_of_part(element, b';')?;
        let (name, parameters) = element.split_at_checked(end).ok_or(Malformed)?;
        let name = trim_ows(name);
        if !is_token(name) {
            return Err(Malformed);
        }
        return Ok(Some((Extension { name, parameters }, rest)));
    }
}

type Parameter<'a> = (&'a [u8], Option<&'a [u8]>, &'a [u8]);

/// Name and value of the parameter after the next semicolon, and what follows it.
fn next_parameter(parameters: &[u8]) -> Result<Option<Parameter<'_>>, Malformed> {
    let Some(rest) = parameters.strip_prefix(b";") else {
        return match parameters {
            [] => Ok(None),
            _ => Err(Malformed),
        };
    };
    let end = end_of_part(rest, b';')?;
    let (parameter, after) = rest.split_at_checked(end).ok_or(Malformed)?;
    let parameter = trim_ows(parameter);
    let (name, value) = match parameter.iter().position(|byte| *byte == b'=') {
        None => (parameter, None),
        Some(at) => {
            let (name, value) = parameter.split_at_checked(at).ok_or(Malformed)?;
            let value = trim_ows(value.get(1..).unwrap_or_default());
            (trim_ows(name), Some(unquoted(value)?))
        }
    };
    match is_token(name) {
        true => Ok(Some((name, value, after))),
        false => Err(Malformed),
    }
}

/// A value: a token, or a quoted string whose content is a token (RFC 6455 9.1).
fn unquoted(value: &[u8]) -> Result<&[u8], Malformed> {
    let token = match value {
        [b'"', content @ .., b'"'] => content,
        value => value,
    };
    match is_token(token) {
        true => Ok(token),
        false => Err(Malformed),
    }
}

/// Where the next `separator` outside of a quoted string is, or the end.
fn end_of_part(list: &[u8], separator: u8) -> Result<usize, Malformed> {
    let mut is_quoted = false;
    for (at, byte) in list.iter().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            byte if *byte == separator && !is_quoted => return Ok(at),
            _ => {}
        }
    }
    match is_quoted {
        true => Err(Malformed),
        false => Ok(list.len()),
    }
}
