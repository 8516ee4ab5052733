//! The field lines of a response, as an application supplies them.

/// Which of the server's own field lines an application's replace.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Replaced {
    /// `Date`.
    pub(crate) date: bool,
    /// `Server`.
    pub(crate) server: bool,
}

impl Replaced {
    /// The application sets the field `name`.
    #[inline]
    pub fn note(&mut self, name: &[u8]) {
        match name.len() {
            4 => self.date |= name.eq_ignore_ascii_case(b"date"),
            6 => self.server |= name.eq_ignore_ascii_case(b"server"),
            _ => {}
        }
    }

    const NONE: Replaced = Replaced {
        date: false,
        server: false,
    };
}

/// Encoded field lines of a response, each with its CRLF, and the other parts of its head that an application determines.
///
/// They must not contain `Content-Length`, `Transfer-Encoding` or `Connection`: the server determines the framing.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// The encoded lines.
    pub lines: &'a [u8],
    /// What `lines` contains, so that the server's is omitted.
    pub replaced: Replaced,
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
            replaced: Replaced::NONE,
            reason: b"",
            is_constant: true,
        }
    }

    /// Lines of an application, which are searched for `Date` and `Server`.
    pub fn of_application(lines: &'a [u8]) -> Fields<'a> {
        let mut replaced = Replaced::NONE;
        for (name, _) in wire::field_lines(lines) {
            replaced.note(name);
        }
        Fields::that_replace(lines, replaced)
    }

    /// Lines of an application, for which the caller knows what they replace.
    pub const fn that_replace(lines: &'a [u8], replaced: Replaced) -> Fields<'a> {
        Fields {
            lines,
            replaced,
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
        self.replaced != Replaced::NONE || !self.reason.is_empty()
    }
}

/// Identifies a constant: equal only for the same constant.
pub(super) fn place(lines: &[u8]) -> (usize, usize) {
    (lines.as_ptr() as usize, lines.len())
}
