//! What the responses of one second have in common, encoded once.

use super::Fields;

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
    pub(crate) fn sections<'a>(&'a self, fields: Fields<'a>) -> [&'a [u8]; 3] {
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
        [server, date, fields.lines]
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
        self.last.extend_from_slice(lines);
        self.last.extend_from_slice(b"Content-Length: ");
        wire::push_decimal(&mut self.last, length as u64);
        self.last.extend_from_slice(b"\r\n\r\n");
    }
}
