//! The format of the access log: read once, as a list of pieces.
//!
//! A template has fields in braces, such as `{client} "{request}" {status}`. Names, unlike gunicorn's letters, can be read without a table,
//! and a mistake in one is found when the server starts.

use std::fmt::{Display, Formatter, Result as FormatResult};

use super::start::Wanted;

/// The combined format of Apache and nginx; there is never an identity or a user.
const COMBINED: &str =
    "{client} - - [{time}] \"{request}\" {status} {content_bytes} \"{referer}\" \"{user_agent}\"";
/// The prefixes of the names of fields that the request or the response has.
const REQUEST: &str = "request.";
const RESPONSE: &str = "response.";
/// Fields of requests that a line may have, and of responses. The places of the first are part of every record.
pub(super) const NAMES_MAX: usize = 16;

/// What a line reports, other than fields of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Value {
    Client,
    ContentBytes,
    DurationMs,
    DurationUs,
    FirstByteMs,
    FirstByteUs,
    Method,
    Path,
    QueueMs,
    ReceivedBytes,
    Request,
    RequestId,
    Status,
    Target,
    Time,
    TimeIso,
    TlsCipher,
    TlsServerName,
    TlsVersion,
    UnixSeconds,
    Version,
    Worker,
    /// The value of a request's field, by its place in [`LogFormat::names`].
    Field(usize),
    /// The value of a response's field, by its place in [`Wanted::names`].
    ResponseField(usize),
}

/// The names of values. `host`, `referer` and `user_agent` are fields of the request that have a shorter name.
const VALUES: [(&str, Value); 22] = [
    ("client", Value::Client),
    ("content_bytes", Value::ContentBytes),
    ("duration_ms", Value::DurationMs),
    ("duration_us", Value::DurationUs),
    ("first_byte_ms", Value::FirstByteMs),
    ("first_byte_us", Value::FirstByteUs),
    ("method", Value::Method),
    ("path", Value::Path),
    ("queue_ms", Value::QueueMs),
    ("received_bytes", Value::ReceivedBytes),
    ("request", Value::Request),
    ("request_id", Value::RequestId),
    ("status", Value::Status),
    ("target", Value::Target),
    ("time", Value::Time),
    ("time_iso", Value::TimeIso),
    ("tls_cipher", Value::TlsCipher),
    ("tls_server_name", Value::TlsServerName),
    ("tls_version", Value::TlsVersion),
    ("unix_s", Value::UnixSeconds),
    ("version", Value::Version),
    ("worker", Value::Worker),
];
const SHORT: [(&str, &str); 3] = [
    ("host", "host"),
    ("referer", "referer"),
    ("user_agent", "user-agent"),
];

/// A part of a template.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Piece {
    Text(Vec<u8>),
    Value { value: Value, is_quoted: bool },
}

/// How lines are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Template(Vec<Piece>),
    Json,
}

/// Format of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFormat {
    pub(super) form: Form,
    /// The request's fields that lines have, in lower case.
    pub(super) names: Vec<String>,
    /// What of the start of a response lines have.
    pub(super) wanted: Wanted,
    /// Whether lines have the time that requests have waited.
    pub(super) has_waits: bool,
    /// Whether requests are timed with a precise clock.
    pub(super) is_precise: bool,
    /// Whether lines have something of the TLS session.
    pub(super) has_tls: bool,
    /// Whether lines have the request's id.
    pub(super) has_request_id: bool,
}

/// Why a text is no format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FormatError {
    /// There is no field of this name.
    Unknown(String),
    /// A brace without its other one.
    Unpaired,
    /// It would break lines, or a terminal.
    Control,
    /// No field at all.
    NoField,
    /// More fields of requests than a record has places.
    TooMany,
}

