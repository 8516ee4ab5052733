//! Opening and closing connections.

use std::collections::VecDeque;
use std::io;

use net::{Interest, Sent, precise_ns};
use rustix::io::Errno;

use super::super::connection::{Connection, Stage, Stamp};
use super::super::error::ErrorClass;
use super::super::plan::Address;
use super::{LoadThread, OPENING_MAX, SWEEP_TICKS};

impl LoadThread {
    /// Opens connections for the first time, as many as may be opening at once.
    pub(super) fn fill(&mut self) {
        let wanted = self.target.min(self.connections.len());
        if self.is_waiting() && !self.common.plan.is_persistent && self.schedule.is_none() {
            return; // Each is opened for its request.
        }
        while self.unopened < wanted && self.opening < OPENING_MAX {
            self.unopened += 1;
            self.opening += 1;
            self.open(self.unopened - 1);
        }
    }

    /// Opens a connection; in a closed loop, its first batch is sent as soon as possible.
    pub(super) fn open(&mut self, index: usize) {
        if index >= self.target {
            return;
        }
        if self.opens_without_requests() {
            return match self.common.plan.is_persistent {
                true => self.dial(index),
                // With a connection for each request, it is opened for its request.
                false => self.settle(index),
            };
        }
        match self.start_batch(index) {
            true => self.dial(index),
            false => self.settle(index),
        }
    }

    /// Closed loop: takes credit for a batch; false: there is none left, or no time.
    pub(super) fn start_batch(&mut self, index: usize) -> bool {
        let Some(connection) = self.connections.get(index) else {
            return false;
        };
        let room = connection.batch_room(self.common.plan.protocol);
        let count = u64::from(room).min(self.credit) as u32;
        if count == 0 || self.now_ns > self.tally.end_ns {
            return false;
        }
        let stamp = Stamp {
            intended_ns: self.now_ns,
            sent_ns: self.now_ns,
            first_ns: u64::MAX,
            position: self.cursor,
            count,
        };
        let (position, count) = match self.requeued.is_empty() {
            true => self.add_new(index, stamp),
            false => self.add_requeued(index, stamp),
        };
        self.credit -= u64::from(count);
        self.assign_batch(index, position, count);
        true
    }

    /// Adds requests to a connection, which are the next ones of the mix. Returns their position and number.
    fn add_new(&mut self, index: usize, stamp: Stamp) -> (u32, u32) {
        let job = self.common.job();
        if let Some(connection) = self.connections.get_mut(index) {
            connection.add(stamp, job);
        }
        self.cursor = job.mix.advanced(self.cursor, stamp.count);
        (stamp.position, stamp.count)
    }

    /// The same for requests that have to be sent again, and new ones if they follow in the mix: a batch is a part of it.
    #[cold]
    fn add_requeued(&mut self, index: usize, stamp: Stamp) -> (u32, u32) {
        let job = self.common.job();
        let (mut position, mut end, mut count) = (None, 0, 0);
        while count < stamp.count
            && let Some(first) = self.requeued.front_mut()
            && let at = job.mix.advanced(first.position, 0)
            && (position.is_none() || at == end)
            && let Some(connection) = self.connections.get_mut(index)
        {
            let part = Stamp {
                first_ns: first.since_ns(),
                position: at,
                count: first.count.min(stamp.count - count),
                ..stamp
            };
            connection.add(part, job);
            end = job.mix.advanced(at, part.count);
            (first.position, first.count) = (end, first.count - part.count);
            if first.count == 0 {
                self.requeued.pop_front();
            }
            position = position.or(Some(at));
            count += part.count;
        }
        if count < stamp.count && self.requeued.is_empty() && end == self.cursor {
            let rest = stamp.count - count;
            let stamp = Stamp {
                count: rest,
                ..stamp
            };
            count += self.add_new(index, stamp).1;
        }
        (position.unwrap_or(0), count)
    }

    /// Makes `count` requests from a position of the mix this connection's batch.
    pub(super) fn assign_batch(&mut self, index: usize, position: u32, count: u32) {
        let job = self.common.job();
        if let Some(connection) = self.connections.get_mut(index) {
            connection.assign(job, position, count);
        }
        self.under_way += u64::from(count);
        self.tally.requests_sent += u64::from(count);
    }

