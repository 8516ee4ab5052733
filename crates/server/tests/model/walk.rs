//! Goes through what a client received, response by response, and compares each with what the application did.

use crate::app::ModelApp;
use crate::bounds::HEADER_TIMEOUT_MS;
use crate::exchange::{Closes, Exchange, Form, Head, State};
use crate::facts::Facts;
use crate::judgement::{content_refusals, head_refusals};
use crate::moves::TRAILER;
use crate::render::{self, Mark};
use crate::schedule::{Method, Request};

/// The wall clock's start: 1994-11-06 08:49:37.
pub(crate) const START_S: u64 = 784_111_777;
const START_OF_DAY_S: u64 = 784_080_000;

/// How much of a client's responses has been received.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Walk {
    /// Requests whose responses are complete.
    pub(crate) served: usize,
    /// The last of them ends the connection.
    pub(crate) closes: bool,
    /// Content of the next one, which is not complete.
    pub(crate) content_bytes: usize,
}

/// The result for one response.
enum Taken<'b> {
    /// It is complete: the rest, and whether it closes.
    Complete(&'b [u8], bool),
    /// It is incomplete: bytes of content so far.
    Partial(usize),
}

type Taking<'b> = Result<Taken<'b>, String>;

/// Walks through everything received on a connection.
pub(crate) fn walk(
    app: &ModelApp<'_>,
    conversation: usize,
    received: &[u8],
) -> Result<Walk, String> {
    let mut walk = Walk::default();
    let mut rest = received;
    let count = app.streams[conversation].marks.len();
    while !rest.is_empty() {
        let number = walk.served;
        if walk.closes || number == count {
            return Err(format!(
                "/{conversation}: bytes after the last response ({number}): {}",
                shown(rest)
            ));
        }
        let place = Place {
            app,
            conversation,
            number,
        };
        let taken = place.take(rest);
        match taken.map_err(|text| format!("/{conversation}/{number}: {text}"))? {
            Taken::Complete(following, closes) => {
                rest = following;
                walk.served += 1;
                walk.closes = closes;
            }
            Taken::Partial(content_bytes) => {
                walk.content_bytes = content_bytes;
                return Ok(walk);
            }
        }
    }
    Ok(walk)
}

/// The first bytes as text.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..200).unwrap_or(bytes));
    format!("{text:?}")
}

/// One request of one conversation.
struct Place<'a, 'b> {
    app: &'b ModelApp<'a>,
    conversation: usize,
    number: usize,
}

