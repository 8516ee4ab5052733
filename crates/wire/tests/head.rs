//! The other public functions for requests: what vectors cannot express.

use wire::{
    BodyDecoder, BodyLength, Decoded, ErrorKind, HeadLimits, Method, Progress, ProtocolError,
    RequestHead, SectionMemo, Version, field_lines, parse_request, parse_request_with,
    within_limits, worth_parsing,
};

fn parse(input: &[u8]) -> Result<Option<RequestHead<'_>>, ErrorKind> {
    match parse_request(input, &HeadLimits::default()) {
        Ok(Progress::Complete(head)) => Ok(Some(head)),
        Ok(Progress::Incomplete) => Ok(None),
        Err(error) => Err(error.kind),
    }
}

fn head(input: &[u8]) -> RequestHead<'_> {
    parse(input).expect("well-formed").expect("complete")
}

#[test]
fn a_head_is_split_into_its_parts() {
    let input = b"\r\nPOST /a/b?c=d HTTP/1.1\r\nHost: x:80\r\nContent-Length: 5\r\n\r\nhello";
    let head = head(input);
    assert_eq!(head.consumed, input.len() - 5);
    assert_eq!(head.bytes, &input[2..head.consumed]);
    assert_eq!(
        (head.method, head.method_name),
        (Method::Post, &b"POST"[..])
    );
    assert_eq!((head.target, head.path), (&b"/a/b?c=d"[..], &b"/a/b"[..]));
    assert_eq!((head.query, head.authority), (Some(&b"c=d"[..]), None));
    assert_eq!(
        (head.host, head.version),
        (Some(&b"x:80"[..]), Version::Http11)
    );
    assert_eq!(head.field_section, b"Host: x:80\r\nContent-Length: 5\r\n");
    assert_eq!(head.body_length, BodyLength::Known(5));
    assert!(head.persistent && !head.expects_continue);
}

#[test]
fn a_target_is_split_by_its_form() {
    let parts = |line: &str| {
        let input = format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n");
        let head = head(input.as_bytes());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            text(head.path),
            head.query.map(text),
            head.authority.map(text),
        )
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(parts("GET /"), ("/".into(), None, None));
    assert_eq!(parts("GET /?"), ("/".into(), some(""), None));
    assert_eq!(parts("GET /a?b?c"), ("/a".into(), some("b?c"), None));
    assert_eq!(parts("OPTIONS *"), ("*".into(), None, None));
    assert_eq!(parts("OPTIONS http://x"), ("*".into(), None, some("x")));
    assert_eq!(parts("OPTIONS http://x/"), ("/".into(), None, some("x")));
    assert_eq!(
        parts("OPTIONS http://x?q"),
        ("/".into(), some("q"), some("x"))
    );
    assert_eq!(parts("GET http://x"), ("/".into(), None, some("x")));
    assert_eq!(parts("GET http://x?q"), ("/".into(), some("q"), some("x")));
    assert_eq!(
        parts("GET HTTPS://x:1/a/b?c"),
        ("/a/b".into(), some("c"), some("x:1"))
    );
}

#[test]
fn methods_have_names_and_safety() {
    let methods = [
        ("GET", Method::Get, true),
        ("HEAD", Method::Head, true),
        ("POST", Method::Post, false),
        ("PUT", Method::Put, false),
        ("DELETE", Method::Delete, false),
        ("OPTIONS", Method::Options, true),
        ("PATCH", Method::Patch, false),
        ("TRACE", Method::Trace, true),
        ("CONNECT", Method::Connect, false),
        ("get", Method::Other, false),
        ("", Method::Other, false),
    ];
    for (name, method, is_safe) in methods {
        assert_eq!(Method::from_bytes(name.as_bytes()), method);
        assert_eq!(method.is_safe(), is_safe, "{name}");
        let input = format!("{name} / HTTP/1.1\r\nHost: h\r\n\r\n");
        if let Ok(Some(head)) = parse(input.as_bytes()) {
            assert_eq!(head.method, method);
        }
    }
}

