//! Trailer sections: the field names they must not contain (RFC 9110 6.5.1).
//!
//! The decoder has no buffer, so a name is compared while its bytes arrive: one bit for each
//! forbidden name means that all bytes so far match it.

use crate::field::is_field_name;

/// Fields of message framing, routing, request modification, authentication, response control and
/// content handling, in lower case, which a sender must not move to the end (RFC 9110 6.5.1).
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

/// Fields that have no meaning in requests, so are not refused there, but that a response must not
/// move to its end: they determine how it is stored or handled (RFC 9110 6.5.1).
const FORBIDDEN_IN_RESPONSES: [&[u8]; 7] = [
    b"age",
    b"content-disposition",
    b"content-language",
    b"content-location",
    b"date",
    b"expires",
    b"warning",
];

/// Whether a field of this name may be in the trailer section of a response.
///
/// RFC 9110 6.5.1 allows only fields whose definition permits it. A server cannot know every
/// definition, so this refuses fields known to be needed before the content: framing, routing,
/// request modifiers, authentication, response control and content handling. It also refuses
/// anything that is not a field name.
pub fn may_be_trailer(field_name: &[u8]) -> bool {
    let is_same = |forbidden: &&[u8]| forbidden.eq_ignore_ascii_case(field_name);
    is_field_name(field_name)
        && !FORBIDDEN.iter().any(is_same)
        && !FORBIDDEN_IN_RESPONSES.iter().any(is_same)
}

/// Whether a trailer section is refused for a field of this name.
pub(crate) fn is_forbidden_trailer(field_name: &[u8]) -> bool {
    FORBIDDEN
        .iter()
        .any(|forbidden| forbidden.eq_ignore_ascii_case(field_name))
}

/// A field name of which more bytes may arrive.
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

    /// Whether the complete name is a forbidden one.
    pub(crate) fn is_forbidden(self) -> bool {
        let whole = |(index, name): (usize, &&[u8])| {
            self.candidates & (1 << index) != 0 && name.len() == usize::from(self.len)
        };
        FORBIDDEN.iter().enumerate().any(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_needed_before_the_content_are_no_trailers() {
        for name in [
            "Content-Length",
            "TRANSFER-ENCODING",
            "host",
            "If-Match",
            "Set-Cookie",
            "www-authenticate",
            "Trailer",
            "Content-Type",
            "Content-Location",
            "Date",
            "Vary",
            "",
            "a b",
            "a\r\nb",
        ] {
            assert!(!may_be_trailer(name.as_bytes()), "{name}");
        }
        for name in [
            "ETag",
            "Server-Timing",
            "Content-Digest",
            "grpc-status",
            "X",
        ] {
            assert!(may_be_trailer(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn trailers_are_accepted_if_te_lists_them() {
        for (section, accepted) in [
            ("TE: trailers\r\n", true),
            ("te: Trailers\r\n", true),
            ("A: b\r\nTE: gzip;q=0.5 ,\ttrailers\r\nB: c\r\n", true),
            ("TE: gzip\r\nTE: trailers\r\n", true),
            ("", false),
            ("TE:\r\n", false),
            ("TE: trailer\r\n", false),
            ("TE: trailers;q=1\r\n", false),
            ("TE: xtrailers, deflate\r\n", false),
            ("Trailer: trailers\r\n", false),
        ] {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\n{section}\r\n");
            let parsed = crate::parse_request(head.as_bytes(), &crate::HeadLimits::default());
            let Ok(crate::Progress::Complete(head)) = parsed else {
                panic!("{section}");
            };
            assert_eq!(head.accepts_trailers, accepted, "{section}");
        }
    }
}
