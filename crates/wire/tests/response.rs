//! The client's half: heads of responses, and where their content ends.

use wire::{
    ErrorKind, HeadLimits, ResponseBodyLength, ResponseHead, ResponseProgress, Version,
    field_lines, parse_response,
};

fn parse(input: &[u8]) -> Result<Option<ResponseHead<'_>>, ErrorKind> {
    parse_response_to(input, false)
}

/// Parses, and checks that every prefix is incomplete or has the same result.
fn parse_response_to(
    input: &[u8],
    request_is_head: bool,
) -> Result<Option<ResponseHead<'_>>, ErrorKind> {
    let parse =
        |len: usize| match parse_response(&input[..len], &HeadLimits::default(), request_is_head) {
            Ok(ResponseProgress::Complete(head)) => Ok(Some(head)),
            Ok(ResponseProgress::Incomplete) => Ok(None),
            Err(error) => Err(error.kind),
        };
    let whole = parse(input.len());
    for len in (0..input.len()).take(2_000) {
        match (parse(len), &whole) {
            (Ok(None), _) => {}
            (Ok(Some(prefix)), Ok(Some(head))) => assert_eq!(prefix.bytes, head.bytes),
            (Err(prefix), Err(kind)) => assert_eq!(prefix, *kind),
            (prefix, _) => panic!("{len} bytes: {prefix:?}, then {whole:?}"),
        }
    }
    whole
}

fn head(input: &[u8]) -> ResponseHead<'_> {
    parse(input).expect("well-formed").expect("complete")
}

#[test]
fn a_head_is_split_into_its_parts() {
    let input = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello";
    let head = head(input);
    assert_eq!(
        (head.status, head.version, head.reason),
        (200, Version::Http11, &b"OK"[..])
    );
    assert_eq!(head.consumed, input.len() - 5);
    assert_eq!(head.bytes, &input[..head.consumed]);
    let lines: Vec<_> = field_lines(head.field_section).collect();
    assert_eq!(
        lines,
        [(&b"Server"[..], &b"x"[..]), (b"Content-Length", b"5")]
    );
    assert_eq!(head.body_length, ResponseBodyLength::Known(5));
    assert!(head.persistent);
}

#[test]
fn a_reason_may_be_empty_or_missing_or_odd() {
    assert_eq!(head(b"HTTP/1.1 200 \r\n\r\n").reason, b"");
    assert_eq!(head(b"HTTP/1.1 200\r\n\r\n").reason, b"");
    assert_eq!(
        head(b"HTTP/1.1 404 Not\tf\xf6und  \r\n\r\n").reason,
        b"Not\tf\xf6und  "
    );
}

#[test]
fn some_responses_never_have_content() {
    for status in ["100", "103", "101", "204", "304"] {
        let input = format!("HTTP/1.1 {status} x\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(
            head(input.as_bytes()).body_length,
            ResponseBodyLength::None,
            "{status}"
        );
    }
    for fields in ["Content-Length: 5", "Transfer-Encoding: chunked", "X: y"] {
        let input = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
        let head = parse_response_to(input.as_bytes(), true)
            .expect("good")
            .expect("complete");
        assert_eq!(head.body_length, ResponseBodyLength::None, "{fields}");
        assert!(head.persistent);
    }
}

#[test]
fn an_interim_response_is_a_head_of_its_own() {
    let input = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let interim = head(input);
    assert_eq!((interim.status, interim.persistent), (103, true));
    let last = head(&input[interim.consumed..]);
    assert_eq!(
        (last.status, last.body_length),
        (200, ResponseBodyLength::Known(0))
    );
}

