//! The application: the target of a request says what it does. Checks that the server tells it of each end once.

use std::sync::Arc;

use server::{
    Abort, App, Command, Content, ExchangeId, Fields, Mailbox, Outcome, Pulled, Request, Responder,
    Response,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It owes the response.
    Waiting,
    /// It writes parts.
    Pushed,
    /// So many parts are still to be pulled.
    Pulled(u32),
    /// The server calls again with the content.
    WantsContent,
    /// It has done its part.
    Done,
    /// The server has taken the exchange away.
    Aborted,
}

pub struct Exchange {
    pub id: ExchangeId,
    pub progress: Progress,
    has_all: bool,
}

pub struct FuzzApp {
    pub mailbox: Arc<Mailbox>,
    pub exchanges: Vec<Exchange>,
}

impl FuzzApp {
    fn index(&self, id: ExchangeId) -> usize {
        let index = self.exchanges.iter().position(|it| it.id == id);
        index.expect("the server refers to an exchange that was called")
    }

    fn post(&self, index: usize, command: Command) {
        self.mailbox.post(self.exchanges[index].id, command);
    }

    /// One of the exchanges that still have to do something by themselves.
    pub fn pick(&self, which: usize) -> Option<usize> {
        let owes = |it: &Exchange| matches!(it.progress, Progress::Waiting | Progress::Pushed);
        let open: Vec<usize> = (0..self.exchanges.len())
            .filter(|index| owes(&self.exchanges[*index]))
            .collect();
        let count = open.len().max(1);
        open.get(which % count).copied()
    }

    /// Makes a move of a handler: whichever is possible.
    pub fn make_move(&mut self, index: usize, kind: u8, bytes: usize) {
        let head = |status| Response {
            status,
            length: (kind % 3 == 0).then_some(bytes as u64),
            ..Response::default()
        };
        let (next, command) = match (self.exchanges[index].progress, kind % 8) {
            (before, 0) => (before, Command::Read),
            (before, 1) => {
                let fields = b"Link: </a>\r\n".to_vec();
                let status = 103;
                (before, Command::Inform { status, fields })
            }
            (Progress::Waiting, 2 | 3) => {
                let content = vec![b'r'; bytes];
                (
                    Progress::Done,
                    Command::Respond(Response {
                        content,
                        ..head(200)
                    }),
                )
            }
            (Progress::Waiting, 4 | 5) => (Progress::Pushed, Command::Begin(head(200))),
            (Progress::Waiting, 6) => (Progress::Pulled(2), Command::Stream(head(200))),
            (Progress::Pushed, 2..=4) => (Progress::Pushed, Command::Write(vec![b'w'; bytes])),
            (Progress::Pushed, 5) => (Progress::Done, Command::Finish),
            (Progress::Pushed, 6) => (Progress::Done, Command::FinishWith(b"T: u\r\n".to_vec())),
            _ => (Progress::Done, Command::Fail),
        };
        self.exchanges[index].progress = next;
        self.post(index, command);
    }

    /// Completes everything that it owes.
    pub fn complete(&mut self) {
        for index in 0..self.exchanges.len() {
            match self.exchanges[index].progress {
                Progress::Waiting => self.make_move(index, 2, 5),
                Progress::Pushed => self.make_move(index, 5, 0),
                _ => {}
            }
        }
    }
}

fn no_fields() -> Fields<'static> {
    Fields::of_application(b"")
}

impl App for FuzzApp {
    fn call(&mut self, request: &Request<'_>, responder: &mut Responder) -> Outcome {
        let target = String::from_utf8_lossy(request.head.target()).into_owned();
        let mut segments = target.trim_start_matches('/').split('/');
        let (kind, count) = (
            segments.next().unwrap_or(""),
            segments.next().and_then(|it| it.parse::<u32>().ok()),
        );
        let count = count.unwrap_or(0);
        let has_content = request.content != Content::Later;
        let before = self.exchanges.iter().position(|it| it.id == request.id);
        if let Some(index) = before {
            assert_eq!(self.exchanges[index].progress, Progress::WantsContent);
            assert!(has_content, "called again without content");
            self.exchanges.remove(index);
        }
        let (progress, outcome) = match kind {
            "later" => (Progress::Waiting, Outcome::Pending),
            "asks" => {
                self.mailbox.post(request.id, Command::Read);
                (Progress::Waiting, Outcome::Pending)
            }
            "read" if !has_content => (Progress::WantsContent, Outcome::ReadContent),
            "pull" => match responder.begin(200, no_fields(), None) {
                true => (Progress::Pulled(count % 64), Outcome::Streaming),
                false => (Progress::Done, Outcome::Responded),
            },
            "begun" => {
                responder.begin(200, no_fields(), None);
                responder.push_part(b"part");
                match responder.is_open() && has_content {
                    true => (Progress::Pushed, Outcome::Begun),
                    false => {
                        responder.finish();
                        (Progress::Done, Outcome::Responded)
                    }
                }
            }
            _ => {
                let content = vec![b'n'; (count % 100_000) as usize];
                responder.respond(200, no_fields(), &content);
                (Progress::Done, Outcome::Responded)
            }
        };
        self.exchanges.push(Exchange {
            id: request.id,
            progress,
            has_all: has_content,
        });
        outcome
    }

    fn pull(&mut self, id: ExchangeId, out: &mut Vec<u8>) -> Pulled {
        let index = self.index(id);
        let exchange = &mut self.exchanges[index];
        match exchange.progress {
            Progress::Pulled(0) => {
                exchange.progress = Progress::Done;
                Pulled::End
            }
            Progress::Pulled(left) => {
                exchange.progress = Progress::Pulled(left - 1);
                out.extend_from_slice(&[b'p'; 300]);
                Pulled::More
            }
            other => panic!("pull() while {other:?}"),
        }
    }

    fn content(&mut self, id: ExchangeId, _: &[u8], is_last: bool) -> bool {
        let index = self.index(id);
        let exchange = &mut self.exchanges[index];
        assert!(!exchange.has_all, "content after its end");
        assert_ne!(exchange.progress, Progress::Aborted);
        exchange.has_all = is_last;
        true
    }

    fn writable(&mut self, id: ExchangeId) {
        let index = self.index(id);
        assert_ne!(self.exchanges[index].progress, Progress::Aborted);
    }

    fn abort(&mut self, id: ExchangeId, _: Abort) {
        let index = self.index(id);
        let exchange = &mut self.exchanges[index];
        assert_ne!(exchange.progress, Progress::Aborted, "aborted twice");
        exchange.progress = Progress::Aborted;
    }
}
