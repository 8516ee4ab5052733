//! The application of the tests: the target says what it does.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use server::{
    Abort, App, Appetite, Closed, Command, Content, ExchangeId, Fields, FilePart, Head, Mailbox,
    MessageContent, MessageKind, Offer, Opening, Outcome, Pulled, Request, Responder, Response,
    Shortage,
};

/// A call, as the application saw it.
pub(crate) struct Called {
    pub(crate) id: ExchangeId,
    pub(crate) target: String,
    pub(crate) content: Option<String>,
}

/// The first segment of the path says what it does. `later` and `push` respond through the mailbox when the test does so. `parts` requests
/// content at once and again with each part, `whole` all of it as one part. `read` needs the whole content. `big/N` responds with N bytes, `pull/N` streams N parts.
/// `ahead` responds and has more work to do after that. `begun/N` sends N parts during the call and continues through the mailbox. `open`
/// does not end its content, `stream/N` ends N bytes of it during the call. `slow` takes so long that another thread sends meanwhile. `file` posts the next of `files` during the call.
/// A WebSocket below `ws/` is accepted at once, and `ws/echo` sends back what arrives during the call, `ws/post` through the mailbox,
/// `ws/slow` wants each message separately, `ws/sub/TOPIC` subscribes, `ws/panic` panics; `ws/later` is left to the test. More segments
/// distinguish several of them.
/// `early` responds in any case. `panic*` panics. Everything else gets its target.
pub(crate) struct TestApp {
    mailbox: Arc<Mailbox>,
    pub(crate) called: Vec<Called>,
    pub(crate) aborted: Vec<(ExchangeId, Abort)>,
    pub(crate) half_closed: Vec<ExchangeId>,
    /// Exchanges whose handlers report that they have started.
    pub(crate) begun: Vec<ExchangeId>,
    /// Calls to `later` that the test has not ended, and that were not aborted.
    pub(crate) running: Vec<ExchangeId>,
    /// Handlers go on after they are aborted.
    pub(crate) outlives_streams: bool,
    /// It panics in the next call for this exchange.
    pub(crate) panics_for: Option<ExchangeId>,
    pub(crate) contents: Vec<(ExchangeId, String, bool)>,
    pub(crate) writables: Vec<ExchangeId>,
    pub(crate) files: Vec<FilePart>,
    /// Files that were shorter than announced, and the number of missing bytes.
    pub(crate) short_files: Vec<(ExchangeId, u64)>,
    /// Parts still to be pulled, and the bytes of each.
    pulls: Vec<(ExchangeId, usize)>,
    pub(crate) pull_bytes: usize,
    pub(crate) forgotten_bytes: usize,
    /// Requests the next part after each.
    pub(crate) reads_on: bool,
    /// There is no memory for content.
    pub(crate) has_no_memory: bool,
    pub(crate) shortages: Vec<String>,
    pub(crate) refusals: Vec<String>,
    /// The client's side of a connection, and what had arrived there whenever a response had been sent.
    pub(crate) witness: Option<UnixStream>,
    pub(crate) witnessed: Vec<String>,
    /// Messages that arrived, and how WebSockets ended.
    pub(crate) messages: Vec<(ExchangeId, MessageKind, Vec<u8>)>,
    messages_seen: usize,
    pub(crate) closed: Vec<(ExchangeId, Closed)>,
    /// What else happens during each call.
    pub(crate) on_call: Option<Box<dyn FnMut()>>,
    /// What else happens whenever it is notified that an exchange has ended.
    pub(crate) on_abort: Option<Box<dyn FnMut()>>,
}

fn no_fields() -> Fields<'static> {
    Fields::of_application(b"")
}

/// Responds with a stream that ends during the call.
fn stream(bytes: usize, responder: &mut Responder) -> Outcome {
    responder.begin(200, no_fields(), None);
    responder.push_part(&vec![b'x'; bytes]);
    responder.finish();
    Outcome::Responded
}

impl TestApp {
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> TestApp {
        TestApp {
            mailbox,
            called: Vec::new(),
            aborted: Vec::new(),
            half_closed: Vec::new(),
            begun: Vec::new(),
            running: Vec::new(),
            outlives_streams: false,
            panics_for: None,
            contents: Vec::new(),
            writables: Vec::new(),
            files: Vec::new(),
            short_files: Vec::new(),
            pulls: Vec::new(),
            pull_bytes: 5,
            forgotten_bytes: 0,
            reads_on: true,
            has_no_memory: false,
            shortages: Vec::new(),
            refusals: Vec::new(),
            witness: None,
            witnessed: Vec::new(),
            messages: Vec::new(),
            messages_seen: 0,
            closed: Vec::new(),
            on_call: None,
            on_abort: None,
        }
    }

