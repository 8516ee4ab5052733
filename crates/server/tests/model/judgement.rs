//! What the server may do, and when: each event has a closed set of causes.

use server::Abort;

use crate::app::ModelApp;
use crate::bounds::{
    BODY_BYTES_MAX, BODY_GRACE_MS, DOUBT_MS, DRAINING_IDLE_MS, HANDLER_TIMEOUT_MS,
    HEADER_TIMEOUT_MS, KEEP_ALIVE_TIMEOUT_MS, TICK_MS, WRITE_TIMEOUT_MS,
};
use crate::exchange::{Closes, Exchange, Form, State};
use crate::facts::Facts;
use crate::render::Mark;
use crate::schedule::{Content, Fault, Method, Request};
use crate::walk::Walk;

/// What an abort means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AbortKind {
    /// The response was complete with its head.
    NoContent,
    /// The exchange ended before its time.
    Ended,
}

fn is_safe(request: &Request) -> bool {
    matches!(request.method, Method::Get | Method::Head)
}

fn has_content(request: &Request) -> bool {
    !matches!(request.content, Content::None | Content::Length(0))
}

/// Whether a request may be passed to the application now.
pub(crate) fn of_call(
    app: &ModelApp<'_>,
    conversation: usize,
    number: usize,
) -> Result<(), String> {
    let (request, facts) = (app.plan(conversation, number), &app.facts[conversation]);
    let marks = &app.streams[conversation].marks;
    let name = format!("/{conversation}/{number}");
    if request.fault.head_status().is_some() {
        return Err(format!("{name} was called though it is malformed"));
    }
    if facts.is_surplus {
        return Err(format!("{name} was called on a connection over the limit"));
    }
    if facts.offered < marks[number].head_end {
        return Err(format!("{name} was called before its head was sent"));
    }
    for (earlier, earlier_mark) in marks.iter().enumerate().take(number) {
        let before = app.exchange(conversation, earlier);
        let Some(before) = before else {
            return Err(format!(
                "{name} was called before /{conversation}/{earlier}"
            ));
        };
        let plan = app.plan(conversation, earlier);
        // What was posted is not known yet.
        let head = before.head.filter(|head| head.taken.is_some());
        let closes = head.map_or(Closes::Either, |head| head.closes(plan, earlier_mark));
        if !plan.persistence.is_kept() || closes == Closes::Yes || before.is_cut() {
            return Err(format!("{name} was called after the last request"));
        }
        let may_run_beside = is_safe(plan) && is_safe(request) && !has_content(request);
        let is_complete = before.is_over() || before.state == State::Ending;
        if !is_complete && !may_run_beside {
            return Err(format!(
                "{name} was called beside /{conversation}/{earlier}"
            ));
        }
    }
    Ok(())
}

/// Whether an exchange may be aborted for that reason now.
pub(crate) fn of_abort(app: &ModelApp<'_>, index: usize, why: Abort) -> Result<AbortKind, String> {
    let exchange = &app.exchanges[index];
    let (request, mark) = (app.plan_of(index), app.mark_of(index));
    let facts = &app.facts[exchange.conversation];
    let refusals = content_refusals(request, mark, facts, app.now_ms, exchange.asks);
    if why == Abort::Refused && exchange.is_begun_without_content(request) {
        let is_known = exchange.head.is_some_and(|head| head.taken.is_some());
        return match is_known || refusals.is_empty() {
            true => Ok(AbortKind::NoContent),
            false => Ok(AbortKind::Ended),
        };
    }
    let may = match why {
        Abort::HandlerTimeout { .. } => {
            let has_begun = exchange.head.is_some_and(|head| head.taken.is_some());
            let due_ms = exchange.progress_ms + HANDLER_TIMEOUT_MS;
            is_too_late(app, due_ms, app.now_ms)?;
            let is_due = app.now_ms >= due_ms;
            app.schedule.settings.times_handlers && !has_begun && !exchange.asks && is_due
        }
        Abort::OrphanTimeout { .. } => false,
        Abort::Refused => !refusals.is_empty(),
        Abort::Disconnected => {
            let silent_ms = app.now_ms.saturating_sub(exchange.wrote_ms);
            let is_behind_end = app.exchanges.iter().any(|it| {
                let is_before =
                    it.conversation == exchange.conversation && it.number < exchange.number;
                is_before && (it.cuts() || closes(app, it))
            });
            let has_gone = facts.half_closed_ms.is_some_and(|at_ms| {
                let is_silent = app.now_ms - at_ms >= WRITE_TIMEOUT_MS
                    && silent_ms >= WRITE_TIMEOUT_MS
                    && exchange.state != State::Waiting;
                !facts.has_offered_all(mark) || is_silent
            });
            let is_stuck = facts.stalled_ms(app.now_ms) >= WRITE_TIMEOUT_MS;
            let has_failed = exchange.was_short || facts.has_panicked;
            has_gone || is_behind_end || is_stuck || facts.has_vanished || has_failed
        }
    };
    match may {
        true => Ok(AbortKind::Ended),
        false => Err(format!(
            "/{}/{} was aborted ({why:?}) without cause",
            exchange.conversation, exchange.number
        )),
    }
}

