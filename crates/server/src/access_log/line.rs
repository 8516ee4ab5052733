//! The lines of the access log.
//!
//! What a peer sent cannot end a line, leave its quotes, start another column, or reach a terminal as control characters.

use std::io::Write;

use net::{Peer, TlsDetails};
use wire::Version;

use super::format::{Form, LogFormat, Piece, Value};
use super::record::LogRecord;

/// How a peer's bytes are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    /// Between quotes.
    Quoted,
    /// Without quotes: a space would start another column.
    Bare,
    Json,
}

/// When a line is written.
#[derive(Clone, Copy)]
pub(super) struct Now {
    pub(super) unix_s: u64,
    pub(super) ms: u64,
    /// 0 if the format needs no precise clock.
    pub(super) ns: u64,
}

/// Appends the line of a complete exchange. `worker` is the process.
pub(super) fn push(
    line: &mut Vec<u8>,
    format: &LogFormat,
    record: &LogRecord,
    (now, worker): (Now, u32),
) {
    let Form::Template(pieces) = &format.form else {
        return push_json(line, record, (now, worker));
    };
    for piece in pieces {
        match piece {
            Piece::Text(text) => line.extend_from_slice(text),
            Piece::Value { value, is_quoted } => {
                let escape = match is_quoted {
                    true => Escape::Quoted,
                    false => Escape::Bare,
                };
                push_value(line, *value, record, (now, worker, escape));
            }
        }
    }
    line.push(b'\n');
}

fn push_value(
    line: &mut Vec<u8>,
    value: Value,
    record: &LogRecord,
    (now, worker, escape): (Now, u32, Escape),
) {
    let mut number = |number: u64| {
        let _ = write!(line, "{number}");
    };
    let start = record.start.as_ref();
    match value {
        Value::FirstByteMs => match first_byte_ms(record) {
            Some(ms) => number(ms),
            None => line.push(b'-'),
        },
        Value::FirstByteUs => match start {
            Some(start) => number(start.ns.saturating_sub(record.began.turn_ns) / 1000),
            None => line.push(b'-'),
        },
        Value::QueueMs => number(record.waited_ms),
        Value::ReceivedBytes => number(record.received_bytes),
        Value::ResponseField(place) => {
            let value = start.map_or(&b""[..], |start| start.field(place));
            push_escaped(line, or_dash(value), escape);
        }
        Value::Status => number(record.status.into()),
        Value::ContentBytes => number(record.content_bytes),
        Value::DurationMs => number(duration_ms(record, now)),
        Value::DurationUs => number(now.ns.saturating_sub(record.began.turn_ns) / 1000),
        Value::UnixSeconds => number(now.unix_s),
        Value::Worker => number(worker.into()),
        Value::Client => push_client(line, record.client),
        Value::Time => push_log_date(line, now.unix_s),
        Value::TimeIso => push_iso_date(line, now.unix_s),
        Value::Request => push_request(line, record, escape),
        Value::Method => push_escaped(line, or_dash(record.method()), escape),
        Value::Target => push_escaped(line, or_dash(record.target()), escape),
        Value::RequestId => push_escaped(line, or_dash(record.request_id()), escape),
        Value::Path => push_escaped(line, or_dash(path_of(record.target())), escape),
        Value::Field(place) => push_escaped(line, or_dash(record.field(place)), escape),
        Value::Version => line.extend_from_slice(version(record.version).as_bytes()),
        Value::TlsVersion | Value::TlsCipher | Value::TlsServerName => {
            let text = record.tls.as_deref().and_then(|tls| tls_text(tls, value));
            push_escaped(line, text.map_or(b"-", str::as_bytes), escape);
        }
    }
}

/// The time from the call of the application to the end of its response. The start is read from the clock itself, so it may be later than
/// the time of the pass, at which the line is written.
fn duration_ms(record: &LogRecord, now: Now) -> u64 {
    let ended_ms = record.start.as_ref().map_or(now.ms, |it| it.ms.max(now.ms));
    ended_ms.saturating_sub(record.began.ms)
}

/// The time from the call of the application to the start of its response, if it has started.
fn first_byte_ms(record: &LogRecord) -> Option<u64> {
    let start = record.start.as_ref()?;
    Some(start.ms.saturating_sub(record.began.ms))
}

fn tls_text(tls: &TlsDetails, value: Value) -> Option<&str> {
    match value {
        Value::TlsVersion => Some(tls.version_name()),
        Value::TlsCipher => Some(tls.cipher_name()),
        _ => tls.server_name.as_deref(),
    }
}

