//! Runs a schedule: a worker with a clock that the schedule advances, its clients, and the checks after each pass.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use net::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use server::{Mailbox, Worker};

use crate::app::ModelApp;
use crate::bounds;
use crate::exchange::{Exchange, State};
use crate::facts::Facts;
use crate::judgement;
use crate::panics;
use crate::peer::Peer;
use crate::render::{self, Stream};
use crate::schedule::{Act, Amount, PeersEnd, Schedule, Step, Tls};
use crate::tls::configs;
use crate::walk::{self, START_S};

const START_MS: u64 = START_S * 1000 + 123;
/// Passes within which everything that takes no time has happened.
const PASSES_MAX: usize = 5_000;
/// How often and how long an unexpected rest is awaited, over TCP.
const PATIENCE: usize = 30;
const PATIENCE_MS: i64 = 10;
/// Maximum number of times a worker wakes up before nothing is left to do.
const WAITS_MAX: usize = 500;

pub(crate) struct World<'a> {
    schedule: &'a Schedule,
    streams: &'a [Stream],
    worker: Worker<ModelApp<'a>>,
    mailbox: Arc<Mailbox>,
    clock: Arc<AtomicU64>,
    peers: Vec<Peer>,
    /// Whether some connection needs the kernel's time.
    has_tcp: bool,
}

/// Runs a schedule from start to end.
///
/// # Errors
/// The first violation.
pub(crate) fn run(schedule: &Schedule) -> Result<(), String> {
    let conversations = schedule.conversations.iter().enumerate();
    let streams: Vec<Stream> = conversations
        .map(|(index, conversation)| render::stream(index, conversation))
        .collect();
    let mut world = World::new(schedule, &streams);
    let ran = world.run();
    ran.map_err(|text| format!("{text}\n{}", world.shown()))
}

/// Bytes that the worker holds for its connections.
///
fn held_bytes(worker: &Worker<ModelApp<'_>>) -> u64 {
    worker.held_bytes()
}

impl<'a> World<'a> {
    fn new(schedule: &'a Schedule, streams: &'a [Stream]) -> World<'a> {
        let clock = Arc::new(AtomicU64::new(START_MS));
        let mailbox = Arc::new(Mailbox::default());
        let app = ModelApp::new(schedule, streams, Arc::clone(&mailbox), START_MS);
        let worker = Worker::with_clock(
            app,
            bounds::config(schedule.settings),
            None,
            Arc::clone(&mailbox),
            Clock::manual(Arc::clone(&clock)),
        );
        World {
            schedule,
            streams,
            worker: worker.expect("an epoll set"),
            mailbox,
            clock,
            peers: Vec::new(),
            has_tcp: schedule.conversations.iter().any(|it| it.is_tcp),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        self.open()?;
        for step in &self.schedule.steps {
            self.step(step)?;
        }
        self.end()
    }

    /// What the clients have seen so far.
    fn shown(&self) -> String {
        let mut text = format!("after {} ms:", self.now_ms() - START_MS);
        for (index, peer) in self.peers.iter().enumerate() {
            let facts = &self.worker.app.facts[index];
            let end = match (facts.ended_ms, facts.was_reset) {
                (None, _) => "open",
                (Some(_), false) => "ended",
                (Some(_), true) => "reset",
            };
            let _ = write!(
                text,
                "\n  /{index} offered {}, sent {}, received {} and is {end}: {}",
                facts.offered,
                peer.sent,
                peer.received.len(),
                walk::shown(&peer.received)
            );
        }
        text
    }

