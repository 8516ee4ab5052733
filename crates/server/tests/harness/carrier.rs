//! A client's connection, in plain text or over TLS, whose octets are cut anywhere: also within records.

#![allow(
    dead_code,
    reason = "each test file is a program of its own and uses a part of this"
)]

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rustls::ClientConfig;

use super::Client;
use super::tls::{End, TlsClient};

pub(crate) struct Carrier {
    pub(crate) client: Client,
    tls: Option<TlsClient>,
    /// Records that are not sent yet.
    records: Vec<u8>,
    /// It sends no more.
    has_finished: bool,
}

impl Carrier {
    pub(crate) fn new(client: Client) -> Carrier {
        Carrier {
            client,
            tls: None,
            records: Vec::new(),
            has_finished: false,
        }
    }

    pub(crate) fn with_tls(client: Client, config: &Arc<ClientConfig>) -> Carrier {
        Carrier {
            tls: Some(TlsClient::with(config)),
            ..Carrier::new(client)
        }
    }

    /// Sends at most so many octets of `pending`, and of the records that they are in. What the server does not read any more is lost.
    pub(crate) fn send(&mut self, pending: &mut Vec<u8>, bytes_max: usize) {
        if self.has_finished || self.is_ended() {
            self.records.clear();
            return pending.clear();
        }
        let count = pending.len().min(bytes_max);
        let Some(tls) = &mut self.tls else {
            let sent = self.client.send_some(&pending[..count]);
            pending.drain(..sent);
            return;
        };
        tls.offer(&pending[..count]);
        pending.drain(..count);
        self.records.extend(tls.records());
        let count = self.records.len().min(bytes_max);
        let sent = self.client.send_some(&self.records[..count]);
        self.records.drain(..sent);
    }

    /// Whether records wait to be sent.
    pub(crate) fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// What has arrived.
    pub(crate) fn take_bytes(&mut self) -> Vec<u8> {
        let Some(tls) = &mut self.tls else {
            return self.client.take_bytes();
        };
        tls.pull_some(self.client.socket(), usize::MAX);
        let is_right = self.has_finished || !matches!(tls.end, Some(End::Failed(_)));
        assert!(is_right, "{:?}", tls.end);
        std::mem::take(&mut tls.received)
    }

    /// At most so many octets of what has arrived, without TLS.
    pub(crate) fn take_some(&mut self, bytes_max: usize) -> Vec<u8> {
        self.client.take_some(bytes_max)
    }

    /// Ends the sending side. What is written and not sent is lost.
    pub(crate) fn finish(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.offer_end();
            let records = tls.records();
            self.records.extend(records);
            self.client.send_some(&std::mem::take(&mut self.records));
        }
        self.has_finished = true;
        self.client.end();
    }

    pub(crate) fn has_finished(&self) -> bool {
        self.has_finished
    }

    /// Is gone, without a word.
    pub(crate) fn vanish(&mut self) {
        let (ours, _) = UnixStream::pair().expect("a pair of sockets");
        self.client = Client::new(ours.into());
        self.tls = None;
        self.has_finished = true;
    }

    /// Whether the server has ended the connection.
    pub(crate) fn is_ended(&mut self) -> bool {
        match &self.tls {
            Some(tls) => tls.end.is_some(),
            None => self.client.is_ended(),
        }
    }
}
