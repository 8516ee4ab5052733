//! From received bytes to verdicts: checks status, framing, length and content of every response, without I/O.
//!
//! Most responses of a run are the same bytes. If a response equals the last correct one it needs no parsing, because the same bytes have
//! the same meaning; where a whole response repeats, one memory comparison checks all repetitions at once. A response that differs in any
//! byte (a new Date, once per second) is parsed, and known from then on. [`kind`] decides which responses are correct.

mod kind;
mod response;

use std::sync::Arc;

use wire::{
    BodyDecoder, BodyLength, HeadLimits, ResponseBodyLength, ResponseHead, ResponseProgress,
    parse_response,
};

use super::error::ErrorClass;
pub(super) use kind::Kind;
pub(super) use response::Response;
use response::Stage;

/// A known response longer than this is recognised by its head alone, if its content does not matter.
const REPETITION_BYTES_MAX: usize = 4096;
/// Longer responses are not kept for comparison.
const KNOWN_BYTES_MAX: usize = 256 * 1024;

/// Checks responses; one for all connections of a thread.
pub(super) struct Checker {
    kinds: Arc<[Kind]>,
    limits: HeadLimits,
    /// For each kind, the last response that was correct and kept its connection open.
    references: Vec<ReferenceResponse>,
}

#[derive(Default)]
struct ReferenceResponse {
    /// The whole response, or its head if nothing else matters.
    bytes: Vec<u8>,
    /// The length of the whole response; 0: none is known.
    length: usize,
    facts: Facts,
}

/// The measures of a complete response.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Facts {
    pub(super) status: u16,
    pub(super) head_bytes: u64,
    pub(super) content_bytes: u64,
}

/// What the next received bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// This many bytes of an incomplete response; the rest is an incomplete head.
    Part(usize),
    /// Complete responses.
    Responses(Verdict),
    /// Not HTTP.
    Malformed,
}

/// Complete responses, all alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Verdict {
    pub(super) consumed: usize,
    pub(super) count: u32,
    /// What is wrong with each of them.
    pub(super) error: Option<ErrorClass>,
    /// The connection ends after the last.
    pub(super) closes: bool,
    /// The measures of each of them.
    pub(super) facts: Facts,
}

impl Checker {
    pub(super) fn new(kinds: Arc<[Kind]>) -> Checker {
        let references = kinds.iter().map(|_| ReferenceResponse::default()).collect();
        Checker {
            kinds,
            limits: HeadLimits::default(),
            references,
        }
    }

    /// Checks the start of `data`, which continues `response`: a part of a response to a request of this kind, a complete one, or up to
    /// `wanted` equal ones.
    ///
    /// Cost: no allocation unless a new response is remembered; for a repeated response, one comparison.
    #[inline]
    pub(super) fn next(
        &mut self,
        response: &mut Response,
        kind: usize,
        data: &[u8],
        wanted: u32,
    ) -> Step {
        if response.is_at_start()
            && let Some(known) = self.references.get(kind)
        {
            let count = known.repetitions(data, wanted);
            if count > 0 {
                return Step::Responses(Verdict {
                    consumed: count as usize * known.length,
                    count,
                    error: None,
                    closes: false,
                    facts: known.facts,
                });
            }
        }
        self.read(response, kind, data).unwrap_or(Step::Malformed)
    }

    /// Judges the response that was completed by the end of the connection.
    pub(super) fn end(&mut self, response: &mut Response, kind: usize) -> Option<Verdict> {
        let kind = self.kinds.get(kind)?;
        Some(response.judge(kind, 0))
    }

    /// Reads up to one response. `None`: this is not HTTP.
    fn read(&mut self, response: &mut Response, kind: usize, data: &[u8]) -> Option<Step> {
        let is_start = response.is_at_start();
        let mut consumed = 0;
        while response.is_in_head() {
            let rest = data.get(consumed..).unwrap_or_default();
            match self.read_head(response, kind, rest)? {
                0 => return Some(Step::Part(consumed)),
                used => consumed += used,
            }
        }
        let rules = self.kinds.get(kind)?;
        let rest = data.get(consumed..).unwrap_or_default();
        let (used, is_whole) = response.read_content(rules, rest)?;
        consumed += used;
        if !is_whole {
            return Some(Step::Part(consumed));
        }
        let is_known_length = response.is_known_length();
        let verdict = response.judge(rules, consumed);
        if is_start && verdict.error.is_none() && !verdict.closes {
            let whole = data.get(..consumed).unwrap_or_default();
            self.remember(kind, whole, verdict.facts, is_known_length);
        }
        Some(Step::Responses(verdict))
    }

    /// Reads an interim or final head. Returns the number of bytes used; 0: it is incomplete.
    fn read_head(&mut self, response: &mut Response, kind: usize, data: &[u8]) -> Option<usize> {
        let rules = self.kinds.get(kind)?;
        let head = match parse_response(data, &self.limits, rules.is_head()).ok()? {
            ResponseProgress::Complete(head) => head,
            ResponseProgress::Incomplete => return Some(0),
        };
        if head.status == 101 {
            return None;
        }
        if head.status < 200 {
            response.skip_interim(head.consumed);
            return Some(head.consumed);
        }
        rules.note_first(&head);
        response.start(rules, &head, stage_of(&head));
        Some(head.consumed)
    }

    /// Keeps a correct response, so that its repetition needs no parsing.
    fn remember(&mut self, kind: usize, whole: &[u8], facts: Facts, is_known_length: bool) {
        let (Some(rules), Some(known)) = (self.kinds.get(kind), self.references.get_mut(kind))
        else {
            return;
        };
        let head_len = facts.head_bytes as usize;
        // If the length is known only the head matters; the end of any other content is found only in its bytes.
        let kept = match rules.checks_content() || !is_known_length {
            true => whole,
            false => whole.get(..head_len).unwrap_or_default(),
        };
        if kept.len() <= KNOWN_BYTES_MAX {
            known.bytes.clear();
            known.bytes.extend_from_slice(kept);
            known.length = whole.len();
            known.facts = facts;
        }
    }
}

impl ReferenceResponse {
    /// How many times `data` starts with the known response, by two comparisons: none, one, or all that fit.
    #[inline]
    fn repetitions(&self, data: &[u8], wanted: u32) -> u32 {
        if self.length == 0 || data.len() < self.length || !data.starts_with(&self.bytes) {
            return 0;
        }
        if data.len() < 2 * self.length || wanted < 2 || self.length > REPETITION_BYTES_MAX {
            return 1;
        }
        let fitting = (data.len() / self.length).min(wanted as usize);
        let later = data.get(self.length..fitting * self.length);
        let earlier = data.get(..(fitting - 1) * self.length);
        match later.is_some() && later == earlier {
            true => fitting as u32,
            false => 1,
        }
    }
}

fn stage_of(head: &ResponseHead<'_>) -> Stage {
    match head.body_length {
        ResponseBodyLength::None => Stage::Known(0),
        ResponseBodyLength::Known(length) => Stage::Known(length),
        ResponseBodyLength::Chunked => Stage::Chunked(BodyDecoder::new(BodyLength::Chunked)),
        ResponseBodyLength::UntilClose => Stage::UntilClose,
    }
}
