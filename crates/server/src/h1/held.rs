//! Long parts of a content in the application's memory: with TLS they are encrypted from there, which saves a copy.

use net::memory::{NoMemory, append, reserve};

use super::H1;
use super::queue::CHUNK_BYTES;
use crate::exchange::Progress;
use crate::link::Turn;
use crate::mailbox::Command;
use crate::response::HeldPart;

impl H1 {
    /// Sends what `command` posts for the response at `index`, if that is next and can be encrypted from where it is. Returns false
    /// if the command is still to be executed.
    ///
    /// # Errors
    /// If there is no memory for what the socket does not accept. Some of it may have been sent.
    pub(super) fn send_held<A>(
        &mut self,
        turn: &mut Turn<'_, A>,
        index: usize,
        command: &Command,
    ) -> Result<bool, NoMemory> {
        match command {
            Command::WriteHeld(part) if index == 0 && self.can_send_held(turn) => {
                self.send_part(turn, &**part).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Whether nothing precedes a part of the first response, and the socket may accept it.
    fn can_send_held<A>(&self, turn: &Turn<'_, A>) -> bool {
        let is_next = self.queue.front().is_some_and(|front| {
            front.exchange.progress == Progress::Pushed && front.exchange.out.is_empty()
        });
        let responder = &turn.context.responder;
        let has_unsent = !responder.out.is_empty() || responder.batch.holds(turn.link.id);
        is_next && turn.link.is_secure() && !turn.link.is_full() && !has_unsent
    }

    /// What the socket does not accept becomes output: on a broken connection all of it, and the next flush detects that.
    fn send_part<A>(
        &mut self,
        turn: &mut Turn<'_, A>,
        part: &dyn HeldPart,
    ) -> Result<(), NoMemory> {
        let Some(front) = self.queue.front_mut() else {
            return Ok(());
        };
        let content = part.bytes();
        reserve(&mut turn.context.responder.out, CHUNK_BYTES)?;
        let mut head = std::mem::take(&mut turn.context.responder.out);
        let (admitted, end) = front.encoding.frame(&mut head, content.len());
        let parts = [&head, content.get(..admitted).unwrap_or(content), end];
        let mut sent = 0;
        if admitted > 0 {
            sent = turn.link.send_parts(turn.context, &parts);
            turn.context.clock.tick();
        }
        let tail = front.exchange.out.tail();
        let mut result = Ok(());
        for part in parts {
            let unsent = part.get(sent..).unwrap_or_default();
            sent = sent.saturating_sub(part.len());
            result = result.and_then(|()| append(tail, unsent));
        }
        front.exchange.record.add_content(content.len() as u64);
        front.exchange.awaits_writable = true;
        head.clear();
        turn.context.responder.out = head;
        result
    }
}
