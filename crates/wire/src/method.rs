//! Methods and versions: the two closed sets of a request line.

/// The method of a request (RFC 9110 9.3, RFC 5789).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Method {
    /// GET, RFC 9110 9.3.1.
    Get,
    /// HEAD, RFC 9110 9.3.2.
    Head,
    /// POST, RFC 9110 9.3.3.
    Post,
    /// PUT, RFC 9110 9.3.4.
    Put,
    /// DELETE, RFC 9110 9.3.5.
    Delete,
    /// OPTIONS, RFC 9110 9.3.7.
    Options,
    /// PATCH, RFC 5789.
    Patch,
    /// TRACE, RFC 9110 9.3.8.
    Trace,
    /// CONNECT, RFC 9110 9.3.6. An HTTP/1 request with it is refused: this is not a proxy.
    Connect,
    /// Any other token; the application decides.
    Other,
}

impl Method {
    /// The method with this name. Names are case-sensitive (RFC 9110 9.1).
    pub fn from_bytes(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"PATCH" => Method::Patch,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            _ => Method::Other,
        }
    }

    /// Whether the method is safe: it requests no change of state (RFC 9110 9.2.1).
    ///
    /// Pipelined requests may run at the same time only when they are safe (RFC 9112 9.3.2).
    pub fn is_safe(self) -> bool {
        matches!(
            self,
            Method::Get | Method::Head | Method::Options | Method::Trace
        )
    }
}

/// The HTTP version that a message is treated as (RFC 9112 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, and any higher minor version, which a recipient treats the same (RFC 9110 2.5).
    #[default]
    Http11,
    /// HTTP/2 (RFC 9113).
    Http2,
}

impl Version {
    /// The version as a protocol's name and number (RFC 9110 2.5), as in a status line; HTTP/2 is `HTTP/2.0`, as gateways and logs of other
    /// servers write it.
    pub fn name(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
        }
    }

    /// The number alone; that of HTTP/2 has no minor version (RFC 9113 1).
    pub fn number(self) -> &'static str {
        match self {
            Version::Http10 => "1.0",
            Version::Http11 => "1.1",
            Version::Http2 => "2",
        }
    }
}