#[test]
fn field_lines_are_in_order_and_trimmed() {
    let section = b"A:b\r\nC: \t d e \t \r\nF:\r\nG: h:i\r\nA: \xff\r\n";
    let input = [&b"GET / HTTP/1.0\r\n"[..], section, b"\r\n"].concat();
    let head = head(&input);
    assert_eq!(head.field_section, section);
    let lines: Vec<_> = field_lines(head.field_section).collect();
    let expected: [(&[u8], &[u8]); 5] = [
        (b"A", b"b"),
        (b"C", b"d e"),
        (b"F", b""),
        (b"G", b"h:i"),
        (b"A", b"\xff"),
    ];
    assert_eq!(lines, expected);
    assert_eq!(field_lines(b"").next(), None);
}

#[test]
fn only_control_bytes_are_worth_parsing_for() {
    for byte in 0..=255_u8 {
        let is_control = byte.is_ascii_control() && byte != b'\t';
        for at in [0, 1, 15, 16, 39] {
            let mut bytes = [b'x'; 40];
            bytes[at] = byte;
            assert_eq!(worth_parsing(&bytes), is_control, "{byte:#x} at {at}");
        }
    }
    assert!(!worth_parsing(b""));
}

/// The number of parses that a client can cause with single bytes is bounded by line ends.
#[test]
fn single_bytes_cause_two_parses_per_line() {
    let input = [&b"GET / HTTP/1.1\r\n"[..], &b"Name: value\r\n".repeat(99)].concat();
    let parses = input.iter().filter(|byte| worth_parsing(&[**byte])).count();
    assert_eq!(parses, 200);
}

#[test]
fn sizes_are_checked_without_parsing() {
    let limits = HeadLimits {
        request_line_bytes_max: 40,
        header_section_bytes_max: 20,
        field_lines_max: 3,
    };
    let partial =
        |target_len: usize, rest: &[u8]| [&b"GET /"[..], &vec![b'a'; target_len], rest].concat();
    let check = |bytes: &[u8]| within_limits(bytes, &limits).map_err(|error| error.kind);
    assert_eq!(check(b""), Ok(()));
    assert_eq!(check(&partial(36, b"")), Ok(()));
    assert_eq!(check(&partial(37, b"")), Err(ErrorKind::RequestLineTooLong));
    assert_eq!(
        check(&partial(400, b"")),
        Err(ErrorKind::RequestLineTooLong)
    );
    assert_eq!(
        check(&partial(1, b" HTTP/1.1\r\nX: 89012345678901")),
        Ok(())
    );
    let too_large = Err(ErrorKind::HeaderSectionTooLarge);
    assert_eq!(
        check(&partial(1, b" HTTP/1.1\r\nX: 8901234567890123456")),
        too_large
    );
    assert_eq!(check(&[b'M'; 33]), Err(ErrorKind::MethodTooLong));
    assert_eq!(check(&[b'M'; 32]), Ok(()));
}

/// Checking only the sizes and parsing have the same result at the same byte.
#[test]
fn sizes_are_judged_alike_by_both() {
    let limits = HeadLimits {
        request_line_bytes_max: 50,
        header_section_bytes_max: 30,
        field_lines_max: 3,
    };
    let inputs = [
        [&b"GET /"[..], &[b'a'; 100]].concat(),
        [&b"\r\nGET /"[..], &[b'a'; 100]].concat(),
        [&b"GET / HTTP/1.1\r\nHost: a\r\nX: "[..], &[b'a'; 100]].concat(),
        [&b"\r\nGET / HTTP/1.1\r\n"[..], &[b'a'; 100]].concat(),
        [b'M'; 100].to_vec(),
    ];
    for input in inputs {
        for len in 0..input.len() {
            let kind = |error: ProtocolError| error.kind;
            let parsed = parse_request(&input[..len], &limits)
                .map(|_| ())
                .map_err(kind);
            let checked = within_limits(&input[..len], &limits).map_err(kind);
            assert_eq!(
                parsed,
                checked,
                "{len} bytes of {:?}",
                String::from_utf8_lossy(&input)
            );
        }
    }
}

