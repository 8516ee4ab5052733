//! Writing responses: the parts that every response has.

/// The interim response that requests the content (RFC 9110 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

macro_rules! status_lines {
    ($($status:literal $reason:literal)*) => {
        /// The whole status line, including CRLF, of a registered status (RFC 9110 15).
        ///
        /// For any other status, [`push_status_line`] writes one without a reason phrase.
        pub fn status_line(status: u16) -> Option<&'static [u8]> {
            match status {
                $($status => Some(concat!("HTTP/1.1 ", $status, " ", $reason, "\r\n").as_bytes()),)*
                _ => None,
            }
        }
    };
}

// The IANA HTTP Status Code Registry, and 418, which the registry keeps unused because of RFC 2324.
status_lines! {
    100 "Continue"
    101 "Switching Protocols"
    102 "Processing"
    103 "Early Hints"
    200 "OK"
    201 "Created"
    202 "Accepted"
    203 "Non-Authoritative Information"
    204 "No Content"
    205 "Reset Content"
    206 "Partial Content"
    207 "Multi-Status"
    208 "Already Reported"
    226 "IM Used"
    300 "Multiple Choices"
    301 "Moved Permanently"
    302 "Found"
    303 "See Other"
    304 "Not Modified"
    305 "Use Proxy"
    307 "Temporary Redirect"
    308 "Permanent Redirect"
    400 "Bad Request"
    401 "Unauthorized"
    402 "Payment Required"
    403 "Forbidden"
    404 "Not Found"
    405 "Method Not Allowed"
    406 "Not Acceptable"
    407 "Proxy Authentication Required"
    408 "Request Timeout"
    409 "Conflict"
    410 "Gone"
    411 "Length Required"
    412 "Precondition Failed"
    413 "Content Too Large"
    414 "URI Too Long"
    415 "Unsupported Media Type"
    416 "Range Not Satisfiable"
    417 "Expectation Failed"
    418 "I'm a Teapot"
    421 "Misdirected Request"
    422 "Unprocessable Content"
    423 "Locked"
    424 "Failed Dependency"
    425 "Too Early"
    426 "Upgrade Required"
    428 "Precondition Required"
    429 "Too Many Requests"
    431 "Request Header Fields Too Large"
    451 "Unavailable For Legal Reasons"
    500 "Internal Server Error"
    501 "Not Implemented"
    502 "Bad Gateway"
    503 "Service Unavailable"
    504 "Gateway Timeout"
    505 "HTTP Version Not Supported"
    506 "Variant Also Negotiates"
    507 "Insufficient Storage"
    508 "Loop Detected"
    510 "Not Extended"
    511 "Network Authentication Required"
}

/// Whether the phrase is the registered one for the status.
pub fn is_registered_reason(status: u16, reason: &[u8]) -> bool {
    let registered = status_line(status)
        .and_then(|line| line.strip_suffix(b"\r\n"))
        .and_then(|line| line.get("HTTP/1.1 200 ".len()..));
    registered == Some(reason)
}

/// Appends the status line (RFC 9112 4). `status` is from 100 to 999, `reason` satisfies [`crate::is_field_value`].
///
/// If `reason` is empty, a registered status gets the registered phrase and any other none; the grammar requires the space before it.
pub fn push_status_line(out: &mut Vec<u8>, status: u16, reason: &[u8]) {
    if reason.is_empty()
        && let Some(line) = status_line(status)
    {
        out.extend_from_slice(line);
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    push_decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// Appends a decimal number, as in Content-Length.
pub fn push_decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a hexadecimal number, as in chunk-size.
pub fn push_hex(out: &mut Vec<u8>, number: u64) {
    let mut text = [0; 16];
    let mut start = text.len();
    let mut rest = number;
    loop {
        start -= 1;
        text[start] = b"0123456789abcdef"[(rest & 0xf) as usize];
        rest >>= 4;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[start..]);
}

/// Appends one chunk (RFC 9112 7.1); nothing for empty content, which would end the message body.
pub fn push_chunk(out: &mut Vec<u8>, content: &[u8]) {
    if content.is_empty() {
        return;
    }
    push_chunk_head(out, content.len() as u64);
    out.extend_from_slice(content);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line before a chunk's data; a CRLF has to follow the data. `length` is not 0.
pub fn push_chunk_head(out: &mut Vec<u8>, length: u64) {
    push_hex(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a chunked message body: the last chunk and the trailer section (RFC 9112
/// 7.1.2), which is encoded field lines, each with its CRLF.
pub fn push_last_chunk(out: &mut Vec<u8>, trailer_section: &[u8]) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(trailer_section);
    out.extend_from_slice(b"\r\n");
}

/// Appends an interim response (RFC 9110 15.2): `field_section` is encoded field lines, each with its CRLF.
pub fn push_interim(out: &mut Vec<u8>, status: u16, field_section: &[u8]) {
    push_status_line(out, status, b"");
    out.extend_from_slice(field_section);
    out.extend_from_slice(b"\r\n");
}

/// Whether the framing allows a response with this status to have content (RFC 9112 6.3): not 1xx,
/// 204, 304.
pub fn has_content(status: u16) -> bool {
    !matches!(status, 100..=199 | 204 | 304)
}

/// Whether a sender may generate content with this status (RFC 9110 15.3.6): not if the framing
/// forbids it, nor with 205.
pub fn may_generate_content(status: u16) -> bool {
    has_content(status) && status != 205
}
