//! Requests of WebSocket clients that are served as plain ones.

use super::{REASON_CHARACTERS_MAX, Refusal, Refusals};

/// The status that requests for WebSocket did not get.
const UPGRADE: u16 = 101;

/// Stands for requests of WebSocket clients whose upgrade was lost on their way.
const LOST_UPGRADE: u16 = 12;
/// What nginx needs to forward an upgrade; other proxies have an option for it.
const FORWARDS_UPGRADE: &str = "with nginx: proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection \"upgrade\";";

/// What a request of a WebSocket client lacks that a proxy has to forward.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LostUpgrade {
    /// HTTP/1.1.
    Version,
    /// `Upgrade: websocket`.
    Upgrade,
    /// `Upgrade` in Connection.
    Connection,
}

impl Refusals {
    /// Counts a request for WebSocket, which is served as if it had not asked for that (RFC 9110 section 7.8). `path` is its path, if the
    /// application serves WebSockets at others.
    #[cold]
    pub(crate) fn add_websocket(&mut self, path: Option<&[u8]>) {
        let shown = path.unwrap_or_default().escape_ascii();
        let reason: String = shown.map(char::from).take(REASON_CHARACTERS_MAX).collect();
        self.count(UPGRADE, &reason);
    }

    /// Counts a request of a WebSocket client that is served as a plain one, because it lacks what a proxy should have forwarded.
    #[cold]
    pub(crate) fn add_lost_upgrade(&mut self, lost: LostUpgrade) {
        self.count(
            LOST_UPGRADE,
            match lost {
                LostUpgrade::Version => "a proxy sends HTTP/1.0",
                LostUpgrade::Upgrade => "Upgrade: websocket is missing",
                LostUpgrade::Connection => "Connection does not list Upgrade",
            },
        );
    }
}

impl Refusal {
    /// The line, if it is about requests of WebSocket clients.
    pub(super) fn line_of_websocket(&self) -> Option<String> {
        let (count, reason) = (self.count, &self.reason);
        let (plural, were, last) = match count {
            1 => ("", "was", ""),
            _ => ("s", "were", " (the last)"),
        };
        Some(match self.status {
            LOST_UPGRADE => format!(
                "{count} request{plural} with Sec-WebSocket-Key {were} served as plain HTTP: {reason}{last}; {FORWARDS_UPGRADE}"
            ),
            UPGRADE if reason.is_empty() => format!(
                "{count} request{plural} asked for WebSocket, which the application does not serve, and {were} served as plain HTTP"
            ),
            // The path of the last of them: the application has routes at others.
            UPGRADE => format!(
                "{count} request{plural} asked for WebSocket and {were} served as plain HTTP: no WebSocket route at {reason}{last}"
            ),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::PAUSE_MS;
    use super::*;
    use crate::limits::Limits;

    #[test]
    fn requests_for_websocket_are_counted() {
        let limits = Limits::default();
        let mut refusals = Refusals::default();
        refusals.add_websocket(None);
        assert_eq!(
            refusals.take(0, &limits),
            [
                "1 request asked for WebSocket, which the application does not serve, and was served as plain HTTP"
            ]
        );
        refusals.add_websocket(None);
        refusals.add_websocket(None);
        assert_eq!(
            refusals.take(PAUSE_MS, &limits),
            [
                "2 requests asked for WebSocket, which the application does not serve, and were served as plain HTTP"
            ]
        );
    }

    #[test]
    fn requests_for_websocket_at_a_path_without_a_route_name_it() {
        let limits = Limits::default();
        let mut refusals = Refusals::default();
        refusals.add_websocket(Some(b"/nochat"));
        assert_eq!(
            refusals.take(0, &limits),
            [
                "1 request asked for WebSocket and was served as plain HTTP: no WebSocket route at /nochat"
            ]
        );
        refusals.add_websocket(Some(b"/nochat"));
        refusals.add_websocket(Some(&[b"/\xff\x1b".as_slice(), &[b'a'; 300]].concat()));
        let shown = format!(r"/\xff\x1b{}", "a".repeat(REASON_CHARACTERS_MAX - 9));
        assert_eq!(
            refusals.take(PAUSE_MS, &limits),
            [format!(
                "2 requests asked for WebSocket and were served as plain HTTP: no WebSocket route at {shown} (the last)"
            )]
        );
    }

    #[test]
    fn requests_whose_upgrade_was_lost_get_what_nginx_needs() {
        let limits = Limits::default();
        let mut refusals = Refusals::default();
        let lines = "with nginx: proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection \"upgrade\";";
        refusals.add_lost_upgrade(LostUpgrade::Upgrade);
        let line = format!(
            "1 request with Sec-WebSocket-Key was served as plain HTTP: Upgrade: websocket is missing; {lines}"
        );
        assert_eq!(refusals.take(0, &limits), [line]);
        refusals.add_lost_upgrade(LostUpgrade::Connection);
        refusals.add_lost_upgrade(LostUpgrade::Version);
        let line = format!(
            "2 requests with Sec-WebSocket-Key were served as plain HTTP: a proxy sends HTTP/1.0 (the last); {lines}"
        );
        assert_eq!(refusals.take(PAUSE_MS, &limits), [line]);
    }
}
