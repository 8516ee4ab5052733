//! What the WebSockets of a worker share: settings, decompressors, and who subscribes to which topic.

use net::memory;
use wire::websocket::extension::Preference;
use wire::websocket::{Deflater, Inflater, Inflaters, MessageLimits, NoMemory, WindowBits};

use super::topics::Topics;
use crate::limits::Limits;
use crate::responder::messages::publication::Published;

/// The settings of WebSockets that are not numbers of [`Limits`].
#[derive(Clone, Debug, Default)]
pub struct WebSocketConfig {
    /// Whether messages are compressed, if the client can.
    pub compression: Compression,
    /// Which origins may connect.
    pub origins: Origins,
}

/// The window of messages that refer to earlier ones, as the base-2 logarithm of bytes. Twice the window would make few messages shorter.
const CONTEXT_WINDOW_BITS: u8 = 12;

/// How messages are compressed (RFC 7692).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not at all.
    Off,
    /// Each message for itself, so that a connection holds no memory for it.
    Messages {
        /// 1 (fast) to 9 (short).
        level: u32,
    },
    /// A message may refer to earlier ones, up to 4 KiB back: shorter if they resemble each other, and each connection holds the state of
    /// both sides.
    Context {
        /// 1 (fast) to 9 (short).
        level: u32,
    },
}

impl Default for Compression {
    fn default() -> Compression {
        Compression::Messages { level: 3 }
    }
}

impl Compression {
    /// Memory that a WebSocket may hold for it, in bytes.
    pub fn bytes_max(self) -> u64 {
        let bytes = match self {
            Compression::Off => 0,
            Compression::Messages { .. } => Inflater::BYTES,
            Compression::Context { .. } => {
                Inflater::BYTES + Deflater::bytes(Compression::context_window())
            }
        };
        bytes as u64
    }

    fn context_window() -> WindowBits {
        WindowBits::new(CONTEXT_WINDOW_BITS).unwrap_or(WindowBits::MAX)
    }

    /// What the server agrees to in a handshake; None if it declines.
    pub(crate) fn preference(self) -> Option<Preference> {
        match self {
            Compression::Off => None,
            Compression::Messages { .. } => Some(Preference::WithoutContext),
            Compression::Context { .. } => {
                Some(Preference::WithContext(Compression::context_window()))
            }
        }
    }

    /// How much work it is, 1 to 9.
    pub fn level(self) -> u32 {
        match self {
            Compression::Off => 1,
            Compression::Messages { level } | Compression::Context { level } => level,
        }
    }
}

/// From which origins a browser may open a WebSocket. Without the limit, any page can use the cookies of its visitors for it (cross-site
/// WebSocket hijacking). Clients that are no browsers send no origin, or any.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Origins {
    /// From all.
    #[default]
    Any,
    /// Only from these.
    Listed {
        /// The one that the request is for: its Host.
        own: bool,
        /// Others, such as `https://example.org`.
        others: Vec<String>,
    },
}

impl Origins {
    /// Whether a request with this Origin, if it has one, may open a WebSocket.
    pub(crate) fn allow(&self, origin: &[u8], host: Option<&[u8]>) -> bool {
        let Origins::Listed { own, others } = self else {
            return true;
        };
        // A proxy may have ended TLS, so the scheme is not compared.
        let authority = origin
            .strip_prefix(b"https://")
            .or_else(|| origin.strip_prefix(b"http://"));
        let is_own = || match (authority, host) {
            (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
            _ => false,
        };
        let is_listed = |other: &String| other.as_bytes().eq_ignore_ascii_case(origin);
        others.iter().any(is_listed) || *own && is_own()
    }
}

/// What the WebSockets of a worker share.
pub(crate) struct WebSockets {
    pub(crate) config: WebSocketConfig,
    pub(crate) limits: MessageLimits,
    pub(crate) inflaters: Inflaters,
    pub(crate) topics: Topics,
    /// What waits for them of published frames.
    pub(crate) published: Published,
    /// What the budget is charged of it.
    pub(crate) charged_bytes: usize,
}

impl WebSockets {
    pub(crate) fn new(config: WebSocketConfig, limits: &Limits) -> WebSockets {
        let most = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX - 1);
        WebSockets {
            config,
            limits: MessageLimits {
                message_bytes_max: most(limits.websocket_message_bytes_max),
                fragments_max: limits.websocket_fragments_max.min(u64::from(u32::MAX)) as u32,
                reserve,
            },
            inflaters: Inflaters::default(),
            topics: Topics::default(),
            published: Published::default(),
            charged_bytes: 0,
        }
    }
}

/// Leaves memory for everything else.
fn reserve(buffer: &mut Vec<u8>, more: usize) -> Result<(), NoMemory> {
    memory::reserve_exact(buffer, more).map_err(|lack| NoMemory(lack.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_origins_admits_only_them() {
        let host = Some(&b"Example.org:8000"[..]);
        assert!(Origins::Any.allow(b"https://evil.example", host));
        let listed = Origins::Listed {
            own: true,
            others: vec!["https://other.example".into()],
        };
        for allowed in [
            "http://example.org:8000",
            "https://EXAMPLE.org:8000",
            "https://other.example",
        ] {
            assert!(listed.allow(allowed.as_bytes(), host), "{allowed}");
        }
        for refused in [
            "null",
            "http://example.org",
            "http://other.example",
            "https://other.example.evil",
            "file://example.org:8000",
            "",
        ] {
            assert!(!listed.allow(refused.as_bytes(), host), "{refused}");
        }
        assert!(!listed.allow(b"http://example.org", None));
        let others = Origins::Listed {
            own: false,
            others: Vec::new(),
        };
        assert!(!others.allow(b"http://example.org:8000", host));
    }
}