/// The request line, with `-` for a version that is not known; that alone if it was not understood.
fn push_request(line: &mut Vec<u8>, record: &LogRecord, escape: Escape) {
    if !record.method().is_empty() {
        let space: &[u8] = match escape {
            Escape::Bare => b"\\x20",
            Escape::Quoted | Escape::Json => b" ",
        };
        push_escaped(line, record.method(), escape);
        line.extend_from_slice(space);
        push_escaped(line, record.target(), escape);
        line.extend_from_slice(space);
    }
    line.extend_from_slice(version(record.version).as_bytes());
}

/// The fields of a JSON line are those of [`LogFormat::json`].
fn push_json(line: &mut Vec<u8>, record: &LogRecord, (now, worker): (Now, u32)) {
    let _ = write!(line, "{{\"unix_s\":{},\"client\":\"", now.unix_s);
    push_client(line, record.client);
    for (key, value) in [
        ("method", record.method()),
        ("target", record.target()),
        ("referer", record.field(0)),
        ("user_agent", record.field(1)),
        ("request_id", record.request_id()),
    ] {
        let _ = write!(line, "\",\"{key}\":\"");
        push_escaped(line, value, Escape::Json);
    }
    let duration_ms = duration_ms(record, now);
    let (version, status, content_bytes) =
        (version(record.version), record.status, record.content_bytes);
    let _ = write!(
        line,
        "\",\"version\":\"{version}\",\"status\":{status},\"content_bytes\":{content_bytes},\"duration_ms\":{duration_ms}"
    );
    match first_byte_ms(record) {
        Some(ms) => {
            let _ = write!(line, ",\"first_byte_ms\":{ms}");
        }
        None => line.extend_from_slice(b",\"first_byte_ms\":null"),
    }
    let (queue_ms, received_bytes) = (record.waited_ms, record.received_bytes);
    let _ = writeln!(
        line,
        ",\"queue_ms\":{queue_ms},\"received_bytes\":{received_bytes},\"worker\":{worker}}}"
    );
}

fn push_client(line: &mut Vec<u8>, client: Peer) {
    match client {
        Peer::Internet(address) => {
            let _ = write!(line, "{}", address.ip());
        }
        Peer::Unix(_) | Peer::Local => line.push(b'-'),
    }
}

/// `06/Nov/1994:08:49:37 +0000`, taken from the HTTP date.
fn push_log_date(line: &mut Vec<u8>, unix_s: u64) {
    let date = wire::imf_fixdate(unix_s);
    let (_, date) = date.split_at(5);
    for (index, byte) in date.iter().take(20).enumerate() {
        line.push(match index {
            2 | 6 => b'/',
            11 => b':',
            _ => *byte,
        });
    }
    line.extend_from_slice(b" +0000");
}

/// `1994-11-06T08:49:37Z` (RFC 3339), taken from the HTTP date.
fn push_iso_date(line: &mut Vec<u8>, unix_s: u64) {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let date = wire::imf_fixdate(unix_s);
    let part = |start: usize, end: usize| date.get(start..end).unwrap_or_default();
    let month = MONTHS.chunks(3).position(|month| month == part(8, 11));
    line.extend_from_slice(part(12, 16));
    let _ = write!(line, "-{:02}-", month.map_or(0, |month| month + 1));
    line.extend_from_slice(part(5, 7));
    line.push(b'T');
    line.extend_from_slice(part(17, 25));
    line.push(b'Z');
}

fn version(version: Option<Version>) -> &'static str {
    version.map_or("-", Version::name)
}

fn or_dash(value: &[u8]) -> &[u8] {
    if value.is_empty() { b"-" } else { value }
}

/// A target without its query.
fn path_of(target: &[u8]) -> &[u8] {
    target.split(|byte| *byte == b'?').next().unwrap_or(target)
}

