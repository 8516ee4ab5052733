//! From received bytes to verdicts: status and length of every answer, without I/O.
//!
//! Answers of one run are mostly the same bytes. A head that equals the last head found right needs no parsing, because the same
//! bytes have the same meaning; and where the whole answer repeats, one memory comparison judges all repetitions at once. What
//! differs in any byte (a new Date, once per second) is parsed, and known from then on.

use wire::{
    BodyDecoder, BodyLength, Decoded, HeadLimits, ResponseBodyLength, ResponseHead,
    ResponseProgress, parse_response,
};

/// A known answer longer than this is recognised by its head alone, so that comparing never costs much more than skipping.
const WHOLE_ANSWER_BYTES_MAX: usize = 4096;

/// Judges answers; one for all connections.
pub(super) struct Checker {
    expected_status: u16,
    expected_length: Option<u64>,
    request_is_head: bool,
    limits: HeadLimits,
    /// The last head that was found right, of a persistent answer of known length.
    known: Vec<u8>,
    /// The content length that this head states.
    known_length: usize,
}

/// Where a connection is in its current answer.
pub(super) struct Answer {
    stage: Stage,
    status_fits: bool,
    persistent: bool,
    /// Bytes of content so far, where only the end tells.
    length: u64,
}

enum Stage {
    /// Before or in the head.
    Head,
    /// So many bytes of content are to come.
    Known(u64),
    Chunked(BodyDecoder),
    UntilClose,
}

/// What some received bytes were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Checked {
    /// How many of them were used; the rest belongs to an incomplete head, or nobody asked for it.
    pub(super) consumed: usize,
    pub(super) good: u32,
    pub(super) wrong_status: u32,
    pub(super) wrong_length: u32,
    /// Right, if nothing were behind it; entered by who knows that nothing more was asked for.
    pub(super) unexpected_bytes: u32,
    /// The last of these answers said that the connection ends.
    pub(super) closes: bool,
    /// What follows is not HTTP.
    pub(super) malformed: bool,
}

impl Checked {
    pub(super) fn answers(&self) -> u32 {
        self.good + self.wrong_status + self.wrong_length + self.unexpected_bytes
    }
}

impl Answer {
    pub(super) fn new() -> Answer {
        Answer {
            stage: Stage::Head,
            status_fits: false,
            persistent: true,
            length: 0,
        }
    }

    /// Whether nothing but the end of the connection ends this answer.
    pub(super) fn ends_with_connection(&self) -> bool {
        matches!(self.stage, Stage::UntilClose)
    }
}

impl Checker {
    pub(super) fn new(status: u16, length: Option<u64>, request_is_head: bool) -> Checker {
        Checker {
            expected_status: status,
            expected_length: length,
            request_is_head,
            limits: HeadLimits::default(),
            known: Vec::new(),
            known_length: 0,
        }
    }

    /// Judges up to `wanted` answers in `data`, which continues `answer`.
    ///
    /// Cost: no allocation but when a new head is remembered; of a repeated answer, one comparison.
    pub(super) fn check(&mut self, answer: &mut Answer, data: &[u8], wanted: u32) -> Checked {
        let mut checked = Checked::default();
        while checked.answers() < wanted && !checked.closes {
            let rest = data.get(checked.consumed..).unwrap_or_default();
            if rest.is_empty() {
                break;
            }
            let step = match answer.stage {
                Stage::Head => {
                    let repeated = self.repetitions(rest, wanted - checked.answers());
                    if repeated > 0 {
                        checked.good += repeated;
                        checked.consumed +=
                            repeated as usize * (self.known.len() + self.known_length);
                        continue;
                    }
                    self.read_head(answer, rest)
                }
                Stage::Known(_) => Ok(read_known(answer, rest)),
                Stage::Chunked(_) => read_chunked(answer, rest),
                Stage::UntilClose => {
                    answer.length += rest.len() as u64;
                    Ok((rest.len(), false))
                }
            };
            let Ok((used, whole)) = step else {
                checked.malformed = true;
                break;
            };
            checked.consumed += used;
            if whole {
                self.judge(answer, &mut checked);
            } else if used == 0 {
                break;
            }
        }
        checked
    }

    /// Judges the answer that the end of the connection completed.
    pub(super) fn check_end(&mut self, answer: &mut Answer) -> Checked {
        let mut checked = Checked::default();
        self.judge(answer, &mut checked);
        checked
    }

    /// How many times `data` starts with the known answer, by two comparisons: none, one, or all that fit.
    fn repetitions(&self, data: &[u8], wanted: u32) -> u32 {
        let length = self.known.len() + self.known_length;
        if self.known.is_empty() || data.len() < length || !data.starts_with(&self.known) {
            return 0;
        }
        let fitting = (data.len() / length).min(wanted as usize);
        if fitting > 1 && length <= WHOLE_ANSWER_BYTES_MAX {
            let later = data.get(length..fitting * length);
            let earlier = data.get(..(fitting - 1) * length);
            if later.is_some() && later == earlier {
                return fitting as u32;
            }
        }
        1
    }