    /// Starts to connect, and sends the batch as soon as possible.
    pub(super) fn dial(&mut self, index: usize) {
        let plan = &self.common.plan;
        let turn = self.opened as usize * plan.threads + self.index;
        let source = turn.checked_rem(plan.source_addresses.len());
        let source = source.and_then(|it| plan.source_addresses.get(it)).copied();
        let connect_ns = precise_ns();
        let dialled = self.destination.connect(source);
        self.now_ns = precise_ns();
        let is_local = matches!(plan.address, Address::Local(_));
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        // The wait for a place in the server's queue is a part of connecting.
        if connection.stage != Stage::Waiting {
            connection.connect_ns = connect_ns;
        }
        connection.restamp_all(match (plan.is_persistent, &dialled) {
            (true, Ok(_)) => self.now_ns,
            _ => connection.connect_ns,
        });
        match dialled {
            Ok(socket) => {
                self.opened += 1;
                connection.socket = Some(match &self.tls {
                    Some(config) => socket.with_client_tls(config),
                    None => socket,
                });
                connection.stage = Stage::Opening;
                self.send_first(index);
            }
            Err(Errno::AGAIN) if is_local => connection.stage = Stage::Waiting,
            Err(error) => self.fail_connect(index, error),
        }
    }

    /// The connection could not be opened because of this.
    #[cold]
    fn fail_connect(&mut self, index: usize, error: Errno) {
        let class = self.class_of(error);
        self.fail(index, class);
    }

    /// On loopback the handshake is complete when connect returns, so most first batches are sent here.
    fn send_first(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let Some(socket) = &connection.socket else {
            return;
        };
        let job = self.common.job();
        let unsent = connection.unsent(job);
        let mut interest = Interest::READ;
        if unsent.is_empty() && !socket.is_secure() {
            interest.write = true;
        } else {
            match socket.send(unsent) {
                Sent::Bytes(count) => {
                    // A handshake waits for the server, not for room.
                    let is_secure = socket.is_secure();
                    interest.write = is_secure && socket.owes();
                    let is_more = connection.note_sent(count, job);
                    interest.write |= is_more && !is_secure;
                    if count > 0 {
                        self.established(index);
                    }
                }
                Sent::Broken(error) => return self.break_off(index, &error),
            }
        }
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        connection.is_write_watched = interest.write;
        let Some(socket) = &connection.socket else {
            return;
        };
        if self
            .poller
            .add_edge(socket, index as u64, interest)
            .is_err()
        {
            self.fail(index, ErrorClass::Connect);
        }
    }

    /// The connection is established.
    pub(super) fn established(&mut self, index: usize) {
        let is_batchless = self.opens_without_requests();
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        if connection.is_established || !connection.is_upgraded() {
            return;
        }
        connection.is_established = true;
        // Or it waited for the start of the load, which has passed.
        let is_batchless = is_batchless || connection.outstanding == 0;
        let took_ns = self.now_ns.saturating_sub(connection.connect_ns);
        self.tally.connect_ns.record(took_ns, 1);
        self.common.board.connection_opened();
        // A handshake is the server's own response.
        let is_accepted = self.tls.is_some() || self.common.messages.is_some();
        if connection.is_new && !is_accepted {
            self.pace
                .note_established(connection.connect_ns, self.now_ns);
        }
        if is_batchless && self.common.plan.is_persistent {
            connection.stage = Stage::Open;
            if is_accepted || !self.is_paced_by_time() {
                self.settle(index);
            }
        } else if is_accepted {
            self.settle(index);
        }
    }

    /// Closed loop: sends the first batch on a connection that was opened without one, if the load has started meanwhile.
    pub(super) fn send_late(&mut self, index: usize) {
        let waits = |it: &Connection| it.stage == Stage::Open && it.outstanding == 0;
        if self.schedule.is_none() && self.connections.get(index).is_some_and(waits) {
            self.proceed(index);
        }
    }

