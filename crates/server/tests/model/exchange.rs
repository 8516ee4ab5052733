//! What the application has seen and done of one exchange.

use server::{Abort, ExchangeId};

use crate::facts::Facts;
use crate::render::Mark;
use crate::schedule::{Content, Method, Request};

/// Maximum unread content that the server discards to keep a connection open.
const DISCARD_BYTES_MAX: usize = 65_536;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// It was called, and wants to be called again with its content.
    WantsContent,
    /// It has not started to respond.
    Waiting,
    /// It pushes its response.
    Pushed,
    /// The server pulls its response.
    Pulled,
    /// It posted the end of its response, which the server has not taken yet.
    Ending,
    /// The server knows that it has ended, or has notified it of that.
    Over,
}

/// What a handler waits for before its next move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    Nothing,
    Part,
    Whole,
}

/// An interim response.
pub(crate) struct Interim {
    pub(crate) bytes: Vec<u8>,
    /// It must arrive if the final response arrives; otherwise it may.
    pub(crate) must_arrive: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// With this many bytes of content.
    Whole(usize),
    /// Of that length, if it is known.
    Stream(Option<usize>),
    /// The server's own, for a handler that failed.
    Failure,
}

/// Whether a response announces the end of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closes {
    Yes,
    No,
    Either,
}

/// The state when a response starts, which determines its framing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at_ms: u64,
    /// When the worker last read the clock.
    pub(crate) stamp_ms: u64,
    pub(crate) offered: usize,
    pub(crate) is_draining: bool,
}

impl Moment {
    pub(crate) fn of(facts: &Facts, at_ms: u64, stamp_ms: u64) -> Moment {
        Moment {
            at_ms,
            stamp_ms,
            offered: facts.offered,
            is_draining: facts.drained_ms.is_some(),
        }
    }
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) form: Form,
    /// Bytes of the request's content delivered by then.
    delivered: usize,
    has_all: bool,
    has_asked: bool,
    pub(crate) posted: Moment,
    /// When the server took it, if it has.
    pub(crate) taken: Option<Moment>,
}

/// How a response ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Complete,
    Failed,
}

pub(crate) struct Exchange {
    pub(crate) id: ExchangeId,
    pub(crate) conversation: usize,
    pub(crate) number: usize,
    pub(crate) state: State,
    pub(crate) next_move: usize,
    pub(crate) wait: Wait,
    /// A `Read` has not been fulfilled.
    pub(crate) asks: bool,
    pub(crate) has_asked: bool,
    /// It has asked for the rest as one part.
    pub(crate) collects: bool,
    /// It has asked for a part again while it did so, after it had asked for one: each of these may be fulfilled.
    pub(crate) surplus_asks: usize,
    /// A part was read ahead since, before the server knew.
    pub(crate) was_ahead: bool,
    /// It has a part that it did not ask for.
    pub(crate) is_ahead: bool,
    pub(crate) delivered: usize,
    /// All content was delivered, or there was none.
    pub(crate) has_all: bool,
    pub(crate) panics_in_content: bool,
    /// When its time started, or started anew with a part of the content.
    pub(crate) progress_ms: u64,
    /// When it last wrote.
    pub(crate) wrote_ms: u64,
    pub(crate) interim: Vec<Interim>,
    /// An entry of `interim` for which it is not known whether it must arrive.
    pub(crate) owes_continue: bool,
    pub(crate) head: Option<Head>,
    /// Started so that it stays open though no content may follow.
    pub(crate) keeps_open: bool,
    pub(crate) written: usize,
    pub(crate) pulled: usize,
    pub(crate) end: Option<End>,
    pub(crate) has_trailer: bool,
    /// A file was shorter than what was written from it.
    pub(crate) was_short: bool,
    /// It wrote since it was last notified that it may write again.
    pub(crate) awaits_writable: bool,
    /// It was notified that its client sends no more.
    pub(crate) knows_end: bool,
    pub(crate) ended_ms: u64,
    pub(crate) aborted: Option<Abort>,
    pub(crate) has_panicked: bool,
}

