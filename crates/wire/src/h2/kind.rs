//! What one field line is, decided from its name and value alone.
//!
//! An entry of the decoder's table keeps the result, so a field that a client repeats is examined once.

use crate::field::connection_field::connection_field;
use crate::framing;
use crate::grammar::{HTAB, SP, is_lower_tchar, is_token};
use crate::host::is_host;
use crate::scan;

/// What a field line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A field without a meaning for the block.
    Plain,
    /// A crumb of the cookies (RFC 9113 8.2.3).
    Cookie,
    /// A valid Host.
    Host,
    /// A valid Content-Length.
    ContentLength,
    /// `:method`, a token.
    Method,
    /// `:scheme`, http or https.
    Scheme,
    /// `:authority`, a host with an optional port.
    Authority,
    /// `:path` in origin-form.
    Path,
    /// `:path` of OPTIONS in asterisk-form.
    Asterisk,
    /// `:protocol`, websocket (RFC 8441 4).
    WebSocket,
    /// Another `:protocol`, a token.
    OtherProtocol,
    /// `:status`, from 100 to 999.
    Status,
    /// None of these.
    Malformed(Flaw),
}

/// Why a field line makes the message malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    Name,
    Value,
    Connection,
    Te,
    UnknownPseudo,
    Protocol,
    Method,
    Scheme,
    Authority,
    Path,
    Status,
    Host,
    ContentLength,
}

impl Flaw {
    /// One sentence for the debug log.
    #[cold]
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Flaw::Name => "A field name is not a token in lower case.",
            Flaw::Value => {
                "A field value holds a control byte, or starts or ends with white space."
            }
            Flaw::Connection => "A field is specific to connections of HTTP/1.",
            Flaw::Te => "TE has a value other than trailers.",
            Flaw::UnknownPseudo => "A pseudo-header field is unknown.",
            Flaw::Protocol => "The protocol is not a token.",
            Flaw::Method => "The method is not a token.",
            Flaw::Scheme => "The scheme is neither http nor https.",
            Flaw::Authority => "The authority is not a host with an optional port.",
            Flaw::Path => "The path does not start with a slash, or holds a forbidden byte.",
            Flaw::Status => "The status is not a number of three digits.",
            Flaw::Host => "Host is malformed.",
            Flaw::ContentLength => "Content-Length is not a decimal number.",
        }
    }
}

impl Kind {
    /// Whether it is a pseudo-header field (RFC 9113 8.3) that is well-formed.
    #[inline]
    pub(crate) fn is_pseudo(self) -> bool {
        matches!(
            self,
            Kind::Method
                | Kind::Scheme
                | Kind::Authority
                | Kind::Path
                | Kind::Asterisk
                | Kind::WebSocket
                | Kind::OtherProtocol
                | Kind::Status
        )
    }

    /// What the line of this name and value is; `named` is what an entry with this name is. A name that has been found to be one is not
    /// examined again.
    #[inline]
    pub(crate) fn of_named(named: Kind, name: &[u8], value: &[u8]) -> Kind {
        match named {
            Kind::Plain | Kind::Cookie if name != b"te" => {
                valid(named, Flaw::Value, is_value(value))
            }
            _ => Kind::of(name, value),
        }
    }

    /// What the line of this name and value is (RFC 9113 8.2, 8.3).
    pub(crate) fn of(name: &[u8], value: &[u8]) -> Kind {
        if let [b':', ..] = name {
            return pseudo(name, value);
        }
        if name.is_empty() || !scan::skip_class(name, is_lower_tchar).is_empty() {
            return Kind::Malformed(Flaw::Name);
        }
        if !is_value(value) {
            return Kind::Malformed(Flaw::Value);
        }
        let (kind, flaw, is_valid) = match name {
            b"cookie" => return Kind::Cookie,
            b"host" => (Kind::Host, Flaw::Host, is_host(value)),
            b"content-length" => (
                Kind::ContentLength,
                Flaw::ContentLength,
                framing::content_length(value).is_ok(),
            ),
            b"te" => {
                let is_valid = value.eq_ignore_ascii_case(b"trailers");
                (Kind::Plain, Flaw::Te, is_valid)
            }
            _ => (
                Kind::Plain,
                Flaw::Connection,
                connection_field(name).is_none(),
            ),
        };
        valid(kind, flaw, is_valid)
    }
}

fn valid(kind: Kind, flaw: Flaw, is_valid: bool) -> Kind {
    if is_valid {
        kind
    } else {
        Kind::Malformed(flaw)
    }
}

fn pseudo(name: &[u8], value: &[u8]) -> Kind {
    match name {
        b":method" => valid(Kind::Method, Flaw::Method, is_token(value)),
        b":scheme" => {
            let is_known =
                value.eq_ignore_ascii_case(b"https") || value.eq_ignore_ascii_case(b"http");
            valid(Kind::Scheme, Flaw::Scheme, is_known)
        }
        b":authority" => valid(Kind::Authority, Flaw::Authority, is_host(value)),
        b":path" if value == b"*" => Kind::Asterisk,
        b":path" => valid(Kind::Path, Flaw::Path, is_origin_form(value)),
        b":status" => valid(Kind::Status, Flaw::Status, is_status(value)),
        b":protocol" if value.eq_ignore_ascii_case(b"websocket") => Kind::WebSocket,
        b":protocol" => valid(Kind::OtherProtocol, Flaw::Protocol, is_token(value)),
        _ => Kind::Malformed(Flaw::UnknownPseudo),
    }
}

/// RFC 9113 8.2.1: no white space at an end. As in HTTP/1, no control byte but HTAB.
fn is_value(value: &[u8]) -> bool {
    let is_ows = |byte: &u8| matches!(*byte, SP | HTAB);
    scan::skip_field_value(value).is_empty()
        && !value.first().is_some_and(is_ows)
        && !value.last().is_some_and(is_ows)
}

/// The grammar of HTTP/1: `origin-form = absolute-path [ "?" query ]` (RFC 9112 3.2.1).
pub(crate) fn is_origin_form(path: &[u8]) -> bool {
    let mut rest = scan::skip_path(path);
    if let [b'?', query @ ..] = rest {
        rest = scan::skip_query(query);
    }
    path.first() == Some(&b'/') && rest.is_empty()
}

fn is_status(value: &[u8]) -> bool {
    matches!(value, [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'])
}