    /// The first attempt to open this connection has succeeded or failed: the next one may be opened.
    pub(super) fn settle(&mut self, index: usize) {
        if let Some(connection) = self.connections.get_mut(index)
            && connection.is_new
        {
            connection.is_new = false;
            self.opening -= 1;
            if let Some(end_ns) = &mut self.opening_end_ns {
                *end_ns = self.pace.end_ns(self.now_ns);
            }
        }
        self.list(index);
    }

    /// Starts the connections that waited for the others, or for the start.
    #[cold]
    pub(super) fn resume(&mut self) {
        let has_requests = !self.opens_without_requests();
        for index in 0..self.unopened {
            match self
                .connections
                .get(index)
                .map(|it| (it.stage, it.outstanding))
            {
                Some((Stage::Open, 0)) => {
                    // With thousands of them, the first is sent milliseconds before the last.
                    self.now_ns = precise_ns();
                    self.proceed(index);
                }
                // The server has closed it while it waited, or it could not be opened.
                Some((Stage::Closed | Stage::Failed, _)) if has_requests => self.open(index),
                _ => {}
            }
        }
    }

    /// Returns the credit for requests that get no response without having failed.
    pub(super) fn take_back_batch(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        let count = std::mem::take(&mut connection.outstanding);
        if count > 0 {
            let stamps = connection.take_stamps();
            self.take_back(&stamps, count);
        }
    }

    /// Returns the credit for `count` requests, whose stamps these are: they are sent again first, or become due again.
    #[cold]
    pub(super) fn take_back(&mut self, stamps: &VecDeque<Stamp>, count: u32) {
        match self.schedule.is_some() {
            _ if self.is_over || self.common.plan.protocol.is_broadcast() => {}
            true => self.reschedule(stamps),
            false => self
                .requeued
                .extend(stamps.iter().filter(|it| it.count > 0)),
        }
        if !self.is_over {
            self.tally.requeued += u64::from(count);
        }
        self.under_way -= u64::from(count);
        self.credit = self.credit.saturating_add(u64::from(count));
    }

    #[cold]
    pub(super) fn break_off(&mut self, index: usize, error: &io::Error) {
        self.note_break(index, error);
        self.cut(index);
    }

    /// Notes how requests on a connection fail that is broken by `error`, unless that is known or none can.
    #[cold]
    pub(super) fn note_break(&mut self, index: usize, error: &io::Error) {
        let needs_class =
            |it: &Connection| it.broken.is_none() && !matches!(it.stage, Stage::Ending { .. });
        if self.connections.get(index).is_some_and(needs_class) {
            let class = self.class_of_break(error);
            if let Some(connection) = self.connections.get_mut(index) {
                connection.broken = Some(class);
            }
        }
    }

    /// Nothing more is sent or received on a connection that is broken.
    #[cold]
    pub(super) fn cut(&mut self, index: usize) {
        let Some(connection) = self.connections.get(index) else {
            return;
        };
        match (connection.stage, connection.broken) {
            (Stage::Ending { .. }, _) => {
                self.closing.note_closed();
                self.finish(index);
            }
            (_, None) => self.finish(index),
            (_, Some(class)) => self.fail(index, class),
        }
    }

    fn class_of_break(&mut self, error: &io::Error) -> ErrorClass {
        if self.tls.is_some() && self.note_tls_failure(error) {
            return ErrorClass::Tls;
        }
        self.class_of(Errno::from_io_error(error).unwrap_or(Errno::CONNRESET))
    }

    fn class_of(&mut self, error: Errno) -> ErrorClass {
        let class = class_of(error);
        if class == ErrorClass::Connect {
            self.tally.note_connect_failure(cause_of(error));
        }
        class
    }