impl<'a> Place<'a, '_> {
    fn request(&self) -> &'a Request {
        self.app.plan(self.conversation, self.number)
    }

    fn mark(&self) -> &'a Mark {
        &self.app.streams[self.conversation].marks[self.number]
    }

    fn facts(&self) -> &Facts {
        &self.app.facts[self.conversation]
    }

    fn take<'b>(&self, received: &'b [u8]) -> Taking<'b> {
        let Some(exchange) = self.app.exchange(self.conversation, self.number) else {
            let now_ms = self.app.now_ms;
            let statuses = head_refusals(self.request(), self.mark(), self.facts(), now_ms);
            return self.refusal(received, &statuses);
        };
        let mut rest = received;
        for interim in &exchange.interim {
            if let Some(following) = rest.strip_prefix(interim.bytes.as_slice()) {
                rest = following;
            } else if interim.bytes.starts_with(rest) {
                return Ok(Taken::Partial(0));
            } else if interim.must_arrive && exchange.sent_head().is_some() {
                return Err(format!("an interim response is missing: {}", shown(rest)));
            }
        }
        if rest.is_empty() {
            return Ok(Taken::Partial(0));
        }
        if let Some(head) = exchange.sent_head() {
            return self.response(exchange, head, rest);
        }
        if let Some(head) = exchange.doubtful_head()
            && let Ok(taken) = self.response(exchange, head, rest)
        {
            return Ok(taken);
        }
        self.refusal(rest, &self.refusals_of(exchange))
    }

    /// The statuses that may replace the application's response.
    fn refusals_of(&self, exchange: &Exchange) -> Vec<u16> {
        let now_ms = self.app.now_ms;
        let of_content = |is_wanted| {
            content_refusals(self.request(), self.mark(), self.facts(), now_ms, is_wanted)
        };
        match (exchange.aborted, exchange.state) {
            (Some(server::Abort::HandlerTimeout { .. }), _) => vec![503],
            (Some(server::Abort::Refused), _) => of_content(exchange.asks),
            (None, State::WantsContent) => of_content(true),
            _ => Vec::new(),
        }
    }

    /// A response of the server that ends the connection.
    fn refusal<'b>(&self, rest: &'b [u8], statuses: &[u16]) -> Taking<'b> {
        let Some((head, following)) = split_head(rest) else {
            return Ok(Taken::Partial(0));
        };
        let text = String::from_utf8_lossy(head);
        let status = text.strip_prefix("HTTP/1.1 ").and_then(|it| it.get(..3));
        let status = status.and_then(|it| it.parse::<u16>().ok()).unwrap_or(0);
        if !statuses.contains(&status) {
            return Err(format!("no one sent this response: {}", shown(rest)));
        }
        let field = |name: &str| {
            let mut lines = text.split("\r\n");
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        let length = field("Content-Length").and_then(|it| it.parse::<usize>().ok());
        let is_plain = field("Content-Type").is_some_and(|it| it.starts_with("text/plain"));
        let has_others = field("Transfer-Encoding").is_some() || field("Date").is_none();
        let (Some(length), Some("close"), true, false) =
            (length, field("Connection"), is_plain, has_others)
        else {
            return Err(format!("a refusal is framed wrongly: {}", shown(rest)));
        };
        if (status == 503) != field("Retry-After").is_some() {
            return Err("Retry-After belongs to 503".into());
        }
        self.refusal_content(following, length)
    }

    fn refusal_content<'b>(&self, following: &'b [u8], length: usize) -> Taking<'b> {
        let start = self.mark().start;
        // A connection over the limit is refused whatever it requests.
        let is_head = self.request().method == Method::Head && !self.facts().is_surplus;
        let named_ms = self
            .facts()
            .took_ms(start + 1, start + "HEAD ".len(), u64::MAX);
        if is_head && named_ms < HEADER_TIMEOUT_MS {
            return match following.is_empty() {
                true => Ok(Taken::Complete(following, true)),
                false => Err("a refusal of HEAD has content".into()),
            };
        }
        match following.get(..length) {
            Some(content) if content.ends_with(b"\n") => {
                Ok(Taken::Complete(&following[length..], true))
            }
            Some(_) => Err("a refusal has strange content".into()),
            None if is_head && following.is_empty() => Ok(Taken::Complete(following, true)),
            None => Ok(Taken::Partial(following.len())),
        }
    }

    /// The application's response.
    fn response<'b>(&self, exchange: &Exchange, head: &Head, rest: &'b [u8]) -> Taking<'b> {
        let Some((text, following)) = split_head(rest) else {
            return Ok(Taken::Partial(0));
        };
        let closes = self.check_head(head, text)?;
        let request = self.request();
        if head.form == Form::Failure {
            return failure_content(request, following, text, closes);
        }
        if head.has_no_content(request) {
            return Ok(Taken::Complete(following, closes));
        }
        let written = exchange.written;
        let content = render::response_content(self.conversation, self.number, written);
        let is_complete = exchange.is_complete();
        let taken = match head.form {
            Form::Whole(length) | Form::Stream(Some(length)) => known(content, length, following)?,
            Form::Stream(None) if request.persistence.is_old() => {
                until_end(content, following, is_complete, self.facts())?
            }
            _ => chunked(content, following, exchange)?,
        };
        Ok(match taken {
            Taken::Complete(rest, _) => Taken::Complete(rest, closes),
            partial => partial,
        })
    }

    /// Whether the head is the one that the application sent, and whether it closes.
    fn check_head(&self, head: &Head, text: &[u8]) -> Result<bool, String> {
        let received = String::from_utf8_lossy(text);
        let date = received
            .split("\r\n")
            .find_map(|line| line.strip_prefix("Date: "));
        let date = date.unwrap_or_default();
        self.check_date(head, date)?;
        let (request, reply) = (self.request(), self.request().handler.reply);
        let closes = head.closes(request, self.mark());
        for says_close in [false, true] {
            let is_allowed = match closes {
                Closes::Yes => says_close,
                Closes::No => !says_close,
                Closes::Either => true,
            };
            let connection = match (says_close, request.persistence.is_old()) {
                (true, _) => "Connection: close\r\n",
                (false, true) => "Connection: keep-alive\r\n",
                (false, false) => "",
            };
            let lines = match head.form {
                Form::Failure => "Content-Type: text/plain; charset=utf-8\r\n",
                _ => std::str::from_utf8(reply.lines()).unwrap_or_default(),
            };
            let framing = framing(head, request);
            let status = status_line(head.status);
            let start = format!(
                "HTTP/1.1 {status}\r\nServer: bolide\r\nDate: {date}\r\n{lines}{connection}"
            );
            let is_equal = match head.form {
                Form::Failure => received.starts_with(&format!("{start}Content-Length: ")),
                _ => received == format!("{start}{framing}\r\n"),
            };
            if is_equal && is_allowed {
                return Ok(says_close);
            }
        }
        Err(format!(
            "the head is not as expected ({closes:?}, {head:?}): {received:?}"
        ))
    }

    fn check_date(&self, head: &Head, date: &str) -> Result<(), String> {
        let time = date
            .strip_prefix("Sun, 06 Nov 1994 ")
            .and_then(|it| it.strip_suffix(" GMT"));
        let parts = time.map(|it| it.split(':').map(|part| part.parse::<u64>().ok()));
        let seconds =
            parts.and_then(|mut parts| parts.try_fold(0, |sum, part| Some(sum * 60 + part?)));
        // The clock is not read between the passes, so the date may be that of the pass before.
        let second = |at_ms: u64| at_ms / 1000 - START_OF_DAY_S;
        let last_ms = head.taken.map_or(self.app.now_ms, |taken| taken.at_ms);
        let is_right = seconds
            .is_some_and(|it| (second(head.posted.stamp_ms)..=second(last_ms)).contains(&it));
        match is_right {
            true => Ok(()),
            false => Err(format!("the date is not that of the response: {date:?}")),
        }
    }
}