#[test]
fn limits_may_be_as_large_as_a_number_can_be() {
    let limits = HeadLimits {
        request_line_bytes_max: usize::MAX,
        header_section_bytes_max: usize::MAX,
        field_lines_max: usize::MAX,
    };
    let input = [
        &b"GET / HTTP/1.1\r\nHost: a\r\n"[..],
        &b"X: y\r\n".repeat(10_000),
        b"\r\n",
    ]
    .concat();
    assert!(matches!(
        parse_request(&input, &limits),
        Ok(Progress::Complete(_))
    ));
    assert_eq!(within_limits(&input, &limits), Ok(()));
}

#[test]
fn a_limit_of_no_field_lines_refuses_the_first() {
    let limits = HeadLimits {
        field_lines_max: 0,
        ..HeadLimits::default()
    };
    let kind = |input: &[u8]| {
        parse_request(input, &limits)
            .map(|_| ())
            .map_err(|error| error.kind)
    };
    assert_eq!(
        kind(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        Err(ErrorKind::TooManyFieldLines)
    );
    assert_eq!(kind(b"GET / HTTP/1.0\r\n\r\n"), Ok(()));
}

/// Offsets point at the byte that is wrong.
#[test]
fn an_error_has_its_position() {
    let at = |input: &[u8]| {
        parse_request(input, &HeadLimits::default())
            .map(|_| ())
            .map_err(|e| e.at)
    };
    assert_eq!(at(b"GE T / HTTP/1.1\r\n"), Err(3));
    assert_eq!(at(b"G\0T / HTTP/1.1\r\n"), Err(1));
    assert_eq!(at(b"GET /\x80 HTTP/1.1\r\n"), Err(5));
    assert_eq!(at(b"GET / HTTP/2.0\r\n"), Err(11));
    assert_eq!(at(b"GET / HTTP/1.1\r\nHost: a\r\nX : y\r\n"), Err(26));
    assert_eq!(at(b"\r\nGET / HTTP/1.1\r\nX: \0"), Err(21));
}

#[test]
fn every_error_has_an_error_status() {
    let inputs: [&[u8]; 4] = [
        b"\n",
        b"CONNECT a:1 HTTP/1.1\r\n",
        b"GET / HTTP/3.0\r\n",
        b"GET /\r\n",
    ];
    for input in inputs {
        let kind = parse(input).expect_err("refused");
        assert!([400, 501, 505].contains(&kind.status()), "{kind:?}");
        assert!(kind.reason().ends_with('.'), "{kind:?}");
        let error = ProtocolError { kind, at: 7 };
        assert_eq!(error.to_string(), format!("{} (byte 7)", kind.reason()));
    }
}

#[test]
fn known_lengths_count_down() {
    let mut decoder = BodyDecoder::new(BodyLength::Known(5));
    let mut input = &b"abc"[..];
    assert_eq!(decoder.remaining(), Some(5));
    assert_eq!(decoder.decode(&mut input), Ok(Decoded::Content(b"abc")));
    assert_eq!(decoder.decode(&mut input), Ok(Decoded::NeedMore));
    assert_eq!(decoder.remaining(), Some(2));
    let mut input = &b"defg"[..];
    assert_eq!(decoder.decode(&mut input), Ok(Decoded::Content(b"de")));
    assert_eq!(decoder.decode(&mut input), Ok(Decoded::End));
    assert_eq!(input, b"fg");
    assert_eq!(
        BodyDecoder::new(BodyLength::None).decode(&mut input),
        Ok(Decoded::End)
    );
    assert_eq!(BodyDecoder::new(BodyLength::Chunked).remaining(), None);
    let mut huge = BodyDecoder::new(BodyLength::Known(u64::MAX));
    assert_eq!(huge.decode(&mut input), Ok(Decoded::Content(b"fg")));
    assert_eq!(huge.remaining(), Some(u64::MAX - 2));
}

#[test]
fn a_refused_chunk_has_its_position_and_keeps_the_byte() {
    let mut decoder = BodyDecoder::new(BodyLength::Chunked);
    let mut input = &b"2\r\nab\r\nx"[..];
    assert_eq!(decoder.decode(&mut input), Ok(Decoded::Content(b"ab")));
    let error = decoder.decode(&mut input).expect_err("refused");
    assert_eq!(
        (error.kind, error.at, input),
        (ErrorKind::InvalidChunkSize, 2, &b"x"[..])
    );
    assert_eq!(decoder.decode(&mut input).map_err(|error| error.at), Err(0));
}

#[test]
fn a_request_for_websocket_names_it_in_upgrade_and_upgrade_in_connection() {
    const CONNECTION: &str = "Connection: Upgrade\r\n";
    let upgrade = "Upgrade: websocket\r\n";
    for (start, connection, section, asks) in [
        ("GET / HTTP/1.1", CONNECTION, upgrade, true),
        (
            "GET / HTTP/1.1",
            CONNECTION,
            "Cookie: a\r\nupgrade: h2c, WebSocket\r\n",
            true,
        ),
        (
            "GET / HTTP/1.1",
            CONNECTION,
            "Upgrade: websocket\r\nUpgrade: h2c\r\n",
            true,
        ),
        ("GET / HTTP/1.1", CONNECTION, "Upgrade: h2c\r\n", false),
        (
            "GET / HTTP/1.1",
            CONNECTION,
            "Referer: websocket\r\n",
            false,
        ),
        ("GET / HTTP/1.1", CONNECTION, "", false),
        ("GET / HTTP/1.0", CONNECTION, upgrade, false),
        (
            "GET / HTTP/1.1",
            "connection: keep-alive, UPGRADE\r\n",
            upgrade,
            true,
        ),
        (
            "GET / HTTP/1.1",
            "Connection: keep-alive\r\nConnection: upgrade\r\n",
            upgrade,
            true,
        ),
        ("GET / HTTP/1.1", "", upgrade, false),
        (
            "GET / HTTP/1.1",
            "Connection: keep-alive\r\n",
            upgrade,
            false,
        ),
        (
            "GET / HTTP/1.1",
            "Connection: upgraded, x-upgrade\r\n",
            upgrade,
            false,
        ),
    ] {
        for section in [
            format!("{connection}{section}"),
            format!("{section}{connection}"),
        ] {
            let input = format!("{start}\r\nHost: a\r\n{section}\r\n");
            let bytes = input.as_bytes();
            assert_eq!(head(bytes).asks_websocket, asks, "{start}: {section}");
            // The second time, what may be remembered is.
            let mut memo = SectionMemo::new();
            for _ in 0..2 {
                let progress = parse_request_with(bytes, &HeadLimits::default(), &mut memo);
                let Ok(Progress::Complete(head)) = progress else {
                    panic!("{section}: {progress:?}");
                };
                assert_eq!(head.asks_websocket, asks, "recalled, {start}: {section}");
            }
        }
    }
}

#[test]
fn a_key_without_the_upgrade_is_noticed() {
    const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    const WHOLE: &str = "Upgrade: websocket\r\nConnection: upgrade\r\n";
    for (start, section, is_lost) in [
        ("GET / HTTP/1.1", "", false),
        ("GET / HTTP/1.1", "Upgrade: websocket\r\n", false),
        ("GET / HTTP/1.1", KEY, true),
        ("GET / HTTP/1.1", &format!("{WHOLE}{KEY}"), false),
        ("GET / HTTP/1.1", &format!("{KEY}{WHOLE}"), false),
        ("GET / HTTP/1.0", &format!("{WHOLE}{KEY}"), true),
        ("GET / HTTP/1.0", WHOLE, false),
        (
            "GET / HTTP/1.1",
            "sec-websocket-key: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n",
            true,
        ),
    ] {
        let input = format!("{start}\r\nHost: a\r\n{section}\r\n");
        let mut memo = SectionMemo::new();
        for _ in 0..2 {
            let parsed = parse_request_with(input.as_bytes(), &HeadLimits::default(), &mut memo);
            let Ok(Progress::Complete(head)) = parsed else {
                panic!("{input}: {parsed:?}");
            };
            assert_eq!(head.notes.has_lost_upgrade(), is_lost, "{input}");
        }
    }
}