impl Display for FormatError {
    fn fmt(&self, out: &mut Formatter<'_>) -> FormatResult {
        match self {
            FormatError::Unknown(name) => {
                let names = VALUES.map(|(name, _)| name).join(", ");
                let short = SHORT.map(|(name, _)| name).join(", ");
                write!(
                    out,
                    "has the unknown field {{{name}}}; fields are {names}, {short}, request.NAME and response.NAME"
                )
            }
            FormatError::Unpaired => out.write_str(
                "has a brace without its other one; write {{ and }} for braces that are no field",
            ),
            FormatError::Control => {
                out.write_str("contains control characters, such as an end of line; remove them")
            }
            FormatError::NoField => out.write_str(
                "is no format; give combined, json, or a template such as '{client} {target} {status}'",
            ),
            FormatError::TooMany => write!(
                out,
                "has more than {NAMES_MAX} fields of requests or responses; remove some"
            ),
        }
    }
}

impl LogFormat {
    /// The combined format of Apache and nginx.
    pub fn combined() -> LogFormat {
        LogFormat::template(COMBINED).unwrap_or_else(|_| LogFormat::json())
    }

    /// One JSON object per line.
    pub fn json() -> LogFormat {
        LogFormat {
            form: Form::Json,
            names: vec!["referer".into(), "user-agent".into()],
            wanted: Wanted::default(),
            has_waits: true,
            is_precise: false,
            has_tls: false,
            has_request_id: true,
        }
    }

    /// Reads `combined`, `json`, or a template.
    ///
    /// # Errors
    /// A template with an unknown field, an unpaired brace, a control character, too many fields or none.
    pub fn parse(text: &str) -> Result<LogFormat, FormatError> {
        match text {
            "combined" => Ok(LogFormat::combined()),
            "json" => Ok(LogFormat::json()),
            _ => LogFormat::template(text),
        }
    }

    fn template(text: &str) -> Result<LogFormat, FormatError> {
        if text.chars().any(char::is_control) {
            return Err(FormatError::Control);
        }
        let mut reading = Reading::default();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            reading.add_text(before);
            if let Some(after) = from.strip_prefix("{{") {
                reading.add_text("{");
                rest = after;
            } else if let Some(after) = from.strip_prefix("}}") {
                reading.add_text("}");
                rest = after;
            } else {
                let inside = from.strip_prefix('{').and_then(|from| from.split_once('}'));
                let (name, after) = inside.ok_or(FormatError::Unpaired)?;
                reading.add_field(name)?;
                rest = after;
            }
        }
        reading.add_text(rest);
        reading.format()
    }
}

/// A template that is being read.
#[derive(Default)]
struct Reading {
    pieces: Vec<Piece>,
    names: Vec<String>,
    response_names: Vec<String>,
    is_quoted: bool,
}

impl Reading {
    fn add_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.is_quoted ^= text.matches('"').count() % 2 == 1;
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.extend_from_slice(text.as_bytes()),
            _ => self.pieces.push(Piece::Text(text.into())),
        }
    }

    fn add_field(&mut self, name: &str) -> Result<(), FormatError> {
        let known = VALUES.iter().find(|(known, _)| *known == name);
        let value = match known {
            Some((_, value)) => *value,
            None => match name.strip_prefix(RESPONSE) {
                Some(long) if is_token(long.as_bytes()) => {
                    Value::ResponseField(place_in(&mut self.response_names, long)?)
                }
                _ => Value::Field(self.place(name)?),
            },
        };
        self.pieces.push(Piece::Value {
            value,
            is_quoted: self.is_quoted,
        });
        Ok(())
    }

    /// The place of a request's field.
    fn place(&mut self, name: &str) -> Result<usize, FormatError> {
        let short = SHORT.iter().find(|(short, _)| *short == name);
        let field_name = match short {
            Some((_, long)) => long,
            None => match name.strip_prefix(REQUEST) {
                Some(long) if is_token(long.as_bytes()) => long,
                _ => return Err(FormatError::Unknown(name.to_string())),
            },
        };
        place_in(&mut self.names, field_name)
    }

    fn format(self) -> Result<LogFormat, FormatError> {
        let has = |wanted: &[Value]| {
            let is_wanted = |piece: &Piece| matches!(piece, Piece::Value { value, .. } if wanted.contains(value));
            self.pieces.iter().any(is_wanted)
        };
        let is_value = |piece: &Piece| matches!(piece, Piece::Value { .. });
        if !self.pieces.iter().any(is_value) {
            return Err(FormatError::NoField);
        }
        Ok(LogFormat {
            is_precise: has(&[Value::DurationUs, Value::FirstByteUs]),
            wanted: Wanted {
                is_precise: has(&[Value::FirstByteUs]),
                names: self.response_names.into(),
            },
            has_waits: has(&[Value::QueueMs]),
            has_tls: has(&[Value::TlsCipher, Value::TlsServerName, Value::TlsVersion]),
            has_request_id: has(&[Value::RequestId]),
            form: Form::Template(self.pieces),
            names: self.names,
        })
    }
}