/// The server's own content for a handler that failed.
fn failure_content<'b>(
    request: &Request,
    following: &'b [u8],
    text: &[u8],
    closes: bool,
) -> Taking<'b> {
    let text = String::from_utf8_lossy(text);
    let length = text
        .split("\r\n")
        .find_map(|line| line.strip_prefix("Content-Length: ")?.parse::<usize>().ok());
    let Some(length) = length else {
        return Err("a failure has no length".into());
    };
    if request.method == Method::Head {
        return Ok(Taken::Complete(following, closes));
    }
    Ok(match following.get(length..) {
        Some(rest) => Taken::Complete(rest, closes),
        None => Taken::Partial(following.len()),
    })
}

fn split_head(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n")? + 4;
    Some(bytes.split_at(end))
}

fn status_line(status: u16) -> &'static str {
    match status {
        200 => "200 OK",
        204 => "204 No Content",
        304 => "304 Not Modified",
        404 => "404 Not Found",
        500 => "500 Internal Server Error",
        _ => "",
    }
}

fn framing(head: &Head, request: &Request) -> String {
    match (head.form, head.status) {
        (_, 204) | (Form::Whole(_) | Form::Stream(None), 304) => String::new(),
        (Form::Whole(length) | Form::Stream(Some(length)), _) => {
            format!("Content-Length: {length}\r\n")
        }
        (Form::Stream(None), _) if request.persistence.is_old() => String::new(),
        (Form::Stream(None), _) => "Transfer-Encoding: chunked\r\n".into(),
        (Form::Failure, _) => String::new(),
    }
}

/// Content of known length.
fn known<'b>(content: &[u8], length: usize, rest: &'b [u8]) -> Taking<'b> {
    let taken = length.min(rest.len());
    if content.get(..taken) != rest.get(..taken) {
        return Err(format!(
            "other content than was written, within {taken} bytes"
        ));
    }
    Ok(match rest.get(length..) {
        Some(following) => Taken::Complete(following, false),
        None => Taken::Partial(taken),
    })
}

/// Content delimited by the end of the connection.
fn until_end<'b>(content: &[u8], rest: &'b [u8], is_complete: bool, facts: &Facts) -> Taking<'b> {
    if !content.starts_with(rest) {
        return Err(format!(
            "other content than was written, within {} bytes",
            rest.len()
        ));
    }
    if facts.ended_ms.is_none() || facts.was_reset {
        return Ok(Taken::Partial(rest.len()));
    }
    if is_complete && rest.len() == content.len() {
        return Ok(Taken::Complete(&[], true));
    }
    match facts.is_tcp {
        true => Err("a truncated response looks complete".into()),
        false => Ok(Taken::Partial(rest.len())),
    }
}

fn chunked<'b>(content: &[u8], received: &'b [u8], exchange: &Exchange) -> Taking<'b> {
    let (mut rest, mut bytes) = (received, 0);
    loop {
        let Some(line_end) = rest.windows(2).take(20).position(|it| it == b"\r\n") else {
            return Ok(Taken::Partial(bytes));
        };
        let line = String::from_utf8_lossy(&rest[..line_end]);
        let Ok(size) = usize::from_str_radix(&line, 16) else {
            return Err(format!("{line:?} is not a chunk size"));
        };
        rest = &rest[line_end + 2..];
        let taken = size.min(rest.len());
        if content.get(bytes..bytes + taken) != Some(&rest[..taken]) {
            return Err(format!(
                "other content than was written, after {bytes} bytes"
            ));
        }
        bytes += taken;
        rest = &rest[taken..];
        if size == 0 && exchange.has_trailer {
            if TRAILER.starts_with(rest) {
                return Ok(Taken::Partial(bytes));
            }
            rest = rest.strip_prefix(TRAILER).unwrap_or_default();
        }
        if rest.len() < 2 {
            return Ok(Taken::Partial(bytes));
        }
        let Some(following) = rest.strip_prefix(b"\r\n") else {
            return Err("CRLF is missing after a chunk".into());
        };
        rest = following;
        if size == 0 {
            return match exchange.is_complete() && bytes == content.len() {
                true => Ok(Taken::Complete(rest, false)),
                false => Err("a response that is not complete has a last chunk".into()),
            };
        }
    }
}

impl Exchange {
    /// Bytes of content that the client must have received of what was written.
    pub(crate) fn due_bytes(&self, request: &Request) -> usize {
        let Some(head) = self.head.filter(|head| !head.has_no_content(request)) else {
            return 0;
        };
        match head.form {
            Form::Stream(Some(length)) => self.written.min(length),
            _ => self.written,
        }
    }
}