    /// Reads a head. Gives the bytes used (0: it is incomplete) and whether the answer ends with it.
    fn read_head(&mut self, answer: &mut Answer, data: &[u8]) -> Result<(usize, bool), ()> {
        let parsed = parse_response(data, &self.limits, self.request_is_head).map_err(|_| ())?;
        let ResponseProgress::Complete(head) = parsed else {
            return Ok((0, false));
        };
        if head.status == 101 {
            return Err(());
        }
        if head.status < 200 {
            return Ok((head.consumed, false));
        }
        answer.status_fits = head.status == self.expected_status;
        answer.persistent = head.persistent;
        answer.length = 0;
        answer.stage = match head.body_length {
            ResponseBodyLength::None => Stage::Known(0),
            ResponseBodyLength::Known(length) => {
                answer.length = length;
                Stage::Known(length)
            }
            ResponseBodyLength::Chunked => Stage::Chunked(BodyDecoder::new(BodyLength::Chunked)),
            ResponseBodyLength::UntilClose => Stage::UntilClose,
        };
        self.remember(&head);
        Ok((head.consumed, matches!(answer.stage, Stage::Known(0))))
    }

    /// Keeps a head that is right, so that its repetition needs no parsing.
    fn remember(&mut self, head: &ResponseHead<'_>) {
        let ResponseBodyLength::Known(length) = head.body_length else {
            return;
        };
        let expected = *self.expected_length.get_or_insert(length);
        if head.persistent && head.status == self.expected_status && length == expected {
            self.known.clear();
            self.known.extend_from_slice(head.bytes);
            self.known_length = usize::try_from(length).unwrap_or(usize::MAX / 2);
        }
    }

    fn judge(&mut self, answer: &mut Answer, checked: &mut Checked) {
        let expected = *self.expected_length.get_or_insert(answer.length);
        if !answer.status_fits {
            checked.wrong_status += 1;
        } else if answer.length != expected {
            checked.wrong_length += 1;
        } else {
            checked.good += 1;
        }
        checked.closes = !answer.persistent;
        answer.stage = Stage::Head;
    }
}

fn read_known(answer: &mut Answer, data: &[u8]) -> (usize, bool) {
    let Stage::Known(remaining) = &mut answer.stage else {
        return (0, false);
    };
    let used = usize::try_from(*remaining)
        .unwrap_or(usize::MAX)
        .min(data.len());
    *remaining -= used as u64;
    (used, *remaining == 0)
}

fn read_chunked(answer: &mut Answer, data: &[u8]) -> Result<(usize, bool), ()> {
    let Stage::Chunked(decoder) = &mut answer.stage else {
        return Err(());
    };
    let mut rest = data;
    loop {
        match decoder.decode(&mut rest).map_err(|_| ())? {
            Decoded::Content(content) => answer.length += content.len() as u64,
            Decoded::NeedMore => return Ok((data.len() - rest.len(), false)),
            Decoded::End => return Ok((data.len() - rest.len(), true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `stream` in two pieces, keeping an incomplete head as the driver does.
    fn feed(stream: &[u8], cut: usize, wanted: u32) -> Checked {
        let mut checker = Checker::new(200, None, false);
        let mut answer = Answer::new();
        let mut total = Checked::default();
        let mut early = Vec::new();
        for piece in [&stream[..cut], &stream[cut..]] {
            early.extend_from_slice(piece);
            let found = checker.check(&mut answer, &early, wanted - total.answers());
            early.drain(..found.consumed);
            total.good += found.good;
            total.wrong_status += found.wrong_status;
            total.wrong_length += found.wrong_length;
            total.malformed |= found.malformed;
        }
        total.consumed = stream.len() - early.len();
        total
    }

    #[test]
    fn every_cut_of_a_stream_gives_the_same_verdicts() {
        let same = b"HTTP/1.1 200 OK\r\nDate: a\r\nContent-Length: 3\r\n\r\nhey";
        let later = b"HTTP/1.1 200 OK\r\nDate: b\r\nContent-Length: 3\r\n\r\nhey";
        let other = b"HTTP/1.1 200 OK\r\nDate: b\r\nContent-Length: 3\r\n\r\nyou";
        let wrong = b"HTTP/1.1 500 No\r\nContent-Length: 3\r\n\r\nhey";
        let long = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nlong\r\n0\r\n\r\n";
        let hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: close\r\n\r\n";
        let parts: [&[u8]; 12] = [
            same, same, hint, same, later, other, hint, hint, wrong, long, later, same,
        ];
        let stream = parts.concat();
        for cut in 0..=stream.len() {
            let found = feed(&stream, cut, 9);
            let verdicts = (found.good, found.wrong_status, found.wrong_length);
            assert_eq!(verdicts, (7, 1, 1), "{cut}");
            assert_eq!(
                (found.consumed, found.malformed),
                (stream.len(), false),
                "{cut}"
            );
        }
    }

    #[test]
    fn no_more_answers_are_taken_than_are_wanted() {
        let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".repeat(5);
        for wanted in 1..=5 {
            let found = feed(&stream, stream.len(), wanted);
            assert_eq!(
                (found.good, found.consumed),
                (wanted, stream.len() / 5 * wanted as usize)
            );
        }
    }
}
