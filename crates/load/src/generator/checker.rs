//! From received bytes to verdicts: status, framing, length and content of every answer, without I/O.
//!
//! Answers of one run are mostly the same bytes. What equals the last answer found right needs no parsing, because the same bytes have
//! the same meaning; and where a whole answer repeats, one memory comparison judges all repetitions at once. What differs in any byte
//! (a new Date, once per second) is parsed, and known from then on. What is right is the business of [`kind`].

mod answer;
mod kind;

use std::sync::Arc;

use wire::{
    BodyDecoder, BodyLength, HeadLimits, ResponseBodyLength, ResponseHead, ResponseProgress,
    parse_response,
};

use super::error::ErrorClass;
pub(super) use answer::Answer;
use answer::Stage;
pub(super) use kind::Kind;

/// A known answer longer than this is recognised by its head alone, where its content does not matter.
const REPETITION_BYTES_MAX: usize = 4096;
/// No longer answer is kept to compare others with.
const KNOWN_BYTES_MAX: usize = 256 * 1024;

/// Judges answers; one for all connections of a thread.
pub(super) struct Checker {
    kinds: Arc<[Kind]>,
    limits: HeadLimits,
    /// For each kind the last answer that was right and left its connection open.
    known: Vec<Known>,
}

#[derive(Default)]
struct Known {
    /// All of it, or its head if nothing else matters.
    bytes: Vec<u8>,
    /// The length of all of it; 0: none is known.
    length: usize,
    facts: Facts,
}

/// What is told of a whole answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Facts {
    pub(super) status: u16,
    pub(super) head_bytes: u64,
    pub(super) content_bytes: u64,
}

/// What the next received bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// So many bytes of an answer that is not whole; what is left is an incomplete head.
    Part(usize),
    /// Whole answers.
    Answers(Verdict),
    /// Not HTTP.
    Malformed,
}

/// Whole answers, all alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Verdict {
    pub(super) consumed: usize,
    pub(super) count: u32,
    /// What is wrong with each of them.
    pub(super) error: Option<ErrorClass>,
    /// The connection ends behind the last.
    pub(super) closes: bool,
    /// Of each of them.
    pub(super) facts: Facts,
}

impl Checker {
    pub(super) fn new(kinds: Arc<[Kind]>) -> Checker {
        let known = kinds.iter().map(|_| Known::default()).collect();
        Checker {
            kinds,
            limits: HeadLimits::default(),
            known,
        }
    }

    /// Judges what `data`, which continues `answer`, begins with: part of an answer to a request of this kind, a whole one, or up to
    /// `wanted` ones that are the same.
    ///
    /// Cost: no allocation but when a new answer is remembered; of a repeated answer, one comparison.
    #[inline]
    pub(super) fn next(
        &mut self,
        answer: &mut Answer,
        kind: usize,
        data: &[u8],
        wanted: u32,
    ) -> Step {
        if answer.is_at_begin()
            && let Some(known) = self.known.get(kind)
        {
            let count = known.repetitions(data, wanted);
            if count > 0 {
                return Step::Answers(Verdict {
                    consumed: count as usize * known.length,
                    count,
                    error: None,
                    closes: false,
                    facts: known.facts,
                });
            }
        }
        self.read(answer, kind, data).unwrap_or(Step::Malformed)
    }

    /// Judges the answer that the end of the connection completed.
    pub(super) fn end(&mut self, answer: &mut Answer, kind: usize) -> Option<Verdict> {
        let kind = self.kinds.get(kind)?;
        Some(answer.judge(kind, 0))
    }

    /// Reads up to one answer. `None`: this is not HTTP.
    fn read(&mut self, answer: &mut Answer, kind: usize, data: &[u8]) -> Option<Step> {
        let is_begin = answer.is_at_begin();
        let mut consumed = 0;
        while answer.is_in_head() {
            let rest = data.get(consumed..).unwrap_or_default();
            match self.read_head(answer, kind, rest)? {
                0 => return Some(Step::Part(consumed)),
                used => consumed += used,
            }
        }
        let rules = self.kinds.get(kind)?;
        let rest = data.get(consumed..).unwrap_or_default();
        let (used, is_whole) = answer.read_content(rules, rest)?;
        consumed += used;
        if !is_whole {
            return Some(Step::Part(consumed));
        }
        let is_known_length = answer.is_known_length();
        let verdict = answer.judge(rules, consumed);
        if is_begin && verdict.error.is_none() && !verdict.closes {
            let whole = data.get(..consumed).unwrap_or_default();
            self.remember(kind, whole, verdict.facts, is_known_length);
        }
        Some(Step::Answers(verdict))
    }

    /// Reads a head, interim or final. Gives the bytes used; 0: it is incomplete.
    fn read_head(&mut self, answer: &mut Answer, kind: usize, data: &[u8]) -> Option<usize> {
        let rules = self.kinds.get(kind)?;
        let head = match parse_response(data, &self.limits, rules.is_head()).ok()? {
            ResponseProgress::Complete(head) => head,
            ResponseProgress::Incomplete => return Some(0),
        };
        if head.status == 101 {
            return None;
        }
        if head.status < 200 {
            answer.skip_interim(head.consumed);
            return Some(head.consumed);
        }
        rules.note_first(&head);
        answer.begin(rules, &head, stage_of(&head));
        Some(head.consumed)
    }

    /// Keeps an answer that is right, so that its repetition needs no parsing.
    fn remember(&mut self, kind: usize, whole: &[u8], facts: Facts, is_known_length: bool) {
        let (Some(rules), Some(known)) = (self.kinds.get(kind), self.known.get_mut(kind)) else {
            return;
        };
        let head_len = facts.head_bytes as usize;
        // Of a known length only the head matters; nothing tells where other contents end but their bytes.
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

impl Known {
    /// How many times `data` starts with the known answer, by two comparisons: none, one, or all that fit.
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
