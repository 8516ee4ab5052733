//! Header blocks of HTTP/2, decoded and encoded.

use wire::h2::{BlockError, BlockLimits, Decoder, Encoder, frame};

const LIMITS: BlockLimits = BlockLimits {
    section_bytes_max: 32_768,
    lines_max: 100,
    target_bytes_max: 8_192,
};

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let octet = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(text, 16).expect("an octet")
    };
    digits.chunks(2).map(octet).collect()
}

/// RFC 7541 C.4: three requests of one connection.
#[test]
fn a_decoded_request_is_a_head() {
    let mut decoder = Decoder::new(4096);
    let mut head = Vec::new();
    for (block, expected) in [
        (
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "GET / HTTP/2.0\r\nHost: www.example.com\r\n\r\n",
        ),
        (
            "8286 84be 5886 a8eb 1064 9cbf",
            "GET / HTTP/2.0\r\nHost: www.example.com\r\ncache-control: no-cache\r\n\r\n",
        ),
        (
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            "GET /index.html HTTP/2.0\r\nHost: www.example.com\r\ncustom-key: custom-value\r\n\r\n",
        ),
    ] {
        assert_eq!(decoder.request(&octets(block), &LIMITS, &mut head), Ok(()));
        assert_eq!(
            head.escape_ascii().to_string(),
            expected.escape_default().to_string()
        );
        let parsed = wire::parse_decoded_request(&head, false, None).expect("a head");
        assert_eq!(parsed.host, Some(&b"www.example.com"[..]));
    }
}

#[test]
fn an_encoded_response_is_decoded() {
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new(4096));
    let ours = b"Server: bolide\r\nDate: Mon, 23 Nov 2026 00:00:00 GMT\r\n";
    let theirs = b"Content-Type: text/plain\r\nX-A: b\r\nConnection: close\r\n";
    let mut sizes = Vec::new();
    let mut section = Vec::new();
    for _ in 0..4 {
        let mut block = Vec::new();
        encoder.response(200, &[ours, theirs], Some(13), &mut block);
        assert_eq!(decoder.response(&block, &LIMITS, &mut section), Ok(200));
        assert_eq!(
            section.escape_ascii().to_string(),
            "content-length: 13\\r\\nserver: bolide\\r\\ndate: Mon, 23 Nov 2026 00:00:00 GMT\\r\\n\
             content-type: text/plain\\r\\nx-a: b\\r\\n"
        );
        sizes.push(block.len());
    }
    assert_eq!(sizes[2..], [10, 10]);
    assert_eq!(decoder.skip(&[0x80]), Err(BlockError::Compression));
}

#[test]
fn of_a_part_of_a_data_frame_only_content_counts() {
    let found = |input: &str| {
        let partial = frame::partial_data(&octets(input))?;
        Some((partial.stream, partial.payload_bytes, partial.content_bytes))
    };
    assert_eq!(found("000005 00 00 000000"), None);
    assert_eq!(found("000005 06 00 00000000 01"), None);
    assert_eq!(found("000005 00 00 00000003"), Some((3, 5, 0)));
    assert_eq!(found("000005 00 00 00000003 0102"), Some((3, 5, 2)));
    // The first octet is the length of the padding, which comes last.
    assert_eq!(found("000005 00 08 00000003"), Some((3, 5, 0)));
    assert_eq!(found("000005 00 08 00000003 02 01"), Some((3, 5, 1)));
    assert_eq!(found("000005 00 08 00000003 02 0102 00"), Some((3, 5, 2)));
    assert_eq!(found("000005 00 08 00000003 09 0102 00"), Some((3, 5, 0)));
}
