//! The field lines of a response, as an application gives them.

/// Encoded field lines of a response, each with its CRLF, and what else of its head an application decides.
///
/// They must not hold `Content-Length`, `Transfer-Encoding` or `Connection`: framing is the server's.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// The lines.
    pub lines: &'a [u8],
    /// `lines` holds a `Date` of the application's own, so that ours must not follow.
    pub has_date: bool,
    /// The same for `Server`.
    pub has_server: bool,
    /// The reason phrase, if the application has one of its own; otherwise empty, and the registered one is sent. It is what
    /// [`wire::is_field_value`] allows.
    pub reason: &'a [u8],
    /// `lines` is a constant: the same address means the same bytes.
    pub(super) is_constant: bool,
}

impl<'a> Fields<'a> {
    /// Lines of our own, which hold neither `Date` nor `Server`.
    pub const fn constant(lines: &'static [u8]) -> Fields<'static> {
        Fields {
            lines,
            has_date: false,
            has_server: false,
            reason: b"",
            is_constant: true,
        }
    }

    /// Lines of an application, looked through.
    pub fn of_application(lines: &'a [u8]) -> Fields<'a> {
        let (mut has_date, mut has_server) = (false, false);
        for (name, _) in wire::field_lines(lines) {
            has_date |= name.eq_ignore_ascii_case(b"date");
            has_server |= name.eq_ignore_ascii_case(b"server");
        }
        Fields::looked_through(lines, has_date, has_server)
    }

    /// Lines of an application, of which the caller knows whether they hold a `Date` and a `Server`.
    pub const fn looked_through(lines: &'a [u8], has_date: bool, has_server: bool) -> Fields<'a> {
        Fields {
            lines,
            has_date,
            has_server,
            reason: b"",
            is_constant: false,
        }
    }

    /// The same with a reason phrase of the application's own, if it is not empty.
    #[must_use]
    pub const fn with_reason(self, reason: &'a [u8]) -> Fields<'a> {
        Fields { reason, ..self }
    }

    /// Whether the head begins in another way than that of most responses.
    pub(super) fn replaces_ours(&self) -> bool {
        self.has_date || self.has_server || !self.reason.is_empty()
    }

    /// What two constants share only if they are the same.
    pub(super) fn place(&self) -> (usize, usize) {
        (self.lines.as_ptr() as usize, self.lines.len())
    }
}