/// A response with more bytes may fill a socket, or counts as long.
const LOOKED_UP_BYTES: usize = 4_000;

/// A timeout acts at most a tick late, as far as can be known: while time passes only as the worker waits.
fn is_too_late(app: &ModelApp<'_>, due_ms: u64, at_ms: u64) -> Result<(), String> {
    let is_exact = app
        .waits_since_ms
        .is_some_and(|since_ms| due_ms >= since_ms);
    match is_exact && at_ms > due_ms + TICK_MS {
        true => Err(format!("{} ms later than it had to be", at_ms - due_ms)),
        false => Ok(()),
    }
}

/// Whether the connection certainly ends with an exchange's response.
fn closes(app: &ModelApp<'_>, exchange: &Exchange) -> bool {
    let request = app.plan(exchange.conversation, exchange.number);
    let mark = &app.streams[exchange.conversation].marks[exchange.number];
    let head = exchange.sent_head();
    head.is_some_and(|head| head.closes(request, mark) == Closes::Yes)
}

/// The statuses that may refuse the content of a request now.
pub(crate) fn content_refusals(
    request: &Request,
    mark: &Mark,
    facts: &Facts,
    now_ms: u64,
    is_wanted: bool,
) -> Vec<u16> {
    let mut statuses = Vec::new();
    if facts.offered > mark.head_end {
        if request.fault == Fault::ChunkSize {
            statuses.push(400);
        }
        if request.content.bytes() > BODY_BYTES_MAX {
            statuses.push(413);
        }
    }
    if is_wanted && facts.took_ms(mark.head_end, mark.end, now_ms) >= BODY_GRACE_MS {
        statuses.push(408);
    }
    statuses
}

/// The statuses that may refuse a request that was not called.
pub(crate) fn head_refusals(
    request: &Request,
    mark: &Mark,
    facts: &Facts,
    now_ms: u64,
) -> Vec<u16> {
    if facts.is_surplus {
        return vec![503];
    }
    let mut statuses = Vec::new();
    if facts.offered <= mark.start {
        return statuses;
    }
    statuses.extend(request.fault.head_status());
    if let Content::Length(length) = request.content
        && length > BODY_BYTES_MAX
        && facts.offered >= mark.head_end
    {
        statuses.push(413);
    }
    if facts.took_ms(mark.start + 1, mark.head_end, now_ms) >= HEADER_TIMEOUT_MS {
        statuses.push(408);
    }
    statuses
}

/// Whether a client that does not read everything at once may have been mistaken for one that does not read: the kernel reports what it
/// took in whole buffers (UNIX), or by delayed acknowledgements (TCP).
fn is_slow(app: &ModelApp<'_>, conversation: usize, walk: &Walk, ended_ms: u64) -> bool {
    let number = walk.served;
    let last = app
        .exchange(conversation, number)
        .or_else(|| app.exchange(conversation, number.checked_sub(1)?));
    let begun_ms = last
        .and_then(|it| it.sent_head())
        .map(|head| head.posted.at_ms);
    let is_late = |begun_ms| ended_ms.saturating_sub(begun_ms) >= WRITE_TIMEOUT_MS;
    !app.facts[conversation].was_attentive && begun_ms.is_some_and(is_late)
}

