//! Writing: status lines, numbers, chunks and dates.

use wire::{
    BodyDecoder, BodyLength, CONTINUE, Decoded, HeadLimits, ResponseProgress, has_content,
    imf_fixdate, is_field_name, is_field_value, may_generate_content, parse_response, push_chunk,
    push_decimal, push_hex, push_interim, push_last_chunk, push_status_line, status_line,
};

fn pushed(push: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    push(&mut out);
    String::from_utf8(out).expect("ASCII")
}

#[test]
fn a_registered_status_has_its_line() {
    assert_eq!(status_line(200), Some(&b"HTTP/1.1 200 OK\r\n"[..]));
    assert_eq!(status_line(404), Some(&b"HTTP/1.1 404 Not Found\r\n"[..]));
    assert_eq!(
        status_line(431),
        Some(&b"HTTP/1.1 431 Request Header Fields Too Large\r\n"[..])
    );
    assert_eq!(status_line(299), None);
    assert_eq!(
        pushed(|out| push_status_line(out, 505, b"")),
        "HTTP/1.1 505 HTTP Version Not Supported\r\n"
    );
}

#[test]
fn an_interim_response_is_a_head_like_any_other() {
    let early = pushed(|out| push_interim(out, 103, b"Link: </a>\r\n"));
    assert_eq!(early, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
}

#[test]
fn an_unregistered_status_has_an_empty_reason() {
    assert_eq!(
        pushed(|out| push_status_line(out, 299, b"")),
        "HTTP/1.1 299 \r\n"
    );
    assert_eq!(
        pushed(|out| push_status_line(out, 999, b"")),
        "HTTP/1.1 999 \r\n"
    );
}

#[test]
fn a_client_reads_every_status_line_back() {
    for status in 100..=999 {
        let head = pushed(|out| push_status_line(out, status, b"")) + "\r\n";
        match parse_response(head.as_bytes(), &HeadLimits::default(), false) {
            Ok(ResponseProgress::Complete(head)) => assert_eq!(head.status, status),
            other => panic!("{status}: {other:?}"),
        }
    }
    assert!(CONTINUE.starts_with(status_line(100).expect("registered")));
}

#[test]
fn numbers_are_written_without_leading_zeros() {
    for number in [
        0,
        1,
        9,
        10,
        15,
        16,
        255,
        256,
        4095,
        4096,
        65_535,
        u64::from(u32::MAX),
        u64::MAX,
    ] {
        assert_eq!(pushed(|out| push_decimal(out, number)), number.to_string());
        assert_eq!(pushed(|out| push_hex(out, number)), format!("{number:x}"));
    }
}

#[test]
fn chunks_are_what_the_decoder_reads_back() {
    let mut out = Vec::new();
    push_chunk(&mut out, b"hello");
    push_chunk(&mut out, b"");
    push_chunk(&mut out, &[b'x'; 300]);
    push_last_chunk(&mut out, b"A: b\r\n");
    assert!(out.ends_with(b"\r\n0\r\nA: b\r\n\r\n"));
    assert!(out.starts_with(b"5\r\nhello\r\n12c\r\nxxx"));
    let mut decoder = BodyDecoder::new(BodyLength::Chunked);
    let mut input = out.as_slice();
    assert_eq!(decoder.decode(&mut input), Ok(Decoded::Content(b"hello")));
    assert_eq!(
        decoder.decode(&mut input),
        Ok(Decoded::Content(&[b'x'; 300]))
    );
    assert_eq!(decoder.decode(&mut input), Ok(Decoded::End));
    assert_eq!(decoder.decode(&mut input), Ok(Decoded::End));
}

#[test]
fn some_statuses_have_no_content() {
    for status in [100, 101, 103, 199, 204, 304] {
        assert!(!has_content(status), "{status}");
    }
    for status in [200, 203, 205, 206, 303, 305, 400, 500] {
        assert!(has_content(status), "{status}");
    }
    assert!(has_content(205) && !may_generate_content(205));
    assert!(!may_generate_content(204) && may_generate_content(200));
}

#[test]
fn what_an_application_may_send_is_judged_byte_by_byte() {
    assert!(is_field_name(b"X-a_1") && !is_field_name(b""));
    assert!(is_field_value(b"") && is_field_value(b" a\tb "));
    for byte in 0..=255_u8 {
        let is_tchar = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        assert_eq!(is_field_name(&[b'X', byte]), is_tchar, "{byte:#x}");
        let is_control = byte.is_ascii_control() && byte != b'\t';
        assert_eq!(is_field_value(&[b'x', byte]), !is_control, "{byte:#x}");
    }
}

#[test]
fn dates_of_known_instants() {
    let known = [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
        (68_169_600, "Tue, 29 Feb 1972 00:00:00 GMT"),
        (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
        (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
        (946_684_799, "Fri, 31 Dec 1999 23:59:59 GMT"),
        (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
        (1_709_251_200, "Fri, 01 Mar 2024 00:00:00 GMT"),
        (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
        (2_147_483_648, "Tue, 19 Jan 2038 03:14:08 GMT"),
        (4_107_542_399, "Sun, 28 Feb 2100 23:59:59 GMT"),
        (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ];
    for (seconds, text) in known {
        assert_eq!(String::from_utf8_lossy(&imf_fixdate(seconds)), text);
    }
}

#[test]
fn the_days_of_four_centuries_follow_each_other() {
    let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let weekdays = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let mut days = 0_u64;
    for year in 1970..2370 {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        for (index, month) in months.iter().enumerate() {
            let lengths = [
                31,
                28 + u64::from(is_leap),
                31,
                30,
                31,
                30,
                31,
                31,
                30,
                31,
                30,
                31,
            ];
            for day in 1..=lengths[index] {
                let weekday = weekdays[(days % 7) as usize];
                let expected = format!("{weekday}, {day:02} {month} {year} 00:00:00 GMT");
                assert_eq!(
                    String::from_utf8_lossy(&imf_fixdate(days * 86_400)),
                    expected
                );
                days += 1;
            }
        }
    }
}