/// Appends a peer's bytes, escaped so that they cannot end the line or reach a terminal as control characters.
fn push_escaped(line: &mut Vec<u8>, value: &[u8], escape: Escape) {
    for &byte in value {
        match byte {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', byte]),
            b' ' if escape == Escape::Bare => line.extend_from_slice(b"\\x20"),
            0x20..=0x7e => line.push(byte),
            _ if escape == Escape::Json => {
                let _ = write!(line, "\\u{:04x}", byte);
            }
            _ => {
                let _ = write!(line, "\\x{byte:02x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::record::tests::record;
    use super::*;

    const NOW: Now = Now {
        unix_s: 784_111_777,
        ms: 1042,
        ns: 5_042_999,
    };

    fn line(format: &str, record: &LogRecord) -> String {
        let mut line = Vec::new();
        let format = LogFormat::parse(format).unwrap();
        push(&mut line, &format, record, (NOW, 77));
        String::from_utf8(line).unwrap()
    }

    fn hostile() -> LogRecord {
        record(b"/a\"\x1b[2J\\", &[b"", b"x\r\ny\xff"])
    }

    #[test]
    fn a_combined_line_holds_no_control_characters() {
        let expected = concat!(
            "192.0.2.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a\\\"\\x1b[2J\\\\ HTTP/1.1\" 200 13 ",
            "\"-\" \"x\\x0d\\x0ay\\xff\"\n"
        );
        assert_eq!(line("combined", &hostile()), expected);
    }

    #[test]
    fn a_json_line_is_one_object() {
        let expected = concat!(
            "{\"unix_s\":784111777,\"client\":\"192.0.2.1\",\"method\":\"GET\",\"target\":\"/a\\\"\\u001b[2J\\\\\",",
            "\"referer\":\"\",\"user_agent\":\"x\\u000d\\u000ay\\u00ff\",\"request_id\":\"i-1\",\"version\":\"HTTP/1.1\",\"status\":200,",
            "\"content_bytes\":13,\"duration_ms\":42,\"first_byte_ms\":null,\"queue_ms\":5,",
            "\"received_bytes\":7,\"worker\":77}\n"
        );
        assert_eq!(line("json", &hostile()), expected);
    }

    #[test]
    fn a_response_does_not_end_before_its_start() {
        let mut started = record(b"/", &[]);
        started.begin(200, 13, b"");
        started.start.as_mut().unwrap().ms = 1044;
        assert_eq!(line("{first_byte_ms} {duration_ms}", &started), "44 44\n");
        assert!(line("json", &started).contains("\"duration_ms\":44,\"first_byte_ms\":44,"));
    }

    #[test]
    fn a_template_has_every_value() {
        let plain = record(b"/a?b=c", &[b"d"]);
        for (name, expected) in [
            ("client", "192.0.2.1"),
            ("content_bytes", "13"),
            ("duration_ms", "42"),
            ("duration_us", "42"),
            ("first_byte_ms", "-"),
            ("first_byte_us", "-"),
            ("method", "GET"),
            ("path", "/a"),
            ("queue_ms", "5"),
            ("received_bytes", "7"),
            ("request", "GET\\x20/a?b=c\\x20HTTP/1.1"),
            ("request_id", "i-1"),
            ("status", "200"),
            ("target", "/a?b=c"),
            ("time", "06/Nov/1994:08:49:37 +0000"),
            ("time_iso", "1994-11-06T08:49:37Z"),
            ("tls_cipher", "-"),
            ("tls_server_name", "-"),
            ("tls_version", "-"),
            ("unix_s", "784111777"),
            ("version", "HTTP/1.1"),
            ("worker", "77"),
            ("host", "d"),
            ("request.x-forwarded-for", "d"),
            ("response.x-a", "-"),
        ] {
            assert_eq!(
                line(&format!("{{{name}}}"), &plain),
                format!("{expected}\n"),
                "{name}"
            );
        }
    }

    #[test]
    fn a_template_has_what_is_known_of_the_session() {
        let mut secure = record(b"/", &[]);
        secure.tls = Some(Arc::new(TlsDetails {
            version: 0x0304,
            cipher_suite: 0x1301,
            server_name: Some("a.test".into()),
            server_certificate: None,
            client_certificates: Vec::new(),
        }));
        assert_eq!(
            line("{tls_version} {tls_cipher} {tls_server_name}", &secure),
            "TLSv1.3 TLS_AES_128_GCM_SHA256 a.test\n"
        );
    }

    #[test]
    fn no_value_starts_another_column_or_line() {
        let spaced = record(b"/", &[b"a \" b\n\x7f", b""]);
        assert_eq!(
            line("{user_agent} \"{user_agent}\" {referer} {{}}", &spaced),
            "a\\x20\\\"\\x20b\\x0a\\x7f \"a \\\" b\\x0a\\x7f\" - {}\n"
        );
    }

    #[test]
    fn months_have_their_numbers() {
        for (month, unix_s) in [
            (1, 1_736_942_400),
            (2, 1_739_620_800),
            (12, 1_765_800_000_u64),
        ] {
            let mut line = Vec::new();
            push_iso_date(&mut line, unix_s);
            assert_eq!(line, format!("2025-{month:02}-15T12:00:00Z").as_bytes());
        }
    }
}
