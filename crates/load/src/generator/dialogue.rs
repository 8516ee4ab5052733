//! One connection of a plan without a socket, a clock or a thread: what it sends, and what it makes of any bytes.
//!
//! A run does not use it. It is how protocols are fuzzed (`fuzz/`).

use wire::websocket::Inflaters;

use super::Plan;
use super::board::Board;
use super::channel::{self, Messages};
use super::checker::{Kind, Verdict};
use super::connection::{Connection, Exchange, Stamp};
use super::error::ErrorClass;
use super::load_thread::Common;
use super::mix::Mix;
use super::session::{Event, Requests};

/// More of an incomplete head or frame is not kept.
const EARLY_BYTES_MAX: usize = 64 * 1024;

/// A connection over HTTP/2 or WebSocket.
pub struct Dialogue {
    common: Common,
    connection: Connection,
    inflaters: Inflaters,
    cursor: u32,
}

impl Dialogue {
    /// A connection that has sent nothing.
    ///
    /// # Errors
    /// If the plan contradicts itself; one line.
    pub fn new(plan: Plan) -> Result<Dialogue, String> {
        plan.check()?;
        let common = Common {
            mix: Mix::new(&plan)?,
            requests: Requests::new(&plan),
            messages: Messages::new(&plan)?,
            kinds: plan.requests.iter().map(Kind::new).collect(),
            board: Board::new(1, false),
            tls: None,
            plan,
        };
        let mut connection = Connection::new(common.job(), common.plan.protocol);
        connection.is_established = true;
        Ok(Dialogue {
            common,
            connection,
            inflaters: Inflaters::default(),
            cursor: 0,
        })
    }

    /// Adds as many requests as fit.
    pub fn ask(&mut self) {
        let job = self.common.job();
        let count = self.connection.batch_room(self.common.plan.protocol);
        if count == 0 {
            return;
        }
        let stamp = Stamp {
            position: self.cursor,
            count,
            ..Stamp::ONE
        };
        self.connection.add(stamp, job);
        self.connection.assign(job, self.cursor, count);
        self.cursor = job.mix.advanced(self.cursor, count);
    }

    /// How many requests have no response yet.
    pub fn outstanding(&self) -> u32 {
        self.connection.outstanding
    }

    /// The bytes that are to be sent.
    pub fn unsent(&self) -> &[u8] {
        self.connection.unsent(self.common.job())
    }

    /// The first `count` of them were sent.
    pub fn note_sent(&mut self, count: usize) {
        self.connection.note_sent(count, self.common.job());
    }

    /// Reads what the server has sent. Returns how many requests got a response, right or wrong.
    ///
    /// # Errors
    /// If the connection cannot be used any more.
    pub fn receive(&mut self, received: &[u8]) -> Result<u32, ErrorClass> {
        let mut data = std::mem::take(&mut self.connection.early);
        data.extend_from_slice(received);
        let (mut at, mut done) = (0, 0);
        while at < data.len() {
            let rest = data.get_mut(at..).unwrap_or_default();
            let Some((used, responses)) = self.next(rest)? else {
                break;
            };
            at += used;
            done += responses;
        }
        data.drain(..at);
        self.connection.early = data;
        match self.connection.early.len() > EARLY_BYTES_MAX {
            true => Err(ErrorClass::Malformed),
            false => Ok(done),
        }
    }

    /// The bytes that one event uses and the requests that have ended; `None`: more is needed.
    fn next(&mut self, data: &mut [u8]) -> Result<Option<(usize, u32)>, ErrorClass> {
        let job = self.common.job();
        match (&mut self.connection.exchange, &self.common.messages) {
            (Exchange::Channel(channel), Some(messages)) => {
                let event = channel.next(data, messages, job.mix, &mut self.inflaters);
                match event.map_err(|end| end.class())? {
                    channel::Event::None => Ok(None),
                    channel::Event::Skipped(used)
                    | channel::Event::Replaced(used)
                    | channel::Event::Opened(used) => Ok(Some((used, 0))),
                    channel::Event::Unexpected => Err(ErrorClass::UnexpectedBytes),
                    channel::Event::Responses(verdict) => {
                        forget(&mut channel.batch.stamps, &verdict);
                        self.connection.outstanding -= verdict.count;
                        Ok(Some((verdict.consumed, verdict.count)))
                    }
                }
            }
            (Exchange::Session(session), _) => {
                let event = session.next(data, job).map_err(|it| it.class)?;
                let Some((used, event)) = event else {
                    return Ok(None);
                };
                let count = match event {
                    Event::None => 0,
                    Event::Response(..) | Event::Failure(..) => 1,
                    Event::Refusal { stamps, .. } => stamps.len() as u32,
                };
                self.connection.outstanding -= count;
                Ok(Some((used, count)))
            }
            _ => Err(ErrorClass::Malformed),
        }
    }
}

/// Removes the oldest requests, which have their responses.
fn forget(stamps: &mut std::collections::VecDeque<Stamp>, verdict: &Verdict) {
    let mut rest = verdict.count;
    while let Some(stamp) = stamps.front_mut().filter(|_| rest > 0) {
        let count = rest.min(stamp.count);
        rest -= count;
        stamp.count -= count;
        stamp.position += count;
        if stamp.count == 0 {
            stamps.pop_front();
        }
    }
}
