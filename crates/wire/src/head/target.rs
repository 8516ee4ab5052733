//! The forms of a request target (RFC 9112 3.2).
//!
//! ```text
//! request-target = origin-form / absolute-form / authority-form / asterisk-form
//! ```
//!
//! Authority-form belongs to CONNECT, which is refused before its target is read.

use crate::error::ErrorKind;
use crate::host;
use crate::method::Method;

/// The parts of a request target.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) query: Option<&'a [u8]>,
    pub(crate) authority: Option<&'a [u8]>,
}

/// Splits a target that the request line's parser accepted; `path_len` is the index of its first
/// `?`, or its length.
#[inline]
pub(crate) fn split(method: Method, target: &[u8], path_len: usize) -> Target<'_> {
    match split_origin_form(target, path_len) {
        Some((path, query)) => Target {
            path,
            query,
            authority: None,
        },
        None => split_accepted_other_form(method, target, path_len),
    }
}

/// As [`split`], the path and the query of a target that starts with a slash.
#[inline]
pub(crate) fn split_origin_form(target: &[u8], path_len: usize) -> Option<(&[u8], Option<&[u8]>)> {
    (target.first() == Some(&b'/')).then(|| split_query(target, path_len))
}

#[inline]
fn split_query(target: &[u8], path_len: usize) -> (&[u8], Option<&[u8]>) {
    match target.split_at_checked(path_len) {
        Some((path, [b'?', query @ ..])) => (path, Some(query)),
        _ => (target, None),
    }
}

#[cold]
fn split_accepted_other_form(method: Method, target: &[u8], path_len: usize) -> Target<'_> {
    split_other_form(method, target, path_len).unwrap_or(Target {
        path: target,
        query: None,
        authority: None,
    })
}

/// Splits a target that does not start with a slash, or returns why its form is not served.
#[cold]
pub(crate) fn split_other_form(
    method: Method,
    target: &[u8],
    path_len: usize,
) -> Result<Target<'_>, ErrorKind> {
    match target {
        [] => Err(ErrorKind::InvalidTarget),
        b"*" if method == Method::Options => Ok(Target {
            path: target,
            query: None,
            authority: None,
        }),
        b"*" => Err(ErrorKind::AsteriskFormWithoutOptions),
        _ => split_absolute_form(method, target, path_len),
    }
}

/// RFC 9112 3.2.2, RFC 9110 4.2:
/// ```text
/// absolute-form = absolute-URI
/// http-URI      = "http" "://" authority path-abempty [ "?" query ]
/// ```
/// Deviation: schemes other than http and https are refused; nothing here could serve them.
fn split_absolute_form(
    method: Method,
    target: &[u8],
    path_len: usize,
) -> Result<Target<'_>, ErrorKind> {
    let (before_query, query) = split_query(target, path_len);
    let Some(after_scheme) =
        strip_prefix(before_query, b"http://").or_else(|| strip_prefix(before_query, b"https://"))
    else {
        return Err(ErrorKind::InvalidTargetForm);
    };
    let authority_len = after_scheme
        .iter()
        .position(|byte| *byte == b'/')
        .unwrap_or(after_scheme.len());
    let (authority, path) = after_scheme.split_at(authority_len);
    if !host::is_host(authority) {
        return Err(ErrorKind::InvalidAuthority);
    }
    let path = match path {
        // RFC 9110 4.2.3: an empty path is the root, except for OPTIONS, which a proxy would make
        // asterisk-form of (RFC 9112 3.2.4).
        [] if method == Method::Options && query.is_none() => b"*",
        [] => b"/",
        path => path,
    };
    Ok(Target {
        path,
        query,
        authority: Some(authority),
    })
}

/// The bytes after `prefix`, compared case-insensitively.
fn strip_prefix<'a>(bytes: &'a [u8], prefix: &[u8]) -> Option<&'a [u8]> {
    let (start, rest) = bytes.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}