    fn now_ms(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    fn open(&mut self) -> Result<(), String> {
        let now_ms = self.now_ms();
        for conversation in &self.schedule.conversations {
            let (peer, theirs) = Peer::connect(conversation);
            let mut facts = Facts::new(conversation, now_ms);
            facts.is_surplus = self.schedule.settings.is_crowded && !self.peers.is_empty();
            self.worker.app.facts.push(facts);
            self.peers.push(peer);
            let adopted = match conversation.tls {
                Tls::None => self.worker.adopt(theirs),
                Tls::Steps { .. } => self.worker.adopt_with_tls(theirs, &configs().0),
            };
            adopted.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let index = step.conversation % self.peers.len();
        match step.act {
            Act::Offer(amount) => self.offer(index, amount),
            Act::Move(which) => self.make_move(index, which),
            Act::Receive(bytes) => {
                let now_ms = self.now_ms();
                self.peers[index].pull(bytes, &mut self.worker.app.facts[index], now_ms);
            }
            Act::Advance(ms) => {
                self.settle()?;
                self.advance(ms)?;
            }
            Act::Settle => {
                self.settle()?;
            }
            Act::HalfClose => {
                self.peers[index].half_close();
            }
            Act::Vanish => self.vanish(index),
            Act::Drain => self.drain(),
        }
        for _ in 0..step.passes {
            self.pass()?;
        }
        Ok(())
    }

    fn offer(&mut self, index: usize, amount: Amount) {
        if !self.peers[index].may_offer() {
            return;
        }
        let now_ms = self.now_ms();
        let facts = &mut self.worker.app.facts[index];
        let (stream, offered) = (&self.streams[index], facts.offered);
        let next = |end: fn(&render::Mark) -> usize| {
            let mut ends = stream.marks.iter().map(end);
            ends.find(|end| *end > offered).unwrap_or(offered)
        };
        let end = match amount {
            Amount::Bytes(bytes) => offered + bytes,
            Amount::Head => next(|mark| mark.head_end),
            Amount::Request => next(|mark| mark.end),
            Amount::Beyond(bytes) => next(|mark| mark.end) + bytes,
            Amount::All => stream.bytes.len(),
        };
        facts.offer(end.min(stream.bytes.len()) - offered, now_ms);
    }

    fn make_move(&mut self, index: usize, which: usize) {
        let app = &mut self.worker.app;
        let open: Vec<usize> = app.open(index).collect();
        if let Some(exchange) = open.get(which % open.len().max(1)) {
            app.make_move(*exchange);
        }
    }

    /// Lets time pass while the worker waits; it reads the clock when it wakes up.
    fn advance(&mut self, ms: u64) -> Result<(), String> {
        let now_ms = self.clock.fetch_add(ms, Ordering::Relaxed) + ms;
        self.worker.app.now_ms = now_ms;
        self.pass().map(|_| ())
    }

    fn vanish(&mut self, index: usize) {
        self.peers[index].vanish();
        self.worker.app.facts[index].has_vanished = true;
    }

    fn drain(&mut self) {
        if self.worker.is_draining() {
            return;
        }
        let now_ms = self.now_ms();
        for facts in &mut self.worker.app.facts {
            facts.drained_ms = Some(now_ms);
        }
        self.worker.drain();
    }

    fn mail_was_taken(&mut self) {
        if self.mailbox.is_empty() {
            self.worker.app.mail_was_taken();
        }
    }

    /// One pass of the worker. Returns how long the next wait may last, and whether anything happened at the clients.
    fn pass(&mut self) -> Result<(Option<u64>, bool), String> {
        let now_ms = self.now_ms();
        let mut is_any = false;
        for (index, peer) in self.peers.iter_mut().enumerate() {
            let facts = &mut self.worker.app.facts[index];
            is_any |= peer.push(&self.streams[index].bytes, facts, now_ms);
        }
        let wait_ms = self.worker.before_wait();
        self.mail_was_taken();
        self.worker
            .wait(Some(0))
            .map_err(|error| error.to_string())?;
        self.worker.app.stamp_ms = now_ms;
        self.worker.dispatch();
        self.mail_was_taken();
        for (index, peer) in self.peers.iter_mut().enumerate() {
            let facts = &mut self.worker.app.facts[index];
            if facts.is_attentive {
                is_any |= peer.pull(usize::MAX, facts, now_ms);
            }
            // The server may have made room.
            is_any |= peer.has_records() && peer.push(&self.streams[index].bytes, facts, now_ms);
        }
        self.verify()?;
        Ok((wait_ms, is_any))
    }

    /// Whether the next wait would yield something within `patience_ms`.
    fn is_ready(&self, patience_ms: i64) -> bool {
        let poller = self.worker.poller();
        let mut watched = [PollFd::new(&*poller, PollFlags::IN)];
        let patience = Timespec {
            tv_sec: 0,
            tv_nsec: patience_ms * 1_000_000,
        };
        poll(&mut watched, Some(&patience)).is_ok_and(|count| count > 0)
    }

    /// Invariants after every pass.
    fn verify(&mut self) -> Result<(), String> {
        if let Some(text) = self.worker.app.violation.take() {
            return Err(text);
        }
        if let Some(text) = panics::take_unexpected() {
            return Err(format!("the server panicked: {text}"));
        }
        let open = self.worker.open_connections().load(Ordering::Relaxed);
        if (open == 0) != self.worker.is_empty() {
            return Err(format!("{open} connections are counted"));
        }
        Ok(())
    }

    /// Passes until nothing happens any more, and checks that everything that takes no time has happened. Returns how long the worker would
    /// wait.
    fn settle(&mut self) -> Result<Option<u64>, String> {
        let mut last_wait_ms = None;
        let mut patience = PATIENCE;
        for _ in 0..PASSES_MAX {
            let events = self.worker.app.events;
            let (wait_ms, is_any) = self.pass()?;
            let is_quiet = !is_any && wait_ms != Some(0) && events == self.worker.app.events;
            last_wait_ms = wait_ms;
            if !is_quiet || self.is_ready(0) {
                continue;
            }
            match self.check_rest(wait_ms) {
                // Over TCP, the kernel takes time.
                Err(_) if self.has_tcp && patience > 0 => {
                    patience -= 1;
                    self.is_ready(PATIENCE_MS);
                }
                checked => return checked.map(|()| wait_ms),
            }
        }
        Err(format!(
            "it does not come to rest; the last wait is {last_wait_ms:?}"
        ))
    }

    /// Invariants when nothing happens without time passing.
    fn check_rest(&mut self, wait_ms: Option<u64>) -> Result<(), String> {
        for index in 0..self.peers.len() {
            let app = &self.worker.app;
            let walk = walk::walk(app, index, &self.peers[index].received)?;
            judgement::of_end(app, index, &walk)?;
            judgement::of_quiet(app, index, &walk)?;
        }
        let open = self.worker.open_connections().load(Ordering::Relaxed);
        let owing = self.owing();
        if wait_ms.is_none() && open != owing {
            return Err(format!(
                "{open} connections are open without a deadline, {owing} of them for an application"
            ));
        }
        Ok(())
    }

    /// Connections to which an application owes a response.
    fn owing(&self) -> usize {
        let exchanges = &self.worker.app.exchanges;
        let owes = |index: &usize| {
            exchanges
                .iter()
                .any(|it| it.conversation == *index && it.owes())
        };
        (0..self.peers.len()).filter(owes).count()
    }

    /// Lets every application complete what it has started, and what starts then. Returns how long the worker would wait.
    fn complete(&mut self, also_never: bool) -> Result<Option<u64>, String> {
        loop {
            let wait_ms = self.settle()?;
            let mut is_any = false;
            for index in 0..self.worker.app.exchanges.len() {
                is_any |= self.worker.app.complete(index, also_never);
            }
            if !is_any {
                return Ok(wait_ms);
            }
        }
    }

    /// Lets time pass as the worker waits, until it has nothing to wait for. Returns how long connections stayed meanwhile.
    fn wait_out(&mut self, also_never: bool) -> Result<u64, String> {
        let start_ms = self.now_ms();
        let mut stayed_ms = 0;
        for _ in 0..WAITS_MAX {
            let Some(wait_ms) = self.complete(also_never)? else {
                return Ok(stayed_ms);
            };
            if !self.worker.is_empty() {
                stayed_ms = self.now_ms() - start_ms;
            }
            self.advance(wait_ms.max(1))?;
        }
        let now_ms = self.now_ms();
        Err(format!(
            "after {} ms the worker still has a deadline",
            now_ms - start_ms
        ))
    }

    fn end(&mut self) -> Result<(), String> {
        let now_ms = self.now_ms();
        let ending = self.schedule.ending;
        for index in 0..self.peers.len() {
            if self.schedule.conversations[index].reads_at_end {
                self.worker.app.facts[index].become_attentive(now_ms);
            }
            if ending.offers_rest {
                self.offer(index, Amount::All);
            }
            match ending.peers {
                PeersEnd::HalfClose => {
                    self.peers[index].half_close();
                }
                PeersEnd::Vanish => self.vanish(index),
                PeersEnd::Silent | PeersEnd::Drain => {}
            }
        }
        if ending.peers == PeersEnd::Drain {
            self.drain();
        }
        self.complete(false)?;
        self.check_ended_peers()?;
        self.worker.app.waits_since_ms = Some(now_ms);
        let is_owing = self.owing() > 0;
        let waited_ms = self.wait_out(false)?;
        let life_ms = match self.worker.is_draining() && !is_owing {
            true => bounds::DRAINING_LIFE_MS,
            false => bounds::LIFE_MS,
        };
        if waited_ms > life_ms {
            return Err(format!("a connection stayed for {waited_ms} ms"));
        }
        self.wait_out(true)?;
        self.check_nothing_left()
    }

    /// If the clients have ended and nothing is owed to them, nothing is left.
    fn check_ended_peers(&self) -> Result<(), String> {
        let app = &self.worker.app;
        let mut facts = app.facts.iter();
        let all_vanished = facts.all(|it| it.has_vanished);
        let mut facts = app.facts.iter();
        // Over TCP, a truncated response waits for acknowledgements, which follow another clock.
        let has_ended = |it: &Facts| it.half_closed_ms.is_some() && it.is_attentive && !it.is_tcp;
        let all_ended = facts.all(|it| it.has_vanished || has_ended(it));
        let is_left = !self.worker.is_empty();
        if is_left && (all_vanished || all_ended && self.owing() == 0) {
            return Err("all clients have ended, and a connection is left".into());
        }
        Ok(())
    }

    fn check_nothing_left(&mut self) -> Result<(), String> {
        let open = self.worker.open_connections().load(Ordering::Relaxed);
        if open > 0 || !self.worker.is_empty() {
            return Err(format!("{open} connections are left"));
        }
        let app = &self.worker.app;
        if app.sent_early > 0 {
            return Err("response_written() is missing".into());
        }
        let is_left = |it: &&Exchange| !it.is_over() && it.state != State::WantsContent;
        if let Some(left) = app.exchanges.iter().find(is_left) {
            let (conversation, number) = (left.conversation, left.number);
            return Err(format!(
                "/{conversation}/{number} was never ended: {:?}",
                left.state
            ));
        }
        let held = held_bytes(&self.worker);
        if held > 0 || !self.mailbox.is_empty() {
            return Err(format!("{held} bytes are held for no connection"));
        }
        let now_ms = self.now_ms();
        for index in 0..self.peers.len() {
            let facts = &mut self.worker.app.facts[index];
            self.peers[index].pull(usize::MAX, facts, now_ms);
            let app = &self.worker.app;
            let walk = walk::walk(app, index, &self.peers[index].received)?;
            judgement::of_end(app, index, &walk)?;
        }
        Ok(())
    }
}
