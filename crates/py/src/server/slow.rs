//! Slow requests, as the thread that reports them sees them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use server::SlowRequests;

use crate::run::exchanges::Exchanges;

/// A request that runs: its name, its age in seconds, whether the loop's thread is calling the application for it, its task, and the thread
/// of a pool that runs it.
type Running = (String, f64, bool, Option<Py<PyAny>>, Option<u64>);

/// Requests that run, those that have ended with the seconds that they took, the number of those without room, and the frames of all
/// threads.
pub(super) type News = (Vec<Running>, Vec<(String, f64)>, u64, Py<PyAny>);

/// The requests of a server, if they are to be watched.
pub(super) fn watched(limit_ms: u64) -> Option<Arc<SlowRequests>> {
    let limit = Duration::from_millis(limit_ms);
    (limit_ms > 0).then(|| Arc::new(SlowRequests::new(limit)))
}

/// What is new; None if nothing is. The frames are of the same moment: the interpreter does not run in between.
pub(super) fn news(
    py: Python<'_>,
    exchanges: &Exchanges,
    count_max: usize,
) -> PyResult<Option<News>> {
    let Some(slow) = &exchanges.slow else {
        return Ok(None);
    };
    let now = Instant::now();
    if !slow.has_news(now) {
        return Ok(None);
    }
    let frames = py.import("sys")?.call_method0("_current_frames")?;
    let news = slow.news(now, count_max);
    let running = news.running.into_iter().map(|request| {
        let task = exchanges.change(request.id, |open| {
            open.task.as_ref().map(|task| task.clone_ref(py))
        });
        let age_s = request.age.as_secs_f64();
        let title = shown(&request.title);
        (
            title,
            age_s,
            request.is_in_call,
            task.flatten(),
            request.thread,
        )
    });
    let ended = news.ended.iter();
    let ended = ended.map(|(title, took)| (shown(title), took.as_secs_f64()));
    Ok(Some((
        running.collect(),
        ended.collect(),
        news.suppressed,
        frames.unbind(),
    )))
}

/// A path may contain what a terminal interprets.
fn shown(title: &[u8]) -> String {
    title.escape_ascii().to_string()
}