/// Whether the server may have ended a connection whose client has received what `walk` has checked.
pub(crate) fn of_end(app: &ModelApp<'_>, conversation: usize, walk: &Walk) -> Result<(), String> {
    let facts = &app.facts[conversation];
    let Some(ended_ms) = facts.ended_ms.filter(|_| !facts.has_vanished) else {
        return Ok(());
    };
    let is_stuck = facts.stalled_ms(ended_ms) >= WRITE_TIMEOUT_MS
        || is_slow(app, conversation, walk, ended_ms);
    let was_cut = |it: &Exchange| {
        // A reset discards what a slow client has not read yet.
        let is_reset = facts.was_reset && facts.is_tcp && !facts.was_attentive;
        let is_here = it.conversation == conversation && (it.number <= walk.served || is_reset);
        is_here && it.cuts()
    };
    if walk.closes || facts.has_panicked || is_stuck || app.exchanges.iter().any(was_cut) {
        return Ok(());
    }
    let number = walk.served;
    let marks = &app.streams[conversation].marks;
    if let Some(exchange) = app.exchange(conversation, number) {
        let is_cut_content =
            facts.half_closed_ms.is_some() && !facts.has_offered_all(&marks[number]);
        return match exchange.state {
            State::WantsContent if is_cut_content => Ok(()),
            _ => Err(format!(
                "/{conversation}/{number} has no complete response, but the connection has ended"
            )),
        };
    }
    if facts.drained_ms.is_some() && last_response_hides_end(app, conversation, number) {
        return Err(format!(
            "/{conversation}: the last response does not say close"
        ));
    }
    let next = marks.get(number);
    let begins = next.filter(|mark| facts.offered > mark.start);
    if facts.half_closed_ms.is_some() && next.is_none_or(|mark| facts.offered < mark.head_end) {
        return Ok(());
    }
    // Late requests are not served.
    let until_ms = match begins {
        Some(mark) => facts.offered_ms(mark.start + 1).unwrap_or(ended_ms),
        None => ended_ms,
    };
    let here = |it: &&Exchange| it.conversation == conversation;
    let ends = app.exchanges.iter().filter(here).map(|it| it.ended_ms);
    let since_ms = ends.fold(facts.opened_ms, u64::max);
    if until_ms >= idle_until_ms(facts, number, since_ms) {
        return check_idle_time(app, conversation, number, since_ms);
    }
    let before = number.checked_sub(1).map(|before| marks[before]);
    let is_slow = before
        .is_some_and(|mark| facts.took_ms(mark.head_end, mark.end, until_ms) >= BODY_GRACE_MS);
    match is_slow {
        true => Ok(()),
        false => Err(format!(
            "/{conversation} was ended at request {number}, {} ms after the one before, for no reason",
            until_ms.saturating_sub(since_ms)
        )),
    }
}

/// Whether the response before `number` was sent while the worker drained. Without `close`, as the caller knows.
fn last_response_hides_end(app: &ModelApp<'_>, conversation: usize, number: usize) -> bool {
    let before = number.checked_sub(1);
    let exchange = before.and_then(|before| app.exchange(conversation, before));
    let head = exchange.and_then(Exchange::sent_head);
    let facts = &app.facts[conversation];
    head.is_some_and(|head| head.posted.is_draining) && facts.half_closed_ms.is_none()
}

/// When a connection is closed that has been idle since then.
fn idle_until_ms(facts: &Facts, number: usize, since_ms: u64) -> u64 {
    let timeout_ms = match number {
        0 => HEADER_TIMEOUT_MS,
        _ => KEEP_ALIVE_TIMEOUT_MS,
    };
    let drained = facts
        .drained_ms
        .map(|at_ms| since_ms.max(at_ms) + DRAINING_IDLE_MS);
    drained.unwrap_or(u64::MAX).min(since_ms + timeout_ms)
}

/// Whether an idle connection was closed in time, if it is known since when it was idle.
fn check_idle_time(
    app: &ModelApp<'_>,
    conversation: usize,
    number: usize,
    since_ms: u64,
) -> Result<(), String> {
    let facts = &app.facts[conversation];
    let before = number.checked_sub(1);
    // Whether a long response has arrived is checked some time after it was sent.
    let is_long = |before| app.plan(conversation, before).handler.reply.bytes > LOOKED_UP_BYTES;
    let is_plain = before.is_none_or(|before| !has_content(app.plan(conversation, before)))
        && !(0..number).any(is_long);
    let mark = app.streams[conversation].marks.get(number);
    let is_idle = mark.is_none_or(|mark| facts.offered <= mark.start);
    match facts.ended_ms {
        Some(ended_ms) if is_plain && is_idle && facts.was_attentive => {
            let due_ms = idle_until_ms(facts, number, since_ms);
            let name = format!("/{conversation}: idle after request {number}");
            is_too_late(app, due_ms, ended_ms).map_err(|text| format!("{name}, closed {text}"))
        }
        _ => Ok(()),
    }
}

