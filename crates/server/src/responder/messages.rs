//! Writing WebSocket messages during the call that receives one.

use wire::websocket::{Kind, Role, Sender};

use super::Responder;

impl Responder {
    /// Writes a message, after those before it. Only in [`crate::App::message`], to the WebSocket of that call. A text has to be UTF-8.
    ///
    /// What was posted before for the same WebSocket would be sent later: a caller that may have posted something checks
    /// [`crate::Mailbox::has_output`].
    ///
    /// Cost: copies.
    #[inline]
    pub fn send_message(&mut self, kind: Kind, content: &[u8]) {
        Sender::new(Role::Server).push_message(&mut self.out, kind, content, [0; 4]);
    }
}