    /// What a WebSocket does: the segment of its target after `/ws/`.
    fn manner_of(&self, id: ExchangeId) -> &str {
        let call = self.called.iter().find(|each| each.id == id);
        let target = &call.expect("it was called").target;
        target.split('/').nth(2).expect("it is below /ws/")
    }

    fn may_panic(&mut self, id: ExchangeId) {
        if self.panics_for == Some(id) {
            self.panics_for = None;
            panic!("as the test wants it");
        }
    }

    fn post_file(&mut self, id: ExchangeId) {
        let part = self.files.remove(0);
        let head = Response {
            status: 200,
            length: Some(part.length),
            ..Response::default()
        };
        for command in [
            Command::Begin(head),
            Command::WriteFile(part),
            Command::Finish,
        ] {
            self.mailbox.post(id, command);
        }
    }

    /// Keeps only the length of the content so far.
    pub(crate) fn forget_contents(&mut self) {
        for (_, content, is_last) in &mut self.contents {
            if !*is_last {
                self.forgotten_bytes += std::mem::take(content).len();
            }
        }
        self.contents.retain(|(.., is_last)| *is_last);
    }

    /// All content of an exchange so far, and whether it is complete.
    pub(crate) fn content_of(&self, id: ExchangeId) -> (String, bool) {
        let parts = || self.contents.iter().filter(|(reader, ..)| *reader == id);
        (
            parts().map(|(_, part, _)| part.as_str()).collect(),
            parts().any(|(.., is_last)| *is_last),
        )
    }
}

impl TestApp {
    /// Sends parts during the call, and looks at the client's side if it is known.
    fn begin(&mut self, parts: usize, responder: &mut Responder) -> Outcome {
        responder.begin(200, no_fields(), None);
        for _ in 0..parts.max(1) {
            responder.push_part(b"part");
            responder.send_now();
            if self.witness.is_some() {
                self.witness();
            }
        }
        Outcome::Begun
    }

    fn ask(&mut self, id: ExchangeId, command: Command) -> Outcome {
        self.mailbox.post(id, command);
        Outcome::Pending
    }

    /// Responds when another thread has sent what waits for the end of the call.
    fn respond_slowly(&mut self, target: &str, responder: &mut Responder) -> Outcome {
        std::thread::scope(|scope| {
            scope.spawn(|| responder.send_all_now());
        });
        if self.witness.is_some() {
            self.witness();
        }
        responder.respond(200, no_fields(), target.as_bytes());
        Outcome::Responded
    }

    /// Reads what has arrived at the client, if anything has.
    fn witness(&mut self) {
        let mut buffer = [0; 4096];
        let witness = self.witness.as_mut().expect("a client's side");
        let count = match witness.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            read => read.expect("a client"),
        };
        let arrived = String::from_utf8_lossy(&buffer[..count]).into_owned();
        self.witnessed.push(arrived);
    }
}

impl App for TestApp {
    fn call(&mut self, request: &Request<'_>, responder: &mut Responder) -> Outcome {
        if let Some(on_call) = &mut self.on_call {
            on_call();
        }
        let target = String::from_utf8_lossy(request.head.target()).into_owned();
        let content = match request.content {
            Content::Whole(content) => Some(String::from_utf8_lossy(content).into_owned()),
            Content::Later => None,
        };
        let mut segments = target.trim_start_matches('/').split('/');
        let (first, second) = (segments.next().unwrap_or(""), segments.next().unwrap_or(""));
        let number: usize = second.parse().unwrap_or(0);
        let outcome = match (first, &content) {
            ("later" | "push", _) => {
                self.running.push(request.id);
                Outcome::Pending
            }
            ("parts", _) => self.ask(request.id, Command::Read),
            ("whole", _) => self.ask(request.id, Command::ReadWhole),
            ("file", _) => {
                self.post_file(request.id);
                Outcome::Pending
            }
            ("read", None) => Outcome::ReadContent,
            ("read", Some(content)) => {
                responder.respond(200, no_fields(), content.as_bytes());
                Outcome::Responded
            }
            ("big", _) => {
                responder.respond(200, no_fields(), &vec![b'x'; number]);
                Outcome::Responded
            }
            ("pull", _) => match responder.begin(200, no_fields(), None) {
                true => {
                    self.pulls.push((request.id, number));
                    Outcome::Streaming
                }
                false => Outcome::Responded,
            },
            ("panic", _) => {
                responder.respond(200, no_fields(), b"half of a response");
                panic!("as the test wants it")
            }
            ("ahead", _) => {
                responder.respond(200, no_fields(), target.as_bytes());
                match responder.can_send_now() {
                    true => Outcome::RespondedEarly,
                    false => Outcome::Responded,
                }
            }
            ("begun", _) => self.begin(number, responder),
            ("slow", _) => self.respond_slowly(&target, responder),
            ("open", _) => {
                self.begin(0, responder);
                Outcome::Responded
            }
            ("stream", _) => stream(number, responder),
            ("silent", _) => Outcome::Responded,
            ("forgetful", _) => Outcome::ReadContent,
            _ => {
                responder.respond(200, no_fields(), target.as_bytes());
                Outcome::Responded
            }
        };
        self.called.push(Called {
            id: request.id,
            target,
            content,
        });
        outcome
    }

