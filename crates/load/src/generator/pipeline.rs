//! HTTP/1 on one connection.

use super::batch::Batch;
use super::checker::Response;

/// The requests of a connection, and the response that is being received.
pub(super) struct Pipeline {
    pub(super) response: Response,
    pub(super) batch: Batch,
}

impl Pipeline {
    pub(super) fn new() -> Pipeline {
        Pipeline {
            response: Response::new(),
            batch: Batch::default(),
        }
    }

    /// For a new socket.
    pub(super) fn reset(&mut self) {
        self.response = Response::new();
        self.batch.reset();
    }
}
