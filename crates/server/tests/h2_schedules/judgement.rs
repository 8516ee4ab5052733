//! Whether what has arrived is what was sent.

use wire::h2::ErrorCode;

use crate::harness::h2::Arrived;
use crate::schedule::Kind;
use crate::world::{Asked, Handler, World};

/// Frames of one stream between two of another one that has content all the time.
const FRAMES_BETWEEN_MAX: usize = 2;

/// What handlers have read is what was sent on their streams, in order.
pub(crate) fn of_contents(world: &World) -> Result<(), String> {
    let app = &world.server.worker.app;
    for asked in &world.asked {
        let Some(called) = app.called.iter().rfind(|it| it.target == asked.target) else {
            continue;
        };
        let (read, is_all) = match (asked.kind, &called.content) {
            (Kind::Read | Kind::Parts, Some(content)) => (content.clone(), true),
            (Kind::Parts, _) => app.content_of(called.id),
            _ => continue,
        };
        let is_right = asked.sent.starts_with(read.as_bytes());
        if !is_right || is_all && read.len() != asked.sent.len() {
            return Err(format!("{} has read other content", asked.target));
        }
    }
    Ok(())
}

/// After everybody has gone on to the end: every response is whole and its own, and no stream had to wait for others.
pub(crate) fn of_end(world: &World) -> Result<(), String> {
    for asked in &world.asked {
        of_response(world, asked).map_err(|text| {
            let arrived = &world.client.streams[&asked.stream];
            let bytes = arrived.content.len();
            let goaways = &world.client.goaways;
            format!(
                "{} on {}: {text}; status {}, {bytes} bytes, reset {:?}, GOAWAY {goaways:?}",
                asked.target, asked.stream, arrived.status, arrived.reset
            )
        })?;
    }
    of_turns(world)
}

fn of_response(world: &World, asked: &Asked) -> Result<(), String> {
    let arrived = &world.client.streams[&asked.stream];
    let expected = expected(asked);
    if arrived.was_cancelled {
        return Ok(());
    }
    let is_late = world.has_stalled && may_be_late(arrived);
    if is_late {
        return Ok(());
    }
    let last = world.client.goaways.last().map(|(last, _)| *last);
    if !arrived.is_over() {
        // The client knows that it was not served, and may repeat it elsewhere.
        return match last.is_some_and(|last| last < asked.stream) {
            true => Ok(()),
            false if world.has_stalled && world.has_ended => Ok(()),
            false => Err("there is no response".to_owned()),
        };
    }
    // After a whole response, content that nobody reads is refused (RFC 9113 section 8.1).
    let is_refused = arrived.is_complete && arrived.reset == Some(ErrorCode::NO_ERROR);
    if let Some(code) = arrived.reset.filter(|_| !is_refused) {
        return of_reset(world, asked, code, expected.starts_with(&arrived.content));
    }
    if arrived.status != 200 && !(asked.handler == Handler::Failed && arrived.status == 500) {
        return Err("the status is not that of the application".to_owned());
    }
    if arrived.status == 200 && arrived.content != expected {
        return Err(format!(
            "the content is not that of {} bytes",
            expected.len()
        ));
    }
    let is_whole = asked.handler != Handler::Failed || arrived.status == 500;
    if !is_whole {
        return Err("what has failed is complete".to_owned());
    }
    let has_trailers = asked.handler == Handler::CompleteWithTrailers;
    if arrived.trailers.is_some() != has_trailers || arrived.interim.len() != asked.informed {
        return Err(format!("{arrived:?}"));
    }
    Ok(())
}

/// Whether the response is one that the server sends in place of one that is late.
fn may_be_late(arrived: &Arrived) -> bool {
    let codes = [ErrorCode::CANCEL, ErrorCode::NO_ERROR];
    matches!(arrived.status, 408 | 503) || arrived.reset.is_some_and(|code| codes.contains(&code))
}

fn of_reset(world: &World, asked: &Asked, code: ErrorCode, is_prefix: bool) -> Result<(), String> {
    let is_failed = asked.kind == Kind::Panics || asked.handler == Handler::Failed;
    let is_refused = code == ErrorCode::REFUSED_STREAM && !world.client.goaways.is_empty();
    let is_right = is_failed && code == ErrorCode::INTERNAL_ERROR || is_refused;
    match is_right && is_prefix {
        true => Ok(()),
        false => Err("it was reset".to_owned()),
    }
}

/// The content of a response.
fn expected(asked: &Asked) -> Vec<u8> {
    match asked.kind {
        Kind::Now => asked.target.clone().into(),
        Kind::Head => Vec::new(),
        Kind::Later | Kind::Unread | Kind::Parts => asked.written.clone(),
        Kind::Pulled(parts) => vec![b'p'; 5 * usize::from(parts)],
        Kind::Large(bytes) => vec![b'x'; bytes as usize],
        Kind::Read => asked.sent.clone(),
        Kind::Panics => b"half of a response".to_vec(),
    }
}

/// From when all windows were open, streams that have content send in turns, unless the client wants another order.
fn of_turns(world: &World) -> Result<(), String> {
    if world.has_priorities {
        return Ok(());
    }
    let order = &world.client.order;
    let large = world
        .asked
        .iter()
        .filter(|it| matches!(it.kind, Kind::Large(_)));
    for asked in large {
        let is_own = |at: &usize| order[*at] == asked.stream;
        let own: Vec<usize> = (0..order.len()).filter(is_own).collect();
        let starts = std::iter::once(0).chain(own.iter().map(|at| at + 1));
        for (start, end) in starts.zip(&own) {
            let between = &order[start..*end];
            let most = between
                .iter()
                .map(|one| between.iter().filter(|it| *it == one).count());
            if most.max().unwrap_or(0) > FRAMES_BETWEEN_MAX {
                return Err(format!("{} waited for others: {order:?}", asked.target));
            }
        }
    }
    Ok(())
}
