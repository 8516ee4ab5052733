//! Whether the WebSockets of a connection have received what was sent, and their applications have been notified.

use crate::harness::causes::Close;
use crate::schedule::Way;
use crate::sockets::{Decision, Socket, is_closed};
use crate::world::World;

/// What is written, posted and published has arrived, and applications that wait for it know: before anybody closes. Clients were asked to
/// leave by a server that drains.
pub(crate) fn of_rest(world: &World) -> Result<(), String> {
    for socket in &world.sockets.all {
        let arrived = &world.client.streams[&socket.stream];
        let is_open = arrived.status == 200 && !arrived.is_over() && !world.client.has_finished();
        let is_asked = socket.causes.arrived.is_some() || socket.causes.by_client.is_some();
        if world.is_draining && is_open && !is_asked {
            return Err(format!("{} was not asked to leave", socket.target));
        }
        let (Some(id), Some(noticed)) = (socket.id(&world.server), socket.noticed) else {
            continue;
        };
        let app = &world.server.worker.app;
        let is_noticed = app.writables[noticed..].contains(&id);
        let is_over = is_closed(&world.server, id) || app.aborted.iter().any(|(of, _)| *of == id);
        if !is_noticed && !is_over && socket.causes.by_client.is_none() {
            let target = &socket.target;
            return Err(format!("{target} does not know that everything is sent"));
        }
    }
    Ok(())
}

/// After everybody has gone on to the end.
pub(crate) fn of_end(world: &World) -> Result<(), String> {
    let mut sockets = world.sockets.all.iter();
    sockets.try_for_each(|it| of_one(world, it))
}

fn of_one(world: &World, socket: &Socket) -> Result<(), String> {
    let arrived = &world.client.streams[&socket.stream];
    let failed = |text: &str| {
        Err(format!(
            "{}: {text}; status {}, complete {}, reset {:?}; {:?}",
            socket.target, arrived.status, arrived.is_complete, arrived.reset, socket.causes
        ))
    };
    let Some(id) = socket.id(&world.server) else {
        return match world.is_leaving() || arrived.was_cancelled || world.has_ended {
            true => Ok(()),
            false => failed("the application was not called"),
        };
    };
    of_messages(world, socket)?;
    let reported = reported(world, id);
    if arrived.was_cancelled || world.has_stalled || world.has_ended {
        return Ok(());
    }
    if !arrived.is_over() {
        return failed("the stream is open");
    }
    match socket.decision {
        Decision::Refused if (arrived.status, &arrived.content[..]) != (403, b"no") => {
            failed("the response is not that of the application")
        }
        Decision::Accepted if arrived.status != 200 => failed("it was not accepted"),
        Decision::Accepted if !arrived.is_complete && !socket.causes.is_lost => {
            failed("the stream was not ended")
        }
        Decision::Accepted if reported.is_none() => failed("the end was not reported"),
        _ => Ok(()),
    }
}

fn reported(world: &World, id: server::ExchangeId) -> Option<Close> {
    let mut closed = world.server.worker.app.closed.iter();
    let of = closed.find(|(of, _)| *of == id);
    of.map(|(_, how)| (how.code.0, how.reason.clone()))
}

/// Messages are those that were sent, in order, and all of them after a clean close.
pub(crate) fn of_messages(world: &World, socket: &Socket) -> Result<(), String> {
    let Some(id) = socket.id(&world.server) else {
        return Ok(());
    };
    let is_clean = reported(world, id).is_some_and(|close| socket.causes.is_clean(&close))
        && world.closes_last.contains(&socket.stream);
    let messages = world.server.worker.app.messages.iter();
    let delivered: Vec<String> = messages
        .filter(|(to, ..)| *to == id)
        .map(|(_, _, content)| String::from_utf8_lossy(content).into_owned())
        .collect();
    let received = |who: char| -> Vec<String> {
        let of_them = socket.received.iter().filter(|it| it.starts_with(who));
        of_them.cloned().collect()
    };
    let since = socket.subscribed_at.unwrap_or(0);
    let published = match socket.way {
        Way::Subscribes => &world.sockets.published[since..],
        _ => &[],
    };
    let echoes = match socket.way {
        Way::Echo | Way::Post => &delivered[..],
        _ => &[],
    };
    let of_all = [
        ("delivered", &delivered, &socket.written[..]),
        ("echoed", &received('c'), echoes),
        ("posted", &received('a'), &socket.posted[..]),
        ("published", &received('p'), published),
    ];
    for (what, some, all) in of_all {
        if !all.starts_with(some) || is_clean && some.len() < all.len() {
            let (target, some, all) = (&socket.target, some.len(), all.len());
            return Err(format!("{target}: {what} {some} of {all}, or others"));
        }
    }
    Ok(())
}

/// After the end of the connection, every application knows how its WebSocket ended, and knows it once.
pub(crate) fn of_reports(world: &World) -> Result<(), String> {
    let app = &world.server.worker.app;
    for socket in &world.sockets.all {
        let Some(id) = socket.id(&world.server) else {
            continue;
        };
        let closed = app.closed.iter().filter(|(of, _)| *of == id).count();
        let aborted = app.aborted.iter().filter(|(of, _)| *of == id).count();
        let status = world.client.streams[&socket.stream].status;
        let is_right = match (socket.decision, status) {
            // A refusal may be late.
            (Decision::Refused, _) => closed == 0 && aborted <= 1,
            (_, 200) => (closed, aborted) == (1, 0),
            _ => closed + aborted == 1,
        };
        if !is_right {
            let target = &socket.target;
            return Err(format!(
                "{target}: {closed} ends of a WebSocket and {aborted} of a request were reported"
            ));
        }
        if let Some(reported) = reported(world, id) {
            let text = socket.causes.check(&reported);
            text.map_err(|text| format!("{}: {text}", socket.target))?;
        }
    }
    Ok(())
}
