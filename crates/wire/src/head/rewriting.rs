//! The text of a head with other fields: what a server makes of a request that proxies have passed on.

use super::RequestHead;
use crate::field::field_lines;
use crate::grammar::CRLF;
use crate::host::push_line;

/// The text of a head without the fields that `drops` says, for another host if one is given, and with `added` lines after the others.
///
/// It is parsed again as the head was.
pub fn rewritten(
    head: &RequestHead<'_>,
    drops: impl Fn(&[u8]) -> bool,
    host: Option<&[u8]>,
    added: &[u8],
) -> Vec<u8> {
    let host_bytes = host.map_or(0, <[u8]>::len);
    let mut text =
        Vec::with_capacity(head.bytes.len() + host_bytes + b"Host: \r\n".len() + added.len());
    push_request_line(&mut text, head, host);
    let has_host = head.host.is_some();
    if let Some(host) = host
        && !has_host
    {
        push_line(&mut text, b"Host", host);
    }
    let mut lines = field_lines(head.field_section);
    while let Some(line) = lines.next_line() {
        match host {
            Some(host) if line.name.eq_ignore_ascii_case(b"host") => {
                push_line(&mut text, line.name, host);
            }
            _ if drops(line.name) => {}
            _ => text.extend_from_slice(line.bytes),
        }
    }
    text.extend_from_slice(added);
    text.extend_from_slice(CRLF);
    text
}

/// The line with its end, and with another authority if it has one.
fn push_request_line(text: &mut Vec<u8>, head: &RequestHead<'_>, host: Option<&[u8]>) {
    let line_bytes = head.bytes.len() - head.field_section.len() - CRLF.len();
    let line = head.bytes.get(..line_bytes).unwrap_or_default();
    if let (Some(host), Some(authority)) = (host, head.authority) {
        let at = (authority.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize);
        if let (Some(before), Some(after)) = (line.get(..at), line.get(at + authority.len()..)) {
            return [before, host, after]
                .iter()
                .for_each(|part| text.extend_from_slice(part));
        }
    }
    text.extend_from_slice(line);
}

#[cfg(test)]
mod tests {
    use super::rewritten;
    use crate::{HeadLimits, Progress, parse_request};

    #[test]
    fn fields_are_dropped_and_the_host_is_replaced() {
        let drops = |name: &[u8]| name.eq_ignore_ascii_case(b"drop");
        for (head, host, added, expected) in [
            (
                "GET / HTTP/1.1\r\nhost: a\r\nDrop:1\r\nB:2 \r\nDROP: 3\r\n\r\n",
                None,
                "X-Id: e\r\n",
                "GET / HTTP/1.1\r\nhost: a\r\nB:2 \r\nX-Id: e\r\n\r\n",
            ),
            (
                "\r\nGET / HTTP/1.1\r\nhost:  a\r\nB: 2\r\n\r\n",
                Some("c:81"),
                "",
                "GET / HTTP/1.1\r\nhost: c:81\r\nB: 2\r\n\r\n",
            ),
            (
                "GET http://a:80/a HTTP/1.1\r\nHost: x\r\n\r\n",
                Some("c"),
                "",
                "GET http://c/a HTTP/1.1\r\nHost: c\r\n\r\n",
            ),
            (
                "GET /a HTTP/1.0\r\n\r\n",
                Some("c"),
                "",
                "GET /a HTTP/1.0\r\nHost: c\r\n\r\n",
            ),
        ] {
            let parsed = parse_request(head.as_bytes(), &HeadLimits::default());
            let Ok(Progress::Complete(parsed)) = parsed else {
                panic!("{parsed:?}");
            };
            let text = rewritten(&parsed, drops, host.map(str::as_bytes), added.as_bytes());
            assert_eq!(String::from_utf8(text).unwrap(), expected);
        }
    }
}
