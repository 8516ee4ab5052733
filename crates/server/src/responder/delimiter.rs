//! How the content of an HTTP/1 response ends.

/// What marks the end of a streamed content (RFC 9112 section 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delimiter {
    /// The last chunk.
    Chunks,
    /// Content-Length; so many bytes are still owed.
    Length(u64),
    /// The end of the connection.
    End,
}

impl Delimiter {
    /// Adds one part of a content; what is beyond its length is dropped.
    pub(crate) fn push_part(&mut self, out: &mut Vec<u8>, part: &[u8]) {
        match self {
            Delimiter::Chunks => wire::push_chunk(out, part),
            Delimiter::End => out.extend_from_slice(part),
            Delimiter::Length(_) => {
                let admitted = self.admit(part.len() as u64) as usize;
                out.extend_from_slice(part.get(..admitted).unwrap_or(part));
            }
        }
    }

    /// How many of so many bytes may follow; they are counted.
    pub(crate) fn admit(&mut self, bytes: u64) -> u64 {
        let Delimiter::Length(owed) = self else {
            return bytes;
        };
        let admitted = bytes.min(*owed);
        *owed -= admitted;
        admitted
    }
}
