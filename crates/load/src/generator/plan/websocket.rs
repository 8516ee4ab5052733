//! What a plan says about WebSocket (RFC 6455).

use super::{Plan, Shape};

/// The messages of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WebSocket {
    /// Maximum number of outstanding messages on one connection. In a closed loop, that many are sent in one send.
    pub depth: u32,
    /// What the server does with a message.
    pub pattern: Pattern,
    /// The content of a message in bytes, if the request has none. Each message has its number in it.
    pub message_bytes: usize,
    /// Binary messages instead of text.
    pub is_binary: bool,
    /// permessage-deflate (RFC 7692): the server has to agree.
    pub is_compressed: bool,
}

/// What the server does with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// Sends it back.
    Echo,
    /// Nothing. A ping follows each batch; the pong says that the server has read the batch.
    OneWay,
    /// Sends it to all connections, the sender's too. One connection sends.
    Broadcast,
}

impl Default for WebSocket {
    fn default() -> WebSocket {
        WebSocket {
            depth: 1,
            pattern: Pattern::Echo,
            message_bytes: 64,
            is_binary: false,
            is_compressed: false,
        }
    }
}

/// Fields of the handshake that the generator writes itself.
const OWN_FIELDS: [&str; 5] = [
    "upgrade",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-extensions",
    "sec-websocket-accept",
];

impl WebSocket {
    pub(super) fn check(&self, plan: &Plan) -> Result<(), String> {
        let refuse = |message: &str| Err(message.to_owned());
        let [request] = plan.requests.as_slice() else {
            return refuse("WebSocket has one kind of request, its handshake");
        };
        let own = |name: &str| OWN_FIELDS.iter().any(|it| name.eq_ignore_ascii_case(it));
        if let Some((name, _)) = request.field_lines.iter().find(|(name, _)| own(name)) {
            return Err(format!("leave out {name}: the generator writes it"));
        }
        let is_text = |content: &Vec<u8>| self.is_binary || str::from_utf8(content).is_ok();
        if request.method != "GET" || !request.content.as_ref().is_none_or(is_text) {
            return refuse("a handshake has the method GET, and a text message is UTF-8");
        }
        if self.pattern == Pattern::Broadcast {
            let is_closed = plan.shape == Shape::Closed && plan.requests_total().is_none();
            if plan.threads > 1 || !plan.is_persistent || !is_closed {
                return refuse(
                    "a broadcast has one thread, persistent connections and a duration; leave out rate, stages and a number of requests",
                );
            }
        }
        Ok(())
    }
}
