//! The static table (RFC 7541 appendix A).

use super::Line;
use crate::h2::kind::{Flaw, Kind};

/// An entry: the text of its line, the length of its name, and what it is.
pub(in crate::h2) struct Entry {
    line: &'static str,
    name_len: usize,
    kind: Kind,
}

impl Entry {
    #[inline]
    pub(in crate::h2) fn line(&self) -> Line<'static> {
        Line {
            bytes: self.line.as_bytes(),
            name_len: self.name_len,
            kind: self.kind,
        }
    }
}

macro_rules! entries {
    ($($name:literal $value:literal $kind:expr;)*) => {
        [$(Entry {
            line: concat!($name, ": ", $value, "\r\n"),
            name_len: $name.len(),
            kind: $kind,
        },)*]
    };
}

const PLAIN: Kind = Kind::Plain;

/// Its first entry has the index 1.
pub(in crate::h2) static TABLE: [Entry; 61] = entries! {
    ":authority" "" Kind::Malformed(Flaw::Authority);
    ":method" "GET" Kind::Method;
    ":method" "POST" Kind::Method;
    ":path" "/" Kind::Path;
    ":path" "/index.html" Kind::Path;
    ":scheme" "http" Kind::Scheme;
    ":scheme" "https" Kind::Scheme;
    ":status" "200" Kind::Status;
    ":status" "204" Kind::Status;
    ":status" "206" Kind::Status;
    ":status" "304" Kind::Status;
    ":status" "400" Kind::Status;
    ":status" "404" Kind::Status;
    ":status" "500" Kind::Status;
    "accept-charset" "" PLAIN;
    "accept-encoding" "gzip, deflate" PLAIN;
    "accept-language" "" PLAIN;
    "accept-ranges" "" PLAIN;
    "accept" "" PLAIN;
    "access-control-allow-origin" "" PLAIN;
    "age" "" PLAIN;
    "allow" "" PLAIN;
    "authorization" "" PLAIN;
    "cache-control" "" PLAIN;
    "content-disposition" "" PLAIN;
    "content-encoding" "" PLAIN;
    "content-language" "" PLAIN;
    "content-length" "" Kind::Malformed(Flaw::ContentLength);
    "content-location" "" PLAIN;
    "content-range" "" PLAIN;
    "content-type" "" PLAIN;
    "cookie" "" Kind::Cookie;
    "date" "" PLAIN;
    "etag" "" PLAIN;
    "expect" "" PLAIN;
    "expires" "" PLAIN;
    "from" "" PLAIN;
    "host" "" Kind::Malformed(Flaw::Host);
    "if-match" "" PLAIN;
    "if-modified-since" "" PLAIN;
    "if-none-match" "" PLAIN;
    "if-range" "" PLAIN;
    "if-unmodified-since" "" PLAIN;
    "last-modified" "" PLAIN;
    "link" "" PLAIN;
    "location" "" PLAIN;
    "max-forwards" "" PLAIN;
    "proxy-authenticate" "" PLAIN;
    "proxy-authorization" "" PLAIN;
    "range" "" PLAIN;
    "referer" "" PLAIN;
    "refresh" "" PLAIN;
    "retry-after" "" PLAIN;
    "server" "" PLAIN;
    "set-cookie" "" PLAIN;
    "strict-transport-security" "" PLAIN;
    "transfer-encoding" "" Kind::Malformed(Flaw::Connection);
    "user-agent" "" PLAIN;
    "vary" "" PLAIN;
    "via" "" PLAIN;
    "www-authenticate" "" PLAIN;
};

/// The smallest index of a field name, which is in lower case.
pub(in crate::h2) fn index_of(name: &[u8]) -> Option<u8> {
    Some(match name {
        b":authority" => 1,
        b":method" => 2,
        b":path" => 4,
        b":scheme" => 6,
        b":status" => 8,
        b"accept-charset" => 15,
        b"accept-encoding" => 16,
        b"accept-language" => 17,
        b"accept-ranges" => 18,
        b"accept" => 19,
        b"access-control-allow-origin" => 20,
        b"age" => 21,
        b"allow" => 22,
        b"authorization" => 23,
        b"cache-control" => 24,
        b"content-disposition" => 25,
        b"content-encoding" => 26,
        b"content-language" => 27,
        b"content-length" => 28,
        b"content-location" => 29,
        b"content-range" => 30,
        b"content-type" => 31,
        b"cookie" => 32,
        b"date" => 33,
        b"etag" => 34,
        b"expect" => 35,
        b"expires" => 36,
        b"from" => 37,
        b"host" => 38,
        b"if-match" => 39,
        b"if-modified-since" => 40,
        b"if-none-match" => 41,
        b"if-range" => 42,
        b"if-unmodified-since" => 43,
        b"last-modified" => 44,
        b"link" => 45,
        b"location" => 46,
        b"max-forwards" => 47,
        b"proxy-authenticate" => 48,
        b"proxy-authorization" => 49,
        b"range" => 50,
        b"referer" => 51,
        b"refresh" => 52,
        b"retry-after" => 53,
        b"server" => 54,
        b"set-cookie" => 55,
        b"strict-transport-security" => 56,
        b"transfer-encoding" => 57,
        b"user-agent" => 58,
        b"vary" => 59,
        b"via" => 60,
        b"www-authenticate" => 61,
        _ => return None,
    })
}

/// The index of a line.
pub(in crate::h2) fn index_of_line(line: &[u8]) -> Option<usize> {
    let entry = TABLE
        .iter()
        .position(|entry| entry.line.as_bytes() == line)?;
    Some(entry + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_what_its_line_is() {
        let parts = |entry: &'static Entry| {
            let (name, value) = entry.line.split_at(entry.name_len);
            let value = value.strip_prefix(": ").expect("a colon");
            (name, value.strip_suffix("\r\n").expect("a line end"))
        };
        for (at, entry) in TABLE.iter().enumerate() {
            let (name, value) = parts(entry);
            assert_eq!(
                entry.kind,
                Kind::of(name.as_bytes(), value.as_bytes()),
                "{name}"
            );
            let first = TABLE.iter().position(|other| parts(other).0 == name);
            let index = index_of(name.as_bytes()).map(usize::from);
            assert_eq!(index, first.map(|first| first + 1), "{name}");
            assert!(first <= Some(at));
        }
        assert_eq!(index_of(b""), None);
        assert_eq!(index_of(b"x-powered-by"), None);
    }
}
