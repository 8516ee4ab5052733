//! The opening handshake and its extension (RFC 6455 4 and 9, RFC 7692 5 and 7.1).

use wire::websocket::WindowBits;
use wire::websocket::extension::{self, Malformed, Preference, select};
use wire::websocket::handshake::{
    Refusal, accept_value, check_connect, check_upgrade, extensions, key_value, subprotocols,
};
use wire::{HeadLimits, Progress, RequestHead, parse_request};

const GOOD: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

fn with_head<T>(text: &str, check: impl Fn(&RequestHead<'_>) -> T) -> T {
    match parse_request(text.as_bytes(), &HeadLimits::default()).expect("a head") {
        Progress::Complete(head) => check(&head),
        Progress::Incomplete => panic!("incomplete: {text:?}"),
    }
}

fn checked(text: &str) -> Result<String, Refusal> {
    let accept = with_head(text, check_upgrade)?;
    Ok(String::from_utf8(accept.to_vec()).expect("base64"))
}

#[test]
fn the_example_of_the_rfc() {
    assert_eq!(checked(GOOD).as_deref(), Ok("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    assert_eq!(
        &accept_value(b"x3JJHMbDL1EzLkh9GBhXDw=="),
        b"HSmrc0sMlYUkAGmm5OPpG2HaGWk="
    );
}

#[test]
fn a_key_may_end_in_bits_that_mean_nothing() {
    let text = GOOD.replace("dGhlIHNhbXBsZSBub25jZQ==", "AQIDBAUGBwgJCgsMDQ4PEC==");
    assert_eq!(
        checked(&text).map(String::into_bytes),
        Ok(accept_value(b"AQIDBAUGBwgJCgsMDQ4PEC==").to_vec())
    );
}

#[test]
fn each_demand_is_checked() {
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let version = "Sec-WebSocket-Version: 13\r\n";
    let with_key = |value: &str| GOOD.replace("dGhlIHNhbXBsZSBub25jZQ==", value);
    let cases = [
        (GOOD.replace("GET", "POST"), Refusal::MethodNotGet),
        (GOOD.replace("GET", "HEAD"), Refusal::MethodNotGet),
        (GOOD.replace("HTTP/1.1", "HTTP/1.0"), Refusal::VersionTooOld),
        (
            GOOD.replace("Host: a", "Host: a\r\nContent-Length: 1"),
            Refusal::HasContent,
        ),
        (
            GOOD.replace("Host: a", "Host: a\r\nTransfer-Encoding: chunked"),
            Refusal::HasContent,
        ),
        (GOOD.replace(key, ""), Refusal::KeyMissing),
        (GOOD.replace(key, &key.repeat(2)), Refusal::KeyRepeated),
        (with_key(""), Refusal::KeyInvalid),
        (with_key("dGhlIHNhbXBsZSBub25jZQ="), Refusal::KeyInvalid),
        (with_key("dGhlIHNhbXBsZSBub25jZQ"), Refusal::KeyInvalid),
        (with_key("dGhlIHNhbXBsZSBub25j"), Refusal::KeyInvalid),
        (with_key("dGhlIHNhbXBsZSBub25jZSE="), Refusal::KeyInvalid),
        (with_key("dGhlIHNhbXBsZSBub25jZSEh"), Refusal::KeyInvalid),
        (
            with_key("dGhlIHNhbXBsZSBub25jZSEhIQ=="),
            Refusal::KeyInvalid,
        ),
        (with_key("dGhlIHNhbXBsZ*Bub25jZQ=="), Refusal::KeyInvalid),
        (GOOD.replace(version, ""), Refusal::VersionUnsupported),
        (
            GOOD.replace("Version: 13", "Version: 8"),
            Refusal::VersionUnsupported,
        ),
        (
            GOOD.replace("Version: 13", "Version: 13, 8"),
            Refusal::VersionUnsupported,
        ),
        (
            GOOD.replace("Version: 13", "Version: 013"),
            Refusal::VersionUnsupported,
        ),
        (
            GOOD.replace(version, &version.repeat(2)),
            Refusal::VersionRepeated,
        ),
    ];
    for (text, refusal) in cases {
        assert_eq!(checked(&text), Err(refusal), "{text:?}");
    }
    assert_eq!(Refusal::VersionUnsupported.status(), 426);
    assert_eq!(Refusal::KeyInvalid.status(), 400);
}

fn with_protocols(lines: &[&str]) -> String {
    let lines: String = lines
        .iter()
        .map(|line| format!("Sec-WebSocket-Protocol: {line}\r\n"))
        .collect();
    GOOD.replace("Host: a\r\n", &format!("Host: a\r\n{lines}"))
}

#[test]
fn subprotocols_are_a_list_over_all_lines() {
    let text = with_protocols(&["chat, superchat", "", "graphql-ws"]);
    let names = with_head(&text, |head| {
        subprotocols(head.field_section)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .collect::<Vec<_>>()
    });
    assert_eq!(names, ["chat", "superchat", "graphql-ws"]);
    assert!(checked(&text).is_ok());
    assert_eq!(
        checked(&with_protocols(&["a, b", "a"])),
        Err(Refusal::SubprotocolRepeated)
    );
    for wrong in ["a b", "\"a\"", "a;b", "caf\u{e9}", "a/b"] {
        assert_eq!(
            checked(&with_protocols(&[wrong])),
            Err(Refusal::SubprotocolInvalid),
            "{wrong}"
        );
    }
    let many: Vec<String> = (0..101).map(|number| format!("p{number}")).collect();
    assert!(checked(&with_protocols(&[&many[..100].join(",")])).is_ok());
    assert_eq!(
        checked(&with_protocols(&[&many.join(",")])),
        Err(Refusal::SubprotocolInvalid)
    );
}

#[test]
fn extended_connect_has_no_key() {
    assert_eq!(check_connect(b"sec-websocket-version: 13\r\n"), Ok(()));
    assert_eq!(
        check_connect(b"origin: a\r\n"),
        Err(Refusal::VersionUnsupported)
    );
}

fn agreed(offers: &[&str], preference: Preference) -> Result<Option<String>, Malformed> {
    let agreement = select(offers.iter().map(|offer| offer.as_bytes()), preference)?;
    Ok(agreement.map(|agreement| {
        let mut value = Vec::new();
        agreement.push_value(&mut value);
        String::from_utf8(value).expect("ASCII")
    }))
}

/// The value for `offers` is `value`; `None` if all of them are declined.
fn expect(offers: &[&str], preference: Preference, value: Option<&str>) {
    let expected = value.map(str::to_owned);
    assert_eq!(agreed(offers, preference), Ok(expected), "{offers:?}");
}

#[test]
fn without_context_is_agreed_on_whatever_is_offered() {
    let value = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
    let offers = [
        "permessage-deflate",
        "permessage-deflate; client_max_window_bits",
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover",
    ];
    for offer in offers {
        expect(&[offer], Preference::WithoutContext, Some(value));
    }
}

#[test]
fn context_and_windows_are_the_least_that_both_have() {
    let twelve = Preference::WithContext(WindowBits::new(12).expect("in range"));
    let cases = [
        (
            "permessage-deflate; client_max_window_bits",
            "permessage-deflate; server_max_window_bits=12; client_max_window_bits=12",
        ),
        (
            "permessage-deflate",
            "permessage-deflate; server_max_window_bits=12",
        ),
        // The response names no greater window than the offer (RFC 7692 7.1.2.2), and zlib has none of 256 octets.
        (
            "permessage-deflate; client_max_window_bits=8",
            "permessage-deflate; server_max_window_bits=12",
        ),
        (
            "permessage-deflate; client_max_window_bits=10; server_max_window_bits=\"9\"",
            "permessage-deflate; server_max_window_bits=9; client_max_window_bits=10",
        ),
    ];
    for (offer, value) in cases {
        expect(&[offer], twelve, Some(value));
    }
    let with = Preference::WithContext(WindowBits::MAX);
    let cases = [
        ("permessage-deflate", "permessage-deflate"),
        (
            "permessage-deflate; client_max_window_bits",
            "permessage-deflate",
        ),
        (
            "permessage-deflate; server_no_context_takeover",
            "permessage-deflate; server_no_context_takeover",
        ),
        (
            "PerMessage-Deflate ;client_no_context_takeover ;server_max_window_bits = 15",
            "permessage-deflate; server_max_window_bits=15; client_no_context_takeover",
        ),
    ];
    for (offer, value) in cases {
        expect(&[offer], with, Some(value));
    }
    expect(
        &["permessage-deflate; server_max_window_bits=15"],
        Preference::WithoutContext,
        Some(
            "permessage-deflate; server_no_context_takeover; server_max_window_bits=15; client_no_context_takeover",
        ),
    );
}

#[test]
fn an_offer_that_cannot_be_kept_is_declined() {
    let with = Preference::WithContext(WindowBits::MAX);
    let declined = [
        "permessage-deflate; server_max_window_bits=8",
        "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; server_max_window_bits=010",
        "permessage-deflate; server_max_window_bits",
        "permessage-deflate; server_no_context_takeover=1",
        "permessage-deflate; client_no_context_takeover; client_no_context_takeover",
        "permessage-deflate; client_max_window_bits; client_max_window_bits=9",
        "permessage-deflate; unknown",
        "foo; a=\"b\", bar",
        "",
    ];
    for offer in declined {
        expect(&[offer], with, None);
        let with_another = format!("{offer}, permessage-deflate");
        expect(&[&with_another], with, Some("permessage-deflate"));
        expect(
            &[offer, "permessage-deflate"],
            with,
            Some("permessage-deflate"),
        );
    }
}

#[test]
fn a_malformed_line_is_refused() {
    let wrong = [
        "permessage-deflate; ",
        "permessage-deflate;;a",
        "permessage-deflate; a=\"b",
        "permessage-deflate; a=",
        "permessage-deflate; a=\"b c\"",
        "permessage deflate",
        "; a",
        "a/b",
    ];
    for value in wrong {
        let lines = ["permessage-deflate", value];
        assert_eq!(
            agreed(&lines, Preference::WithoutContext),
            Err(Malformed),
            "{value}"
        );
    }
    let text = GOOD.replace(
        "Host: a\r\n",
        "Host: a\r\nSec-WebSocket-Extensions: x\r\nsec-websocket-extensions: y\r\n",
    );
    assert_eq!(
        with_head(&text, |head| extensions(head.field_section).count()),
        2
    );
}

#[test]
fn what_a_server_agrees_on_is_a_response_to_the_offer() {
    let agreed = |value: &'static str| extension::agreed([value.as_bytes()].into_iter());
    assert_eq!(extension::agreed(std::iter::empty()), Ok(None));
    let whole = agreed("permessage-deflate")
        .expect("a value")
        .expect("an agreement");
    assert!(whole.server.keeps_context && whole.client.keeps_context);
    assert_eq!(whole.server.window.get(), 15);
    let reduced = agreed(
        "Permessage-Deflate; server_no_context_takeover; server_max_window_bits=8; client_no_context_takeover",
    );
    let reduced = reduced.expect("a value").expect("an agreement");
    assert!(!reduced.server.keeps_context && !reduced.client.keeps_context);
    assert_eq!(reduced.server.window.get(), 9);
    for wrong in [
        "permessage-deflate; client_max_window_bits=10",
        "permessage-deflate; server_max_window_bits=16",
        "permessage-deflate; color=red",
        "permessage-deflate, permessage-deflate",
        "x-webkit-deflate-frame",
        "permessage-deflate; =",
    ] {
        assert!(agreed(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_key_is_sixteen_octets_in_base64() {
    let key = key_value(*b"the sample nonce");
    assert_eq!(&key, b"dGhlIHNhbXBsZSBub25jZQ==");
    let accept = accept_value(&key);
    assert_eq!(&accept, b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}