    fn running(&self) -> usize {
        self.running.len()
    }

    fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        self.may_panic(id);
        if self.witness.is_some() && self.witnessed.is_empty() {
            self.witness();
        }
        let left = self
            .pulls
            .iter_mut()
            .find(|(pulled, _)| *pulled == id)
            .expect("it streams");
        let is_cut = self
            .called
            .iter()
            .any(|each| each.id == id && each.target.ends_with("/cut"));
        match left.1 {
            0 if is_cut => Pulled::Failed,
            0 => Pulled::End,
            _ => {
                left.1 -= 1;
                out.resize(out.len() + self.pull_bytes, b'p');
                Pulled::More
            }
        }
    }

    fn response_written(&mut self, _: &mut Responder) {
        self.witness();
    }

    fn content(&mut self, id: ExchangeId, content: &[u8], is_last: bool) -> bool {
        if self.has_no_memory {
            return false;
        }
        self.contents
            .push((id, String::from_utf8_lossy(content).into_owned(), is_last));
        assert!(!content.starts_with(b"panic"), "as the test wants it");
        if self.reads_on && !is_last {
            self.mailbox.post(id, Command::Read);
        }
        true
    }

    fn warn(&mut self, line: &str) {
        self.refusals.push(line.to_owned());
    }

    fn lacked_memory(&mut self, shortage: &Shortage) {
        self.shortages.push(shortage.to_string());
    }

    fn writable(&mut self, id: ExchangeId) {
        self.may_panic(id);
        self.writables.push(id);
    }

    fn has_begun(&mut self, id: ExchangeId) -> bool {
        self.may_panic(id);
        self.begun.contains(&id)
    }

    fn peer_ended(&mut self, id: ExchangeId) {
        self.half_closed.push(id);
    }

    fn file_was_short(&mut self, id: ExchangeId, part: &FilePart) {
        self.short_files.push((id, part.length));
    }

    fn abort(&mut self, id: ExchangeId, why: Abort) {
        if !self.outlives_streams {
            self.running.retain(|running| *running != id);
        }
        self.aborted.push((id, why));
        if let Some(on_abort) = &mut self.on_abort {
            on_abort();
        }
        self.may_panic(id);
    }

    fn takes_websocket(&mut self, head: &Head<'_>) -> bool {
        head.target().starts_with(b"/ws/")
    }

    fn websocket(&mut self, request: &Request<'_>, offer: &Offer<'_>, _: &mut Responder) {
        let target = String::from_utf8_lossy(request.head.target()).into_owned();
        if !target.starts_with("/ws/later") {
            let opening = Opening {
                subprotocol: offer.subprotocols().next().map(<[u8]>::to_vec),
                fields: b"X-Field: 1\r\n".to_vec(),
            };
            self.mailbox.post(request.id, Command::Open(opening));
        }
        if target.starts_with("/ws/sub/") {
            let topic = target.split('/').nth(3).unwrap_or("").into();
            self.mailbox.post(request.id, Command::Subscribe(topic));
        }
        self.called.push(Called {
            id: request.id,
            target,
            content: None,
        });
    }

    fn message(
        &mut self,
        id: ExchangeId,
        kind: MessageKind,
        content: MessageContent<'_>,
    ) -> Appetite {
        self.messages.push((id, kind, content.to_vec()));
        match self.manner_of(id) {
            "slow" => Appetite::Enough,
            "full" => Appetite::NoMemory,
            "panic" => panic!("as the test wants it"),
            _ => Appetite::More,
        }
    }

    fn messages_end(&mut self, id: ExchangeId, responder: &mut Responder) {
        let manner = self.manner_of(id).to_owned();
        let new = self.messages.iter().skip(self.messages_seen);
        for (_, kind, content) in new.filter(|(to, ..)| *to == id) {
            match manner.as_str() {
                "echo" => responder.send_message(*kind, content).expect("memory"),
                "post" => {
                    let command = Command::Message(*kind, content.clone());
                    self.mailbox.post(id, command);
                }
                _ => {}
            }
        }
        self.messages_seen = self.messages.len();
    }

    fn websocket_closed(&mut self, id: ExchangeId, closed: &Closed) {
        self.closed.push((id, closed.clone()));
    }

    fn is_running(&mut self, _: ExchangeId) -> bool {
        self.outlives_streams
    }
}