/// The place of a field among these names, at the end if it is not there.
fn place_in(names: &mut Vec<String>, name: &str) -> Result<usize, FormatError> {
    let place = names
        .iter()
        .position(|known| known.eq_ignore_ascii_case(name));
    if let Some(place) = place {
        return Ok(place);
    }
    if names.len() == NAMES_MAX {
        return Err(FormatError::TooMany);
    }
    names.push(name.to_ascii_lowercase());
    Ok(names.len() - 1)
}

/// Whether a text is a token, as field names and methods are (RFC 9110 section 5.6.2).
pub(super) fn is_token(text: &[u8]) -> bool {
    let is_tchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        LogFormat::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_template_is_a_list_of_pieces() {
        let format =
            LogFormat::parse("{{{status} \"{request.X-A}\" {host}{request.x-a}}}").unwrap();
        let value = |value, is_quoted| Piece::Value { value, is_quoted };
        let pieces = vec![
            Piece::Text(b"{".into()),
            value(Value::Status, false),
            Piece::Text(b" \"".into()),
            value(Value::Field(0), true),
            Piece::Text(b"\" ".into()),
            value(Value::Field(1), false),
            value(Value::Field(0), false),
            Piece::Text(b"}".into()),
        ];
        assert_eq!(format.form, Form::Template(pieces));
        assert_eq!(format.names, ["x-a", "host"]);
        assert!(!format.is_precise && !format.has_tls && !format.has_request_id);
        assert!(LogFormat::parse("{duration_us}").unwrap().is_precise);
        assert!(LogFormat::parse("{tls_server_name}").unwrap().has_tls);
        let format = LogFormat::parse("{response.X-A} {first_byte_us} {response.x-a}").unwrap();
        assert!(format.is_precise && format.wanted.is_precise);
        assert_eq!(*format.wanted.names, ["x-a".to_owned()]);
        assert!(LogFormat::parse("{queue_ms}").unwrap().has_waits);
        assert!(LogFormat::parse("{request_id}").unwrap().has_request_id);
    }

    #[test]
    fn the_combined_format_is_a_template() {
        assert_eq!(LogFormat::combined().names, ["referer", "user-agent"]);
        assert_ne!(LogFormat::combined().form, Form::Json);
    }

    #[test]
    fn a_mistake_is_named() {
        for name in [
            "stauts",
            "",
            "request.",
            "request.a b",
            "response.",
            "Status",
        ] {
            let expected = format!("has the unknown field {{{name}}}; fields are client, ");
            let error = error(&format!("{{client}} {{{name}}}"));
            assert!(error.starts_with(&expected), "{error}");
        }
        for text in ["{status", "status}", "{status}}", "{"] {
            assert!(error(text).starts_with("has a brace"), "{text}");
        }
        assert!(error("{status}\n").starts_with("contains control characters"));
        for text in ["", "common", "%(h)s"] {
            assert!(error(text).starts_with("is no format"), "{text}");
        }
        let fields = |count: usize| -> String {
            (0..count).map(|at| format!("{{request.a{at}}}")).collect()
        };
        assert!(LogFormat::parse(&fields(NAMES_MAX)).is_ok());
        assert!(error(&fields(NAMES_MAX + 1)).starts_with("has more than 16 fields"));
    }
}
