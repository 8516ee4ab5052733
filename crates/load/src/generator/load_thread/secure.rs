//! What TLS adds to a connection: its handshake, and records that wait for the socket.

use std::io;

use net::{Received, TlsClientConfig, precise_ns};

use super::super::error::ErrorClass;
use super::{Common, LoadThread};

/// A thread's configuration, with sessions of its own.
pub(super) fn own_config(common: &Common) -> Option<TlsClientConfig> {
    let is_always_full = common.plan.tls.as_ref().is_some_and(|it| it.is_always_full);
    let config = common.tls.as_ref()?;
    Some(config.with_own_sessions(is_always_full))
}

impl LoadThread {
    /// Sends records that wait for the socket. Returns whether requests can be sent.
    pub(super) fn flush_records(&mut self, index: usize) -> bool {
        let connection = self.connections.get(index);
        let Some(socket) = connection.and_then(|it| it.socket.as_ref()) else {
            return false;
        };
        if !socket.flush() {
            self.break_off(index, &io::ErrorKind::ConnectionReset.into());
            return false;
        }
        !socket.owes() && !socket.is_handshaking()
    }

    /// Sends the first batch if the handshake has been completed by what was received. Returns whether records were read that had no room,
    /// or the end was, so that no event will report them.
    pub(super) fn take_note(&mut self, index: usize, received: &Received) -> bool {
        let is_alive = matches!(received, Received::Bytes(_) | Received::Blocked);
        let Some(connection) = self.connections.get(index) else {
            return false;
        };
        let Some(socket) = &connection.socket else {
            return false;
        };
        let is_more = socket.may_be_unread(0, 1) || socket.has_buffered();
        if is_alive && !connection.is_secured && !socket.is_handshaking() {
            self.complete_handshake(index);
            // Bytes that have arrived with the end of the handshake are no response to a request that follows.
            if matches!(received, Received::Blocked) {
                self.send_late(index);
            }
        }
        is_more
    }

    fn complete_handshake(&mut self, index: usize) {
        self.now_ns = precise_ns();
        let Some(connection) = self.connections.get_mut(index) else {
            return;
        };
        connection.is_secured = true;
        self.common.board.trust.accept();
        if let Some(agreement) = connection.socket.as_ref().and_then(|it| it.agreement()) {
            let is_measured = self.now_ns >= self.tally.start_ns;
            self.tally.tls.note_handshake(agreement, is_measured);
        }
        let protocol = self.common.plan.protocol;
        if protocol.has_streams()
            && let Some(socket) = &connection.socket
            && let selected = socket.protocol()
            && selected.as_deref() != Some(protocol.alpn())
        {
            self.tally.tls.note_other_protocol(selected.as_deref());
            return self.fail(index, ErrorClass::Tls);
        }
        let has_unsent = !connection.unsent(self.common.job()).is_empty();
        // With persistent connections, the latency of a first batch does not include the handshake.
        if self.common.plan.is_persistent {
            connection.restamp(self.common.job(), self.now_ns);
        }
        self.established(index);
        if has_unsent {
            self.flush(index);
        }
    }

    /// Counts why TLS failed, and ends the run if it always will. Returns false if the connection failed instead.
    #[cold]
    pub(super) fn note_tls_failure(&mut self, error: &io::Error) -> bool {
        let Some(failure) = self.tally.tls.note_failure(error) else {
            return false;
        };
        let (board, plan) = (&self.common.board, &self.common.plan);
        board.trust.note_failure(|| error.to_string());
        // A part of a larger run ends when that does.
        if failure.is_of_certificate()
            && !plan.is_gated
            && board.trust.refuse(plan.connections as u64)
        {
            board.stop();
        }
        true
    }
}
