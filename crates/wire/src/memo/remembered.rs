//! Field lines remembered one by one, each with a result, so that repeated lines are only compared.
//!
//! A client sends most of its fields with each request, and clients of one kind send the same. Of a line that may contain something secret
//! only the name is remembered ([`crate::field::harmless`]): the duration of a comparison would reveal one client's line to another.
//!
//! The caller decides what the results for a name (`N`) and for a whole line (`V`) are, and what happens to lines that are no longer sent.

use crate::field::harmless::is_harmless_field;
use crate::field::{FieldLine, FieldLines};

/// Longer lines are read each time: limits what a worker keeps.
const LINE_BYTES_MAX: usize = 512;
/// Clients whose sections start with this many equal lines count as one kind.
pub const LINES_OF_KIND: usize = 2;

/// A field line, the result for its name and, if all of it may be remembered, the result for the line.
#[derive(Debug)]
pub struct RememberedLine<N, V> {
    /// As received, with its end; only the name if there is no `whole`.
    bytes: Vec<u8>,
    name_len: usize,
    of_name: N,
    is_harmless: bool,
    whole: Option<V>,
}

impl<N, V> RememberedLine<N, V> {
    /// A line of this name, of which nothing else is remembered yet.
    pub fn new(name: &[u8], of_name: N) -> RememberedLine<N, V> {
        RememberedLine {
            bytes: name.to_vec(),
            name_len: name.len(),
            of_name,
            is_harmless: is_harmless_field(name),
            whole: None,
        }
    }

    /// The result for the name.
    #[inline]
    pub fn of_name(&self) -> &N {
        &self.of_name
    }

    /// Whether the name is this one, spelled this way.
    #[inline]
    pub fn has_name(&self, name: &[u8]) -> bool {
        self.bytes.get(..self.name_len) == Some(name)
    }

    /// Remembers a line of this name and its result, or only the name if the line may contain something secret or is long.
    #[inline]
    pub fn keep(&mut self, line: FieldLine<'_>, whole: V) {
        if !self.is_harmless || line.bytes.len() > LINE_BYTES_MAX {
            self.whole = None;
            return;
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(line.bytes);
        self.whole = Some(whole);
    }

    /// Whether more than the name is remembered.
    #[inline]
    pub fn is_kept(&self) -> bool {
        self.whole.is_some()
    }

    /// Skips the next line if it is this one, and returns its result.
    #[inline]
    pub fn skip_in(&self, lines: &mut FieldLines<'_>) -> Option<&V> {
        let whole = self.whole.as_ref()?;
        lines.skip(&self.bytes).then_some(whole)
    }
}

/// What follows the lines that identify the kind of client, in a section that starts with those of `remembered`.
#[inline]
pub fn skip_kind<'a, N, V>(
    remembered: &[RememberedLine<N, V>],
    section: FieldLines<'a>,
) -> Option<FieldLines<'a>> {
    let mut rest = section;
    for line in remembered.iter().take(LINES_OF_KIND) {
        line.skip_in(&mut rest)?;
    }
    (!remembered.is_empty()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::field_lines;

    /// Remembers the first line of a section.
    fn remembered(section: &[u8]) -> RememberedLine<&'static str, u8> {
        let line = field_lines(section).next_line().expect("a line");
        let mut remembered = RememberedLine::new(line.name, "name");
        remembered.keep(line, 7);
        remembered
    }

    #[test]
    fn a_repeated_line_is_skipped() {
        let line = remembered(b"Accept: a\r\n");
        let mut lines = field_lines(b"Accept: a\r\nHost: b\r\n");
        assert_eq!(line.skip_in(&mut lines), Some(&7));
        assert_eq!(lines.rest(), b"Host: b\r\n");
        for other in [&b"Accept: b\r\n"[..], b"accept: a\r\n", b"Accept: a", b""] {
            let mut lines = field_lines(other);
            assert_eq!(line.skip_in(&mut lines), None);
            assert_eq!(lines.rest(), other);
        }
    }

    #[test]
    fn only_the_name_of_what_may_be_secret_or_is_long_is_remembered() {
        let long = format!("Accept: {}\r\n", "a".repeat(LINE_BYTES_MAX));
        for section in ["Cookie: a\r\n", "X-Api-Key: a\r\n", &long] {
            let line = remembered(section.as_bytes());
            let name = section.split(':').next().expect("a name").as_bytes();
            assert!(line.has_name(name) && *line.of_name() == "name");
            assert!(!line.is_kept());
            assert_eq!(line.bytes, name);
            assert_eq!(line.skip_in(&mut field_lines(section.as_bytes())), None);
        }
    }

    #[test]
    fn what_was_remembered_is_forgotten_when_a_line_is_not() {
        let mut line = remembered(b"Accept: a\r\n");
        let long = format!("Accept: {}\r\n", "a".repeat(LINE_BYTES_MAX));
        line.keep(field_lines(long.as_bytes()).next_line().expect("a line"), 8);
        assert_eq!(line.skip_in(&mut field_lines(b"Accept: a\r\n")), None);
        assert!(line.has_name(b"Accept"));
    }

    #[test]
    fn the_first_lines_identify_the_kind_of_client() {
        let lines = [
            remembered(b"Host: a\r\n"),
            remembered(b"Accept: b\r\n"),
            remembered(b"Pragma: c\r\n"),
        ];
        let rest = |lines, section| {
            skip_kind::<&str, u8>(lines, field_lines(section)).map(|rest| rest.rest())
        };
        let same = b"Host: a\r\nAccept: b\r\nTE: d\r\n";
        assert_eq!(rest(&lines, same), Some(&b"TE: d\r\n"[..]));
        assert_eq!(rest(&lines, b"Host: a\r\nAccept: c\r\n"), None);
        assert_eq!(rest(&lines[..1], b"Host: a\r\n"), Some(&b""[..]));
        assert_eq!(rest(&[], b"Host: a\r\n"), None);
    }
}
