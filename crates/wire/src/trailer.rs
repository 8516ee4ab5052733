//! Names that a trailer section must not hold (RFC 9110 6.5.1).
//!
//! The decoder has no buffer, so a name is compared while its bytes pass: one bit per forbidden
//! name says that all bytes so far agree with it.

/// Fields of message framing, routing, request modification, authentication, response control and
/// content handling, in lower case: what RFC 9110 6.5.1 says a sender must not move to the end.
const FORBIDDEN: [&[u8]; 40] = [
    b"authorization",
    b"cache-control",
    b"connection",
    b"content-encoding",
    b"content-length",
    b"content-range",
    b"content-type",
    b"cookie",
    b"expect",
    b"forwarded",
    b"host",
    b"http2-settings",
    b"if-match",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"if-unmodified-since",
    b"keep-alive",
    b"location",
    b"max-forwards",
    b"origin",
    b"pragma",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"range",
    b"referer",
    b"retry-after",
    b"set-cookie",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"user-agent",
    b"vary",
    b"www-authenticate",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-proto",
    b"x-real-ip",
];

/// A field name on its way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrailerName {
    candidates: u64,
    len: u16,
}

impl TrailerName {
    pub(crate) const fn new() -> TrailerName {
        TrailerName {
            candidates: (1 << FORBIDDEN.len()) - 1,
            len: 0,
        }
    }

    /// Takes the next byte of the name.
    pub(crate) fn push(&mut self, byte: u8) {
        let mut bits = self.candidates;
        while bits != 0 {
            let index = bits.trailing_zeros();
            bits &= bits - 1;
            let name = FORBIDDEN.get(index as usize).copied().unwrap_or_default();
            if name.get(usize::from(self.len)) != Some(&byte.to_ascii_lowercase()) {
                self.candidates &= !(1 << index);
            }
        }
        self.len = self.len.saturating_add(1);
    }

    /// Whether the whole name is a forbidden one.
    pub(crate) fn is_forbidden(self) -> bool {
        let whole = |(index, name): (usize, &&[u8])| {
            self.candidates & (1 << index) != 0 && name.len() == usize::from(self.len)
        };
        FORBIDDEN.iter().enumerate().any(whole)
    }
}
