//! What the responses of one second have in common, encoded once.

use super::{Fields, Responder};

/// The field lines common to every response of one second, and the head of the most frequent response.
pub(crate) struct Stamp {
    pub(super) server: &'static [u8],
    pub(super) date: Vec<u8>,
    /// The status line of a 200, and both fields.
    pub(super) ok: Vec<u8>,
    /// The whole head of the last plain response (a 200 with those lines and that length): most responses start like the previous one.
    pub(super) last: Vec<u8>,
    last_lines: Vec<u8>,
    last_length: usize,
    /// Address and length of the constant that `last_lines` was copied from, if it was one.
    last_constant: Option<(usize, usize)>,
    /// Responses have the ids of their requests.
    pub(crate) sends_ids: bool,
    /// The field line with the id of the current request, if it is sent.
    id_line: Vec<u8>,
}

impl Stamp {
    pub(crate) fn new(has_server_field: bool, unix_s: u64) -> Stamp {
        let server: &[u8] = if has_server_field {
            b"Server: bolide\r\n"
        } else {
            b""
        };
        let mut stamp = Stamp {
            server,
            date: Vec::new(),
            ok: Vec::new(),
            last: Vec::new(),
            last_lines: Vec::new(),
            last_length: 0,
            last_constant: None,
            sends_ids: false,
            id_line: Vec::new(),
        };
        stamp.refresh(unix_s);
        stamp
    }

    pub(crate) fn refresh(&mut self, unix_s: u64) {
        self.date.clear();
        self.date.extend_from_slice(b"Date: ");
        self.date.extend_from_slice(&wire::imf_fixdate(unix_s));
        self.date.extend_from_slice(b"\r\n");
        self.ok.clear();
        wire::push_status_line(&mut self.ok, 200, b"");
        self.ok.extend_from_slice(self.server);
        self.ok.extend_from_slice(&self.date);
        self.remember(Fields::constant(b""), 0);
    }

    /// The field lines of a response: the server's own, then those of the application.
    pub(crate) fn sections<'a>(&'a self, fields: Fields<'a>) -> [&'a [u8]; 4] {
        let server = if fields.replaced.server {
            b""
        } else {
            self.server
        };
        let date = if fields.replaced.date {
            b""
        } else {
            &self.date[..]
        };
        [
            server,
            date,
            self.id_line_beside(fields.lines),
            fields.lines,
        ]
    }

    /// The field line with the id of the request; empty if none is sent, or if the application's lines have such a field.
    #[inline]
    pub(super) fn id_line_beside(&self, lines: &[u8]) -> &[u8] {
        match self.id_line.is_empty() || self.has_its_name(lines) {
            true => b"",
            false => &self.id_line,
        }
    }

    #[cold]
    fn has_its_name(&self, lines: &[u8]) -> bool {
        let name = self.id_line.split(|byte| *byte == b':').next();
        let name = name.unwrap_or_default();
        wire::field_lines(lines).any(|(other, _)| other.eq_ignore_ascii_case(name))
    }

    /// Whether responses have a field line with an id.
    #[inline]
    pub(super) fn has_id(&self) -> bool {
        !self.id_line.is_empty()
    }

    /// Changes the field line with the id; an empty one is none. What starts with another is not repeated.
    pub(super) fn set_id_line(&mut self, line: &[u8]) {
        self.id_line.clear();
        self.id_line.extend_from_slice(line);
        (self.last_constant, self.last_length) = (None, usize::MAX);
    }

    /// Whether the whole head equals the remembered one.
    #[inline]
    pub(super) fn is_as_before(&self, fields: Fields<'_>, length: usize) -> bool {
        (fields.is_constant && self.is_constant_as_before(fields.lines, length))
            || (self.last_length == length && self.last_lines == fields.lines)
    }

    /// As [`Stamp::is_as_before`] for lines that are a constant: they need not be compared.
    #[inline]
    pub(super) fn is_constant_as_before(&self, lines: &[u8], length: usize) -> bool {
        self.last_constant == Some(super::fields::place(lines)) && self.last_length == length
    }

    pub(super) fn remember(&mut self, fields: Fields<'_>, length: usize) {
        let lines = fields.lines;
        self.last_constant = fields.is_constant.then_some(super::fields::place(lines));
        self.last_lines.clear();
        self.last_lines.extend_from_slice(lines);
        self.last_length = length;
        self.last.clear();
        self.last.extend_from_slice(&self.ok);
        if self.has_id() && !self.has_its_name(lines) {
            self.last.extend_from_slice(&self.id_line);
        }
        self.last.extend_from_slice(lines);
        self.last.extend_from_slice(b"Content-Length: ");
        wire::push_decimal(&mut self.last, length as u64);
        self.last.extend_from_slice(b"\r\n\r\n");
    }
}

impl Responder {
    /// Keeps the application's lines, if the log needs them.
    #[inline]
    pub(super) fn keep_lines(&mut self, fields: Fields<'_>) {
        if self.keeps_lines {
            self.has_kept = true;
            self.kept_lines.clear();
            self.kept_lines.extend_from_slice(fields.lines);
        }
    }

    /// The application's lines of the response that the call has written.
    pub(crate) fn lines(&self) -> &[u8] {
        match self.has_kept {
            true => &self.kept_lines,
            false => &self.stamp.last_lines,
        }
    }

    /// Whether responses have the ids of their requests.
    pub(crate) fn sends_ids(&self) -> bool {
        self.stamp.sends_ids
    }

    /// What is written next responds to the request with this field line for its id.
    #[inline]
    pub(crate) fn identify(&mut self, id_line: Option<&[u8]>) {
        if self.stamp.sends_ids && (id_line.is_some() || self.stamp.has_id()) {
            self.stamp.set_id_line(id_line.unwrap_or_default());
            self.frames.forget_last();
        }
    }
}
