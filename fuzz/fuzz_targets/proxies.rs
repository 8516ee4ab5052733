//! What proxies say: headers of the PROXY protocol, and values of Forwarded and X-Forwarded-*.
//!
//! The first octet selects which. A header that is complete must be refused or accepted alike when more follows it, and none may be accepted before its
//! end; what is incomplete must be shorter than the limit. Claims must not change with what the client has sent on their left.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{
    Claims, ForwardingField, ForwardingFields, HeadLimits, Node, PROXY_HEADER_BYTES_MAX, Progress,
    parse_proxy_header, parse_request,
};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    match first % 3 {
        0 => check_header(rest),
        1 => check_header(&[b"\r\n\r\n\0\r\nQUIT\n".as_slice(), rest].concat()),
        _ => check_fields(rest),
    }
});

fn check_header(input: &[u8]) {
    match parse_proxy_header(input) {
        Ok(None) => assert!(input.len() < PROXY_HEADER_BYTES_MAX),
        Ok(Some((header, length))) => {
            assert_eq!(parse_proxy_header(&input[..length]), Ok(Some((header, length))));
            for end in 0..length {
                assert_eq!(parse_proxy_header(&input[..end]), Ok(None));
            }
        }
        Err(error) => {
            let more = [input, b"\r\n"].concat();
            assert_eq!(parse_proxy_header(&more), Err(error));
        }
    }
}

fn check_fields(value: &[u8]) {
    let fields = ForwardingFields::default();
    let x_fields = fields.with(ForwardingField::For).with(ForwardingField::Proto);
    let forwarded = fields.with(ForwardingField::Forwarded);
    for (name, read) in [("X-Forwarded-For", x_fields), ("Forwarded", forwarded)] {
        let own = [name.as_bytes(), b": ", value, b"\r\n"].concat();
        let Some(claims) = claimed(&own, read) else {
            return;
        };
        let ended = matches!(claims.0, Some(node) if !trusts(&node));
        if ended {
            let before = [name.as_bytes(), b": 198.51.100.9\r\n", &own].concat();
            assert_eq!(claimed(&before, read), Some(claims));
        }
    }
}

/// Client and scheme; None if the lines are no field section.
fn claimed(lines: &[u8], read: ForwardingFields) -> Option<(Option<Node>, Option<wire::Scheme>)> {
    let head = [b"GET / HTTP/1.1\r\nHost: a\r\n".as_slice(), lines, b"\r\n"].concat();
    let Ok(Progress::Complete(head)) = parse_request(&head, &HeadLimits::default()) else {
        return None;
    };
    let section = wire::field_lines(head.field_section);
    let Claims { client, scheme, .. } = wire::forwarded::claims(section, read, trusts);
    Some((client, scheme))
}

fn trusts(node: &Node) -> bool {
    matches!(node, Node::Address(address, _) if address.is_loopback())
}
