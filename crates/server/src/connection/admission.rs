//! Connections that are refused, and requests that waited.

use super::{Connection, Phase};
use crate::app::App;
use crate::context::Context;
use crate::context::waiting::Grant;
use crate::h1::H1;
use crate::link::{Fate, Turn};
use crate::response::{CLIENT_IS_FULL, NO_MEMORY};

/// Why a connection is not served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Surplus {
    /// There are as many as there may be.
    Total,
    /// Its client has as many as it may have.
    Client,
    /// Too little memory is left for another one.
    Memory,
}

impl Surplus {
    fn reason(self) -> &'static str {
        match self {
            Surplus::Total => {
                "This server has reached its maximum number of connections; try again shortly."
            }
            Surplus::Client => CLIENT_IS_FULL,
            Surplus::Memory => NO_MEMORY,
        }
    }
}

impl Connection {
    /// Continues with a request that waited until fewer others run.
    #[cold]
    pub(crate) fn granted<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        stream: u32,
        grant: Grant,
    ) -> Fate {
        let link = &mut self.link;
        let turn = &mut Turn { link, context, app };
        let fate = match &mut self.phase {
            Phase::H1(h1) => h1.granted(turn, grant),
            Phase::H2(h2) => h2.granted(turn, stream, grant),
            _ => Fate::Open,
        };
        self.conclude(context, app, fate)
    }

    /// Starts to refuse a connection that exceeds the limit, or that too little memory is left for.
    pub(crate) fn turn_away<A: App>(
        &mut self,
        context: &mut Context,
        app: &mut A,
        surplus: Surplus,
    ) -> Fate {
        self.is_turned_away = true;
        let mut h1 = H1::new(context.clock.now_ms());
        h1.refuse_unread(
            &mut Turn {
                link: &mut self.link,
                context,
                app,
            },
            503,
            surplus.reason(),
        );
        self.phase = Phase::H1(h1);
        self.settle(context, app)
    }
}
