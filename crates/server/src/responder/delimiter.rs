//! How the content of a response ends.

/// What marks the end of a streamed content (RFC 9112 section 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Delimiter {
    /// The last chunk.
    Chunks,
    /// Content-Length: the number of bytes still owed.
    Length(u64),
    /// The end of the connection.
    End,
    /// The end of an HTTP/2 stream (RFC 9113 section 8.1).
    Frames,
}

impl Delimiter {
    /// Appends a part of a content; bytes beyond its length are dropped.
    pub(crate) fn push_part(&mut self, out: &mut Vec<u8>, part: &[u8]) {
        match self {
            Delimiter::Chunks => wire::push_chunk(out, part),
            Delimiter::End | Delimiter::Frames => out.extend_from_slice(part),
            Delimiter::Length(_) => {
                let admitted = self.admit(part.len() as u64) as usize;
                out.extend_from_slice(part.get(..admitted).unwrap_or(part));
            }
        }
    }

    /// Counts `bytes` and returns how many of them may follow.
    pub(crate) fn admit(&mut self, bytes: u64) -> u64 {
        let Delimiter::Length(owed) = self else {
            return bytes;
        };
        let admitted = bytes.min(*owed);
        *owed -= admitted;
        admitted
    }
}
