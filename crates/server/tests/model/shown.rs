//! A schedule as text: one line for each request and each step, without defaults.

use std::fmt::{self, Display, Formatter};

use crate::schedule::{Act, Content, Conversation, Fault, First, PullEnd, Request, Schedule, Tls};

impl Display for Schedule {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "{:?}", self.settings)?;
        for (index, conversation) in self.conversations.iter().enumerate() {
            writeln!(out, "/{index}{}:", manner(conversation))?;
            for (number, request) in conversation.requests.iter().enumerate() {
                writeln!(out, "  /{index}/{number} {request}")?;
            }
        }
        writeln!(out, "steps:")?;
        for step in &self.steps {
            let index = step.conversation % self.conversations.len().max(1);
            match step.act {
                Act::Advance(_) | Act::Settle | Act::Drain => write!(out, "  {:?}", step.act)?,
                act => write!(out, "  /{index} {act:?}")?,
            }
            writeln!(out, ", {} passes", step.passes)?;
        }
        write!(out, "{:?}", self.ending)
    }
}

fn manner(conversation: &Conversation) -> String {
    let mut text = String::new();
    for (is_so, what) in [
        (conversation.is_tcp, " over TCP"),
        (conversation.tls != Tls::None, " over TLS"),
        (conversation.is_narrow, " narrow"),
        (!conversation.is_attentive, " reads on command"),
        (!conversation.reads_at_end, " never reads the rest"),
    ] {
        text.push_str(if is_so { what } else { "" });
    }
    text
}

impl Display for Request {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{:?} {:?}", self.method, self.persistence)?;
        if self.content != Content::None {
            write!(out, " {:?}", self.content)?;
        }
        if self.expects {
            write!(out, " expecting")?;
        }
        if self.fault != Fault::None {
            write!(out, " malformed: {:?}", self.fault)?;
        }
        let handler = &self.handler;
        write!(out, " -> {:?}", handler.first)?;
        if handler.is_slow {
            write!(out, " slowly")?;
        }
        let is_suspended = matches!(handler.first, First::Suspend | First::ReadContent);
        if is_suspended || handler.first == First::Pull && !handler.moves.is_empty() {
            write!(out, " {:?}", handler.moves)?;
            write!(out, " ({} of them in the call)", handler.moves_at_call)?;
        }
        for (is_so, what) in [
            (is_suspended && !handler.completes, ", never completes"),
            (handler.has_room, ", has room"),
            (handler.strays, ", strays"),
        ] {
            write!(out, "{}", if is_so { what } else { "" })?;
        }
        let reply = handler.reply;
        write!(out, "; {} with {} bytes", reply.status, reply.bytes)?;
        if reply.knows_length {
            write!(out, " of known length")?;
        }
        if handler.first == First::Pull || handler.moves.contains(&crate::schedule::Move::Stream) {
            write!(out, " in {} pulls", reply.parts)?;
            if reply.pull_end != PullEnd::End {
                write!(out, ", then {:?}", reply.pull_end)?;
            }
        }
        Ok(())
    }
}
