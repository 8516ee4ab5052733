//! What an application may be notified of at the end of a WebSocket: only what has happened.

#![allow(
    dead_code,
    reason = "each test file is a program of its own and uses a part of this"
)]

/// A code and a reason.
pub(crate) type Close = (u16, String);

/// What may have ended a WebSocket.
#[derive(Clone, Default, Debug)]
pub(crate) struct Causes {
    /// The close frame that the client has written.
    pub(crate) by_client: Option<Close>,
    /// The close frame that the application has posted.
    pub(crate) by_app: Option<Close>,
    /// The close frame that has arrived at the client.
    pub(crate) arrived: Option<Close>,
    /// The carrier has ended, or may have.
    pub(crate) is_lost: bool,
    /// A side may have been late.
    pub(crate) has_stalled: bool,
    pub(crate) has_drained: bool,
    pub(crate) has_violated: bool,
    pub(crate) is_subscriber: bool,
}

impl Causes {
    /// Checks what was reported.
    ///
    /// # Errors
    /// If it has not happened, or is not what the close frame said.
    pub(crate) fn check(&self, reported: &Close) -> Result<(), String> {
        let is_server = match (reported.0, reported.1.as_str()) {
            (1006, "") => return self.of_loss(),
            (1011, "no response to a ping") => self.has_stalled,
            (1012, "the server is stopping") => self.has_drained,
            (1013, "the client receives too slowly") => self.is_subscriber,
            (1002, reason) => self.has_violated && !reason.is_empty(),
            _ => false,
        };
        let is_client = self.by_client.as_ref() == Some(reported);
        let is_same = match &self.arrived {
            None => true,
            arrived => arrived.as_ref() == Some(reported) || *arrived == self.by_app,
        };
        match is_client || is_server && is_same {
            true => Ok(()),
            false => Err(format!("{reported:?} was reported: {self:?}")),
        }
    }

    fn of_loss(&self) -> Result<(), String> {
        match self.is_lost || self.has_stalled {
            true => Ok(()),
            false => Err(format!("a loss was reported: {self:?}")),
        }
    }

    /// Whether the client has closed, and the server has returned its close frame.
    pub(crate) fn is_clean(&self, reported: &Close) -> bool {
        self.by_client.as_ref() == Some(reported) && self.arrived.as_ref() == Some(reported)
    }
}
