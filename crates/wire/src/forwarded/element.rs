//! The elements of Forwarded (RFC 7239 section 4).
//!
//! ```text
//! Forwarded         = 1#forwarded-element
//! forwarded-element = [ forwarded-pair ] *( ";" [ forwarded-pair ] )
//! forwarded-pair    = token "=" value
//! value             = token / quoted-string
//! ```
//!
//! White space around a semicolon is accepted, since many write it. It is not accepted around the equals sign. No parameter may be in an element
//! twice.

use std::borrow::Cow;

use crate::grammar::{HTAB, SP, is_field_value_byte, is_tchar};

/// What one proxy says.
#[derive(Debug, Default)]
pub(super) struct Element<'a> {
    /// The value of `for`.
    pub(super) node: Option<Cow<'a, [u8]>>,
    pub(super) proto: Option<Cow<'a, [u8]>>,
    pub(super) host: Option<Cow<'a, [u8]>>,
    by: Option<Cow<'a, [u8]>>,
}

/// The elements of one field line, without empty ones; None if it is malformed.
pub(super) fn elements(line: &[u8]) -> Option<Vec<Element<'_>>> {
    let (mut elements, mut rest) = (Vec::new(), line);
    loop {
        let (element, after) = element(rest)?;
        elements.extend(element);
        match after {
            [] => return Some(elements),
            [_, after @ ..] => rest = after,
        }
    }
}

/// One element, unless it is empty, and what follows it: nothing, or a comma and more.
fn element(bytes: &[u8]) -> Option<(Option<Element<'_>>, &[u8])> {
    let (mut element, mut is_any, mut rest) = (Element::default(), false, skip_ows(bytes));
    loop {
        if !matches!(rest, [] | [b',' | b';', ..]) {
            rest = skip_ows(pair(rest, &mut element)?);
            is_any = true;
        }
        match rest {
            [b';', after @ ..] => rest = skip_ows(after),
            [] | [b',', ..] => return Some((is_any.then_some(element), rest)),
            _ => return None,
        }
    }
}

/// Reads a pair into `element`. Returns what follows it.
fn pair<'a>(bytes: &'a [u8], element: &mut Element<'a>) -> Option<&'a [u8]> {
    let (name, rest) = token(bytes)?;
    let (value, rest) = match rest.strip_prefix(b"=")? {
        [b'"', quoted @ ..] => quoted_string(quoted)?,
        rest => {
            let (value, rest) = token(rest)?;
            (Cow::Borrowed(value), rest)
        }
    };
    let place = match name.to_ascii_lowercase().as_slice() {
        b"for" => &mut element.node,
        b"proto" => &mut element.proto,
        b"host" => &mut element.host,
        b"by" => &mut element.by,
        // An extension (RFC 7239 section 5.5).
        _ => return Some(rest),
    };
    match place.replace(value) {
        None => Some(rest),
        Some(_) => None,
    }
}

fn token(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| !is_tchar(*byte));
    let end = end.unwrap_or(bytes.len());
    (end > 0).then(|| bytes.split_at(end))
}

/// The content of a quoted string (RFC 9110 5.6.4) whose opening quote was read, and what follows it.
fn quoted_string(bytes: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let end = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    let (plain, rest) = bytes.split_at(end);
    if let [b'"', rest @ ..] = rest {
        return Some((Cow::Borrowed(plain), rest));
    }
    let (mut content, mut rest) = (plain.to_vec(), rest);
    loop {
        match rest {
            [b'"', rest @ ..] => return Some((Cow::Owned(content), rest)),
            [b'\\', byte, after @ ..] if is_field_value_byte(*byte) => {
                content.push(*byte);
                rest = after;
            }
            [b'\\', ..] | [] => return None,
            [byte, after @ ..] => {
                content.push(*byte);
                rest = after;
            }
        }
    }
}

fn skip_ows(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !matches!(*byte, SP | HTAB));
    bytes
        .get(start.unwrap_or(bytes.len())..)
        .unwrap_or_default()
}
