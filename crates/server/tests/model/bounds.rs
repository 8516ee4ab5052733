//! The limits and timeouts of the model's server, all different.

use server::Config;

use crate::schedule::Settings;

pub(crate) const HEADER_TIMEOUT_MS: u64 = 15_000;
pub(crate) const KEEP_ALIVE_TIMEOUT_MS: u64 = 75_000;
pub(crate) const WRITE_TIMEOUT_MS: u64 = 30_000;
pub(crate) const HANDLER_TIMEOUT_MS: u64 = 60_000;
pub(crate) const LINGER_TIMEOUT_MS: u64 = 2_000;
pub(crate) const BODY_GRACE_MS: u64 = 5_000;
/// How long a draining server waits for a request on an idle connection.
pub(crate) const DRAINING_IDLE_MS: u64 = 500;
/// Time without an acknowledgement after which a client that sends no more counts as gone.
pub(crate) const DOUBT_MS: u64 = 500;
pub(crate) const BODY_BYTES_MAX: usize = 200_000;

/// The longest time that any content may take: the time of its bytes at the minimum rate, and the grace.
const BODY_RATE_BYTES_PER_S: u64 = 20_000;
/// A timeout acts up to one tick late.
pub(crate) const TICK_MS: u64 = 128;

/// Longer than any connection may stay that waits for its client alone: each wait at most once after another.
pub(crate) const LIFE_MS: u64 = HEADER_TIMEOUT_MS
    + KEEP_ALIVE_TIMEOUT_MS
    + WRITE_TIMEOUT_MS
    + LINGER_TIMEOUT_MS
    + BODY_GRACE_MS
    + 1000 * BODY_BYTES_MAX as u64 / BODY_RATE_BYTES_PER_S
    + HANDLER_TIMEOUT_MS
    + 8 * TICK_MS;

/// The same while the worker drains: it waits for no request, and no response is owed.
pub(crate) const DRAINING_LIFE_MS: u64 = LIFE_MS - KEEP_ALIVE_TIMEOUT_MS - HANDLER_TIMEOUT_MS;

pub(crate) fn config(settings: Settings) -> Config {
    let mut config = Config::default();
    let timeouts = &mut config.timeouts;
    timeouts.header_timeout_ms = HEADER_TIMEOUT_MS;
    timeouts.keep_alive_timeout_ms = KEEP_ALIVE_TIMEOUT_MS;
    timeouts.write_timeout_ms = WRITE_TIMEOUT_MS;
    timeouts.linger_timeout_ms = LINGER_TIMEOUT_MS;
    timeouts.body_grace_ms = BODY_GRACE_MS;
    timeouts.body_rate_bytes_per_s_min = BODY_RATE_BYTES_PER_S;
    timeouts.handler_timeout_ms = match settings.times_handlers {
        true => HANDLER_TIMEOUT_MS,
        false => 0,
    };
    config.limits.body_bytes_max = BODY_BYTES_MAX as u64;
    if settings.is_crowded {
        config.limits.connections_max = 1;
    }
    if settings.is_tight {
        config.limits.pipelined_exchanges_max = 2;
        config.limits.send_buffer_bytes_max = 4096;
        config.limits.content_buffer_bytes_max = 1000;
    }
    config
}
