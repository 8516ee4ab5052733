//! The connection of rustls on either side. They differ in how they begin; records are processed and written in the same way.

use std::ops::Deref;

use rustls::CommonState;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::UnbufferedStatus;

/// One side's connection.
pub(super) enum Connection {
    Server(Box<UnbufferedServerConnection>),
    Client(Box<UnbufferedClientConnection>),
}

impl Deref for Connection {
    type Target = CommonState;

    fn deref(&self) -> &CommonState {
        match self {
            Connection::Server(connection) => connection,
            Connection::Client(connection) => connection,
        }
    }
}

/// What both sides have in common.
pub(super) trait Side {
    type Data;

    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8])
    -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn state(&self) -> &CommonState;
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }

    fn state(&self) -> &CommonState {
        self
    }
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }

    fn state(&self) -> &CommonState {
        self
    }
}