#[test]
fn the_length_follows_the_rules_in_their_order() {
    let length = |fields: &str| {
        let input = format!("HTTP/1.1 200 OK\r\n{fields}\r\n");
        let head = parse(input.as_bytes())?.expect("complete");
        Ok((head.body_length, head.persistent))
    };
    use ResponseBodyLength::{Chunked, Known, UntilClose};
    assert_eq!(length("Content-Length: 0\r\n"), Ok((Known(0), true)));
    assert_eq!(
        length("Transfer-Encoding: Chunked\r\n"),
        Ok((Chunked, true))
    );
    assert_eq!(
        length("Transfer-Encoding: gzip, chunked\r\n"),
        Ok((Chunked, true))
    );
    assert_eq!(
        length("Transfer-Encoding: gzip\r\n"),
        Ok((UntilClose, false))
    );
    assert_eq!(length(""), Ok((UntilClose, false)));
    assert_eq!(
        length("Content-Length: 5\r\nConnection: close\r\n"),
        Ok((Known(5), false))
    );
    assert_eq!(
        length("Content-Length: 5\r\nContent-Length: 5\r\n"),
        Err(ErrorKind::DuplicateContentLength)
    );
    assert_eq!(
        length("Content-Length: x\r\n"),
        Err(ErrorKind::InvalidContentLength)
    );
    assert_eq!(
        length("Transfer-Encoding: chunked, gzip\r\n"),
        Err(ErrorKind::ChunkedNotFinal)
    );
    let both = Err(ErrorKind::ContentLengthWithTransferEncoding);
    assert_eq!(
        length("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
        both
    );
    assert_eq!(
        length("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
        both
    );
    let twice = "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(length(twice), Err(ErrorKind::DuplicateTransferEncoding));
}

#[test]
fn http_1_0_persists_only_with_keep_alive() {
    assert!(!head(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n").persistent);
    assert!(
        head(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n").persistent
    );
    let chunked = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(
        parse(chunked).err(),
        Some(ErrorKind::TransferEncodingInHttp10)
    );
}

#[test]
fn a_malformed_head_is_refused() {
    let status_lines: [&[u8]; 14] = [
        b"HTTP/2.0 200 OK",
        b"http/1.1 200 OK",
        b"HTTP/1.x 200 OK",
        b"HTTP/1.1  200 OK",
        b"HTTP/1.1\t200 OK",
        b"HTTP/1.1 20 OK",
        b"HTTP/1.1 2000 OK",
        b"HTTP/1.1 099 OK",
        b"HTTP/1.1 2x0 OK",
        b"HTTP/1.1 200\tOK",
        b"HTTP/1.1 200OK",
        b"HTTP/1.1 200 O\0K",
        b"HTTP/1.1 200 OK\n",
        b"ICY 200 OK and more",
    ];
    for line in status_lines {
        let input = [line, b"\r\n\r\n"].concat();
        assert_eq!(
            parse(&input).err(),
            Some(ErrorKind::InvalidStatusLine),
            "{line:?}"
        );
    }
    assert_eq!(
        parse(b"HTTP/1.1 200 OK\r\nX : y\r\n\r\n").err(),
        Some(ErrorKind::WhitespaceBeforeColon)
    );
    assert_eq!(
        parse(b"HTTP/1.1 200 OK\r\nX: y\n\r\n").err(),
        Some(ErrorKind::BareLf)
    );
}

#[test]
fn the_limits_hold_before_the_end_arrives() {
    let long_reason = [&b"HTTP/1.1 200 "[..], &[b'x'; 9_000]].concat();
    assert_eq!(
        parse(&long_reason).err(),
        Some(ErrorKind::InvalidStatusLine)
    );
    let long_value = [&b"HTTP/1.1 200 OK\r\nX: "[..], &[b'x'; 40_000]].concat();
    assert_eq!(
        parse(&long_value).err(),
        Some(ErrorKind::HeaderSectionTooLarge)
    );
    let many_lines = [&b"HTTP/1.1 200 OK\r\n"[..], &b"X: y\r\n".repeat(101)].concat();
    assert_eq!(parse(&many_lines).err(), Some(ErrorKind::TooManyFieldLines));
    assert_eq!(
        parse(b"HTTP/1.1 200 OK\r\nX: y\r\n")
            .ok()
            .flatten()
            .map(|head| head.status),
        None
    );
}
