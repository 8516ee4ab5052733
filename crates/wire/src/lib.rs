//! HTTP/1 and HTTP/2 without I/O: bytes to events and back.
//!
//! Parsing has three outcomes. [`parse_request`] takes the bytes received so far and returns *complete* (one head, borrowed from those
//! bytes), *incomplete* (valid so far, more is needed) or *refused* (a [`ProtocolError`]; the connection must end). It keeps no state, so
//! the caller decides what to buffer. [`BodyDecoder`] then turns the bytes after the head into content, and the functions of [`encode`]
//! write responses. [`parse_response`] is the client's half, for the load generator.
//!
//! Nothing is repaired. If RFC 9110 and RFC 9112 allow both tolerating and refusing, this crate refuses: recipients that repair differently
//! are how requests get smuggled.
//!
//! Not here: sockets, clocks, threads, timeouts, and any notion of an application.
//!
//! Where to read: [`head`] parses a request; `head/request_line`, `head/target`, `host` and [`field`] are its parts, `grammar` the byte classes and
//! `scan` the loops that find their ends. [`forwarded`] and [`proxy_header`] read what proxies say. [`framing`] decides where content ends and [`chunked`] decodes it. The table in [`error`] lists
//! what is refused, with the status. [`h2`] is HTTP/2, whose requests become heads of the same form. Every rule has a case in `vectors/`.

pub mod chunked;
pub mod date;
pub mod encode;
pub mod error;
pub mod field;
pub mod forwarded;
pub mod framing;
mod grammar;
pub mod h2;
pub mod head;
mod host;
pub mod limits;
pub mod memo;
pub mod method;
pub mod proxy_header;
pub mod response;
mod scan;
mod trailer;
pub mod websocket;

pub use chunked::ChunkedDecoder;
pub use date::{IMF_FIXDATE_LEN, imf_fixdate};
pub use encode::{
    CONTINUE, has_content, is_registered_reason, may_generate_content, push_chunk, push_chunk_head,
    push_decimal, push_hex, push_interim, push_last_chunk, push_status_line, status_line,
};
pub use error::{ErrorKind, ProtocolError};
pub use field::connection_field::{CONNECTION_FIELDS, connection_field};

pub use field::{FieldLine, FieldLines, field_lines, is_field_name, is_field_value};
pub use forwarded::{
    Claims, ForwardingField, ForwardingFields, Node, Scheme, Spelling, is_spelled,
};
pub use framing::{BodyDecoder, BodyLength, Decoded};
pub use grammar::trim_ows;
pub use head::notes::{Notes, last_line, value_of};
pub use head::{
    Progress, RequestHead, parse_decoded_request, parse_request, parse_request_with, rewritten,
    within_limits, worth_parsing,
};
pub use host::{effective_field_section, host_and_port};
pub use limits::HeadLimits;
pub use memo::SectionMemo;
pub use memo::remembered::{LINES_OF_KIND, RememberedLine, skip_kind};
pub use method::{Method, Version};
pub use proxy_header::{PROXY_HEADER_BYTES_MAX, ProxyHeader, ProxyHeaderError, parse_proxy_header};
pub use response::{ResponseBodyLength, ResponseHead, ResponseProgress, parse_response};
pub use scan::{is_same, is_same_throughout};
pub use trailer::may_be_trailer;
