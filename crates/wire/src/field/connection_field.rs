//! The fields of a response that concern the connection, or how the message is framed on it.
//!
//! HTTP/1.1 lets a recipient forward everything except these (RFC 9110 section 7.6.1, RFC 9112 section 6.1). An application cannot know
//! their values, so only the server sets them.

/// Their names, in lower case.
pub const CONNECTION_FIELDS: [&str; 6] = [
    "te",
    "upgrade",
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
];

/// The index of a field in [`CONNECTION_FIELDS`]; `None` if an application may set it.
#[inline]
pub fn connection_field(field_name: &[u8]) -> Option<usize> {
    let candidates = match field_name.len() {
        2 => 0..1,
        7 => 1..2,
        10 => 2..4,
        16 => 4..5,
        17 => 5..6,
        _ => return None,
    };
    let is_it = |name: &str| name.as_bytes().eq_ignore_ascii_case(field_name);
    let mut names = CONNECTION_FIELDS.get(candidates.clone())?.iter();
    let found = names.position(|name| is_it(name));
    found.map(|index| candidates.start + index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_in_any_case_and_nothing_else() {
        for (index, name) in CONNECTION_FIELDS.iter().enumerate() {
            assert_eq!(connection_field(name.as_bytes()), Some(index));
            let upper = name.to_ascii_uppercase();
            assert_eq!(connection_field(upper.as_bytes()), Some(index));
        }
        for name in [
            "",
            "x",
            "trailer",
            "content-length",
            "set-cookie",
            "keep-alivf",
            "date",
        ] {
            assert_eq!(connection_field(name.as_bytes()), None, "{name}");
        }
    }
}