impl Exchange {
    pub(crate) fn new(id: ExchangeId, conversation: usize, number: usize, now_ms: u64) -> Exchange {
        Exchange {
            id,
            conversation,
            number,
            state: State::Waiting,
            next_move: 0,
            wait: Wait::Nothing,
            asks: false,
            has_asked: false,
            collects: false,
            surplus_asks: 0,
            was_ahead: false,
            is_ahead: false,
            delivered: 0,
            has_all: false,
            panics_in_content: false,
            progress_ms: now_ms,
            wrote_ms: now_ms,
            interim: Vec::new(),
            owes_continue: false,
            head: None,
            keeps_open: false,
            written: 0,
            pulled: 0,
            end: None,
            has_trailer: false,
            was_short: false,
            awaits_writable: false,
            knows_end: false,
            ended_ms: now_ms,
            aborted: None,
            has_panicked: false,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Whether its response is complete from the application's point of view.
    pub(crate) fn is_complete(&self) -> bool {
        self.end == Some(End::Complete) && self.aborted.is_none() && !self.was_short
    }

    /// Whether its response was truncated, so that its connection ends with it.
    pub(crate) fn cuts(&self) -> bool {
        self.aborted.is_some() || self.end == Some(End::Failed) || self.was_short
    }

    /// Whether it owes the next move, and not its client.
    pub(crate) fn owes(&self) -> bool {
        let waits_for_client = self.asks && self.head.is_none();
        let is_open = matches!(self.state, State::Waiting | State::Pushed | State::Pulled);
        is_open && !waits_for_client
    }

    pub(crate) fn begin(&mut self, status: u16, form: Form, posted: Moment) {
        self.head = Some(Head {
            status,
            form,
            delivered: self.delivered,
            has_all: self.has_all,
            has_asked: self.has_asked,
            posted,
            taken: None,
        });
        self.wrote_ms = posted.at_ms;
    }

    pub(crate) fn finish(&mut self, end: End, now_ms: u64) {
        self.end = Some(end);
        self.ended_ms = now_ms;
        self.state = State::Ending;
    }

    pub(crate) fn is_over_at(&mut self, now_ms: u64) {
        self.state = State::Over;
        self.ended_ms = now_ms;
    }

    /// The server has taken all that was posted.
    pub(crate) fn was_taken(&mut self, moment: Moment, mark: &Mark) {
        if self.aborted.is_some() {
            return;
        }
        if let Some(head) = &mut self.head
            && head.taken.is_none()
        {
            head.taken = Some(moment);
        }
        self.resolve_continue(moment, mark);
        if self.state == State::Ending {
            self.is_over_at(moment.at_ms);
        }
    }

    /// A 100 (Continue) that is not needed may be omitted.
    pub(crate) fn resolve_continue(&mut self, moment: Moment, mark: &Mark) {
        if std::mem::take(&mut self.owes_continue) && moment.offered > mark.head_end {
            let interim = self.interim.iter_mut();
            interim
                .filter(|interim| interim.bytes == wire::CONTINUE)
                .for_each(|interim| interim.must_arrive = false);
        }
    }

    /// The head, unless the exchange was aborted before the server had taken it, as far as is known.
    pub(crate) fn sent_head(&self) -> Option<&Head> {
        let head = self.head.as_ref();
        head.filter(|head| head.taken.is_some() || self.aborted.is_none())
    }

    /// The head of an exchange that was aborted in the pass that took it, or before.
    pub(crate) fn doubtful_head(&self) -> Option<&Head> {
        let head = self.head.as_ref();
        head.filter(|head| head.taken.is_none() && self.aborted.is_some())
    }

    /// Whether it was certainly aborted, and not because its head was the whole response.
    pub(crate) fn is_cut(&self) -> bool {
        self.aborted.is_some() && self.doubtful_head().is_none()
    }

    /// Whether it started a stream that has no content and so ends with its head.
    pub(crate) fn is_begun_without_content(&self, request: &Request) -> bool {
        let is_stream = |head: &Head| matches!(head.form, Form::Stream(_));
        let head = self.head.filter(is_stream);
        !self.keeps_open && head.is_some_and(|head| head.has_no_content(request))
    }
}

impl Head {
    /// Whether it has no content, whatever is written.
    pub(crate) fn has_no_content(&self, request: &Request) -> bool {
        request.method == Method::Head || matches!(self.status, 204 | 304)
    }

    /// Whether the response announces the end of the connection (docs/behaviour.md, persistence and content).
    pub(crate) fn closes(&self, request: &Request, mark: &Mark) -> Closes {
        let is_until_end = self.form == Form::Stream(None)
            && request.persistence.is_old()
            && !matches!(self.status, 204 | 304);
        // To HEAD too: its fields are those of a GET's response.
        if !request.persistence.is_kept() || is_until_end {
            return Closes::Yes;
        }
        let Some(taken) = self.taken else {
            return Closes::Either;
        };
        let by_content = self.closes_by_content(request, mark, taken.offered);
        match (by_content, taken.is_draining || self.posted.is_draining) {
            (Closes::No, true) => Closes::Either,
            (closes, _) => closes,
        }
    }

    fn closes_by_content(&self, request: &Request, mark: &Mark, offered: usize) -> Closes {
        if self.has_all {
            return Closes::No;
        }
        let offered_content = offered.saturating_sub(mark.head_end);
        if request.expects && !request.persistence.is_old() && !self.has_asked {
            return match offered_content {
                0 => Closes::Yes,
                _ => Closes::Either,
            };
        }
        match request.content {
            Content::None => Closes::No,
            Content::Length(length) if length - self.delivered <= DISCARD_BYTES_MAX => Closes::No,
            Content::Length(length) if length - offered_content.min(length) > DISCARD_BYTES_MAX => {
                Closes::Yes
            }
            Content::Chunks { .. } if offered < mark.end => Closes::Yes,
            Content::Length(_) | Content::Chunks { .. } => Closes::Either,
        }
    }
}
