//! Reads DER (X.690): elements in order, and nothing else. What cannot be read is `None`.

pub(super) const INTEGER: u8 = 0x02;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OBJECT_IDENTIFIER: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// One element: its tag, its content, and all of its bytes.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    pub(super) whole: &'a [u8],
}

/// What is left of a sequence of elements.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    /// Its bytes.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    /// The content of the next element, which must have this tag.
    pub(super) fn read(&mut self, tag: u8) -> Option<&'a [u8]> {
        let element = self.next().filter(|element| element.tag == tag)?;
        Some(element.content)
    }

    /// The elements inside the next one, which must have this tag.
    pub(super) fn enter(&mut self, tag: u8) -> Option<Reader<'a>> {
        self.read(tag).map(Reader)
    }

    /// The elements inside the next one, which is skipped, if it has this tag.
    pub(super) fn enter_if(&mut self, tag: u8) -> Option<Reader<'a>> {
        let mut ahead = *self;
        let inside = ahead.enter(tag)?;
        *self = ahead;
        Some(inside)
    }

    /// Skips the next element if it has this tag.
    pub(super) fn pass_over(&mut self, tag: u8) {
        self.enter_if(tag);
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let (&tag, after_tag) = self.0.split_first()?;
        let (&first, after_first) = after_tag.split_first()?;
        let (length, header_bytes, after) = match first {
            0..=0x7f => (usize::from(first), 2, after_first),
            // A certificate has no element that needs more than four bytes for its length.
            0x81..=0x84 => {
                let count = usize::from(first & 0x7f);
                let (digits, after) = after_first.split_at_checked(count)?;
                let add = |length: usize, digit: &u8| length << 8 | usize::from(*digit);
                (digits.iter().fold(0, add), 2 + count, after)
            }
            _ => return None,
        };
        let (content, rest) = after.split_at_checked(length)?;
        let whole = self.0.get(..header_bytes + length)?;
        self.0 = rest;
        Some(Element {
            tag,
            content,
            whole,
        })
    }
}

/// An object identifier in dotted form.
pub(super) fn dotted(identifier: &[u8]) -> String {
    let mut arcs: Vec<u64> = Vec::new();
    let mut arc: u64 = 0;
    for byte in identifier {
        arc = arc.wrapping_shl(7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if arcs.is_empty() {
                let root = (arc / 40).min(2);
                arcs.push(root);
                arc -= root * 40;
            }
            arcs.push(arc);
            arc = 0;
        }
    }
    let arcs: Vec<String> = arcs.iter().map(u64::to_string).collect();
    arcs.join(".")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_in_order() {
        let mut reader = Reader::new(b"\x30\x03\x02\x01\x05\x04\x81\x02hi");
        let mut inner = reader.enter(SEQUENCE).unwrap();
        assert_eq!(inner.read(INTEGER).unwrap(), b"\x05");
        assert!(inner.next().is_none());
        let last = reader.next().unwrap();
        assert_eq!((last.tag, last.content), (OCTET_STRING, &b"hi"[..]));
        assert_eq!(last.whole, b"\x04\x81\x02hi");
        assert!(reader.next().is_none());
    }

    #[test]
    fn what_is_cut_or_endless_is_not_read() {
        for bytes in [
            &b"\x30"[..],
            b"\x30\x05\x02\x01",
            b"\x30\x80\x00\x00",
            b"\x30\x85\x01\x01\x01\x01\x01",
            b"\x30\x84\xff\xff\xff\xff",
        ] {
            assert!(Reader::new(bytes).next().is_none(), "{bytes:x?}");
        }
    }

    #[test]
    fn identifiers_are_dotted() {
        let email = b"\x2a\x86\x48\x86\xf7\x0d\x01\x09\x01";
        assert_eq!(dotted(email), "1.2.840.113549.1.9.1");
        assert_eq!(dotted(b"\x55\x04\x03"), "2.5.4.3");
    }
}