    /// Every outstanding request on this connection failed. In a closed loop a connection that was open is reopened at once, and so is the
    /// next one of connections for one request each; any other, and all before the load starts, at the next sweep or at that start. In an open loop it is reopened when it is needed.
    #[cold]
    pub(super) fn fail(&mut self, index: usize, class: ErrorClass) {
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        self.under_way -= u64::from(connection.outstanding);
        if connection.outstanding == 0 && self.common.plan.protocol.is_broadcast() {
            // No message waits for a connection that is not open.
            self.tally.fail([&Stamp::ONE], class, self.now_ns);
        }
        self.tally
            .fail(&connection.take_stamps(), class, self.now_ns);
        let is_single = !self.common.plan.is_persistent && class != ErrorClass::Connect;
        let was_open = connection.stage == Stage::Open || (is_single && connection.is_established);
        let is_open_loop = self.schedule.is_some();
        self.close(
            index,
            if is_open_loop || was_open {
                Stage::Closed
            } else {
                Stage::Failed
            },
        );
        self.settle(index);
        if was_open && !is_open_loop && !self.is_waiting() {
            self.open(index);
        }
    }

    /// Closes a connection that is done, and opens the next one in its place; before the load starts, at the next sweep.
    pub(super) fn finish(&mut self, index: usize) {
        self.take_back_batch(index);
        self.close(index, Stage::Closed);
        match self.schedule.is_some() || self.is_waiting() {
            true => self.settle(index),
            false => self.open(index),
        }
    }

    fn close(&mut self, index: usize, stage: Stage) {
        if let Some(connection) = self.connections.get_mut(index) {
            if connection.is_established {
                self.common.board.connection_closed();
            }
            self.tally.settings_received += u64::from(connection.has_settings());
            let unsent = connection.close(self.common.job(), self.common.plan.protocol, stage);
            self.tally.requests_sent -= u64::from(unsent);
        }
    }

    /// Checks a part of the connections for timeouts, and reopens those that need it.
    #[cold]
    pub(super) fn sweep(&mut self) {
        let part = self.tick % SWEEP_TICKS;
        let length = self.unopened.div_ceil(SWEEP_TICKS);
        for index in part * length..((part + 1) * length).min(self.unopened) {
            self.sweep_one(index);
        }
    }

    fn sweep_one(&mut self, index: usize) {
        let Some(connection) = self.connections.get(index) else {
            return;
        };
        let is_late = |since_ns: u64| self.now_ns.saturating_sub(since_ns) > self.timeout_ns;
        let oldest_ns = connection.oldest_ns();
        let is_open_loop = self.schedule.is_some();
        match connection.stage {
            Stage::Failed | Stage::Closed if !is_open_loop => self.open(index),
            Stage::Waiting if is_late(connection.connect_ns) => {
                self.fail_connect(index, Errno::AGAIN)
            }
            Stage::Waiting => self.dial(index),
            Stage::Ending { since_ns, .. } => self.sweep_ending(index, since_ns),
            Stage::Opening if is_late(oldest_ns.unwrap_or(connection.connect_ns)) => {
                let has_handshake = self.tls.is_some() || self.common.messages.is_some();
                match connection.is_established || has_handshake {
                    true => self.fail(index, ErrorClass::Timeout),
                    false => self.fail_connect(index, Errno::ALREADY),
                }
            }
            Stage::Open if oldest_ns.is_some_and(is_late) => self.time_out(index),
            Stage::Open if !is_open_loop && connection.closed_since_ns().is_some_and(is_late) => {
                self.time_out_waiting(index);
            }
            Stage::Open if oldest_ns.is_none() && !is_open_loop => self.proceed(index),
            _ => {}
        }
    }
}

/// The name of what prevented a connection.
fn cause_of(error: Errno) -> String {
    match error {
        Errno::ADDRNOTAVAIL => String::from("no_port"),
        Errno::MFILE | Errno::NFILE => String::from("no_file"),
        Errno::HOSTUNREACH | Errno::NETUNREACH => String::from("no_route"),
        Errno::AGAIN => String::from("full_queue"),
        // Still connecting.
        Errno::ALREADY => String::from("no_answer"),
        other => format!("errno_{}", other.raw_os_error()),
    }
}

fn class_of(error: Errno) -> ErrorClass {
    match error {
        Errno::CONNREFUSED | Errno::NOENT => ErrorClass::Refused,
        Errno::CONNRESET | Errno::PIPE => ErrorClass::Reset,
        Errno::TIMEDOUT => ErrorClass::Timeout,
        _ => ErrorClass::Connect,
    }
}
