//! One response as it is received.

use wire::{BodyDecoder, Decoded, ResponseHead};

use super::super::session::Start;
use super::kind::{Kind, Record};
use super::{Facts, Verdict};

/// How much of the current response a connection has received.
pub(in super::super) struct Response {
    stage: Stage,
    status: u16,
    persistent: bool,
    /// All bytes so far are as expected.
    is_same: bool,
    head_bytes: u64,
    /// Bytes of content so far.
    length: u64,
    /// The response so far, as long as it may become the template.
    record: Option<Box<Record>>,
}

pub(super) enum Stage {
    /// Before or inside the head.
    Head,
    /// This many bytes of content remain.
    Known(u64),
    Chunked(BodyDecoder),
    UntilClose,
    /// The frames of a stream delimit the content; its announced length.
    Framed(Option<u64>),
}

impl Response {
    pub(in super::super) fn new() -> Response {
        Response {
            stage: Stage::Head,
            status: 0,
            persistent: true,
            is_same: true,
            head_bytes: 0,
            length: 0,
            record: None,
        }
    }

    /// Whether only the end of the connection ends this response.
    pub(in super::super) fn ends_with_connection(&self) -> bool {
        matches!(self.stage, Stage::UntilClose)
    }

    pub(super) fn is_at_start(&self) -> bool {
        self.is_in_head() && self.head_bytes == 0
    }

    pub(in super::super) fn is_in_head(&self) -> bool {
        matches!(self.stage, Stage::Head)
    }

    pub(super) fn is_known_length(&self) -> bool {
        matches!(self.stage, Stage::Known(_))
    }

    pub(in super::super) fn skip_interim(&mut self, head_bytes: usize) {
        self.head_bytes += head_bytes as u64;
    }

    /// A final head is complete.
    pub(super) fn start(&mut self, kind: &Kind, head: &ResponseHead<'_>, stage: Stage) {
        self.stage = stage;
        self.status = head.status;
        self.persistent = head.persistent;
        self.head_bytes += head.consumed as u64;
        self.length = 0;
        self.record = kind.record(head);
        self.is_same = self.record.is_some() || kind.is_same_head(head);
    }

    /// The final head of a response on a stream. Returns what the same head will mean again, if that is certain.
    pub(in super::super) fn start_framed(
        &mut self,
        kind: &Kind,
        head: &ResponseHead<'_>,
        length: Option<u64>,
    ) -> Option<Start> {
        self.start(kind, head, Stage::Framed(length));
        self.record.is_none().then_some(Start {
            status: head.status,
            head_bytes: head.consumed as u64,
            length,
            is_same: self.is_same,
        })
    }

    /// A final head whose meaning is known.
    #[inline]
    pub(in super::super) fn repeat(&mut self, start: &Start) {
        self.stage = Stage::Framed(start.length);
        self.status = start.status;
        self.head_bytes += start.head_bytes;
        self.length = 0;
        self.is_same = start.is_same;
    }

    /// Content of a stream. Returns false if it is more than was announced.
    #[inline]
    pub(in super::super) fn take_framed(&mut self, kind: &Kind, content: &[u8]) -> bool {
        self.take(kind, content);
        match self.stage {
            Stage::Framed(Some(length)) => self.length <= length,
            _ => true,
        }
    }

    /// Whether the content of a stream, which has ended, has the announced length.
    #[inline]
    pub(in super::super) fn is_whole(&self) -> bool {
        match self.stage {
            Stage::Framed(length) => length.is_none_or(|it| it == self.length),
            _ => false,
        }
    }

    /// Reads content. Returns the number of bytes used, and whether the response is complete. `None`: the framing is invalid.
    pub(super) fn read_content(&mut self, kind: &Kind, data: &[u8]) -> Option<(usize, bool)> {
        match &mut self.stage {
            Stage::Head | Stage::Framed(_) => None,
            Stage::Known(remaining) => {
                let used = usize::try_from(*remaining)
                    .unwrap_or(usize::MAX)
                    .min(data.len());
                *remaining -= used as u64;
                let is_whole = *remaining == 0;
                self.take(kind, data.get(..used).unwrap_or_default());
                Some((used, is_whole))
            }
            Stage::UntilClose => {
                self.take(kind, data);
                Some((data.len(), false))
            }
            Stage::Chunked(_) => self.read_chunks(kind, data),
        }
    }

    fn read_chunks(&mut self, kind: &Kind, data: &[u8]) -> Option<(usize, bool)> {
        let mut rest = data;
        loop {
            let Stage::Chunked(decoder) = &mut self.stage else {
                return None;
            };
            match decoder.decode(&mut rest).ok()? {
                Decoded::Content(content) => self.take(kind, content),
                Decoded::NeedMore => return Some((data.len() - rest.len(), false)),
                Decoded::End => return Some((data.len() - rest.len(), true)),
            }
        }
    }

    #[inline]
    fn take(&mut self, kind: &Kind, content: &[u8]) {
        if let Some(record) = &mut self.record {
            record.content.extend_from_slice(content);
        } else if self.is_same {
            self.is_same = kind.is_same_content(self.length, content);
        }
        self.length += content.len() as u64;
    }

    /// Judges a complete response. The next one starts.
    pub(in super::super) fn judge(&mut self, kind: &Kind, consumed: usize) -> Verdict {
        if let Some(record) = self.record.take() {
            self.is_same = kind.is_template(*record);
        }
        let verdict = Verdict {
            consumed,
            count: 1,
            error: kind.error(self.status, self.length, self.is_same),
            closes: !self.persistent,
            facts: Facts {
                status: self.status,
                head_bytes: self.head_bytes,
                content_bytes: self.length,
            },
        };
        kind.note_first_content(self.length);
        *self = Response::new();
        verdict
    }
}
