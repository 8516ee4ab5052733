//! The field lines of a response, as an application supplies them.

/// Encoded field lines of a response, each with its CRLF, and the other parts of its head that an application determines.
///
/// They must not contain `Content-Length`, `Transfer-Encoding` or `Connection`: the server determines the framing.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// The encoded lines.
    pub lines: &'a [u8],
    /// `lines` contains a `Date`, so the server's is omitted.
    pub has_date: bool,
    /// The same for `Server`.
    pub has_server: bool,
    /// The reason phrase of the application; if empty, the registered one is sent. It must satisfy [`wire::is_field_value`].
    pub reason: &'a [u8],
    /// `lines` is a constant: the same address means the same bytes.
    pub(super) is_constant: bool,
}

impl<'a> Fields<'a> {
    /// Lines of the server, which contain neither `Date` nor `Server`.
    pub const fn constant(lines: &'static [u8]) -> Fields<'static> {
        Fields {
            lines,
            has_date: false,
            has_server: false,
            reason: b"",
            is_constant: true,
        }
    }

    /// Lines of an application, which are searched for `Date` and `Server`.
    pub fn of_application(lines: &'a [u8]) -> Fields<'a> {
        let (mut has_date, mut has_server) = (false, false);
        for (name, _) in wire::field_lines(lines) {
            has_date |= name.eq_ignore_ascii_case(b"date");
            has_server |= name.eq_ignore_ascii_case(b"server");
        }
        Fields::with_flags(lines, has_date, has_server)
    }

    /// Lines of an application, for which the caller knows whether they contain a `Date` and a `Server`.
    pub const fn with_flags(lines: &'a [u8], has_date: bool, has_server: bool) -> Fields<'a> {
        Fields {
            lines,
            has_date,
            has_server,
            reason: b"",
            is_constant: false,
        }
    }

    /// The same with the application's reason phrase, if it is not empty.
    #[must_use]
    pub const fn with_reason(self, reason: &'a [u8]) -> Fields<'a> {
        Fields { reason, ..self }
    }

    /// Whether the head starts differently from that of most responses.
    pub(super) fn replaces_ours(&self) -> bool {
        self.has_date || self.has_server || !self.reason.is_empty()
    }
}

/// Identifies a constant: equal only for the same constant.
pub(super) fn place(lines: &[u8]) -> (usize, usize) {
    (lines.as_ptr() as usize, lines.len())
}