/// Whether a client that sends no more must have been detected to be gone.
fn seems_gone(app: &ModelApp<'_>, conversation: usize) -> bool {
    let facts = &app.facts[conversation];
    // Over TCP the end may be after bytes that the server has no room for; and a client that reads nothing owes an acknowledgement.
    if facts.is_tcp || !facts.is_attentive {
        return false;
    }
    let moved = app.exchanges.iter().filter_map(|it| {
        let last_ms = it.progress_ms.max(it.wrote_ms).max(it.ended_ms);
        (it.conversation == conversation).then_some(last_ms)
    });
    let moved_ms = moved.max().unwrap_or_default().max(facts.caught_up_ms);
    // What was written just before a check counts for the next one.
    let doubt_ms = 2 * (DOUBT_MS + TICK_MS);
    facts
        .half_closed_ms
        .is_some_and(|at_ms| app.now_ms > at_ms.max(moved_ms) + doubt_ms)
}

/// Whether everything that takes no time has happened on a connection whose client reads everything.
pub(crate) fn of_quiet(app: &ModelApp<'_>, conversation: usize, walk: &Walk) -> Result<(), String> {
    let facts = &app.facts[conversation];
    let has_ended = facts.has_vanished || seems_gone(app, conversation);
    let is_untold =
        |it: &&Exchange| it.conversation == conversation && !it.is_over() && !it.knows_end;
    if has_ended && let Some(it) = app.exchanges.iter().find(is_untold) {
        let number = it.number;
        if it.state != State::WantsContent {
            return Err(format!(
                "/{conversation}/{number} is not notified of its client's end"
            ));
        }
    }
    if facts.ended_ms.is_some() || facts.has_vanished || !facts.is_attentive {
        return Ok(());
    }
    let number = walk.served;
    let name = format!("/{conversation}/{number}");
    let stays_open =
        |it: &Exchange| it.conversation == conversation && it.number < number && !it.is_over();
    if app.exchanges.iter().any(stays_open) {
        return Ok(());
    }
    if walk.closes {
        return Err(format!(
            "{name}: the response before it says close, and nothing is closed"
        ));
    }
    if let Some(exchange) = app.exchange(conversation, number) {
        return of_quiet_exchange(app, exchange, walk).map_err(|text| format!("{name}: {text}"));
    }
    let Some(mark) = app.streams[conversation].marks.get(number) else {
        return match facts.half_closed_ms {
            Some(_) => Err(format!("/{conversation} is open after its client's end")),
            None => Ok(()),
        };
    };
    if facts.offered >= mark.head_end {
        return Err(format!("{name} is sent and not served"));
    }
    match facts.half_closed_ms {
        Some(_) => Err(format!("/{conversation} is open after its client's end")),
        None => Ok(()),
    }
}

fn of_quiet_exchange(app: &ModelApp<'_>, exchange: &Exchange, walk: &Walk) -> Result<(), String> {
    let request = app.plan(exchange.conversation, exchange.number);
    let mark = &app.streams[exchange.conversation].marks[exchange.number];
    let facts = &app.facts[exchange.conversation];
    let has_all = facts.has_offered_all(mark);
    let has_more = match request.content {
        Content::Length(length) if !exchange.collects => {
            (facts.offered - mark.head_end).min(length) > exchange.delivered
        }
        _ => has_all && !exchange.has_all,
    };
    let is_until_end = exchange
        .sent_head()
        .is_some_and(|head| head.form == Form::Stream(None) && request.persistence.is_old());
    match exchange.state {
        // It is truncated by a reset, which waits until everything before it has arrived.
        State::Over | State::Ending if is_until_end && facts.is_tcp => Ok(()),
        State::Over | State::Ending => Err("it has ended and its response has not arrived".into()),
        State::WantsContent if has_all => {
            Err("its content has arrived, and it is not called".into())
        }
        State::Pulled => Err("it is not pulled".into()),
        _ if exchange.asks && has_more => {
            Err("content that it asked for has arrived and is not passed on".into())
        }
        State::Pushed if walk.content_bytes < exchange.due_bytes(request) => {
            Err("what it wrote has not arrived".into())
        }
        State::Pushed | State::Waiting if exchange.awaits_writable => {
            Err("what it wrote has arrived, and it is not notified that it may write again".into())
        }
        _ => Ok(()),
    }
}
