//! HTTP/2 under random schedules: frames cut anywhere, also within records of TLS; windows and settings that change; resets; an application
//! that responds when and how it likes; WebSockets on streams; time; clients that end, leave or vanish; drains.
//!
//! After every schedule, either all go on until everything has its end: then each response is whole and belongs to its stream, no
//! stream was kept waiting for another, and both sides of each WebSocket have received its messages. Or nobody moves any more but time: then
//! every connection ends by itself. Nothing is left of either, and every application knows how its WebSocket ended.
//!
//! `schedule.rs` draws, `world.rs` and `sockets.rs` run, `judgement.rs` and `of_sockets.rs` judge. `BOLIDE_MODEL_CASES` is the number of schedules of each test,
//! `BOLIDE_MODEL_SEED` their seed.

#[path = "../harness/mod.rs"]
mod harness;
mod judgement;
mod of_sockets;
#[path = "../model/panics.rs"]
mod panics;
mod schedule;
mod sockets;
mod world;

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use schedule::{PLAIN, Profile};
use world::Last;

/// The message of the application's panics.
const PANIC: &str = "as the test wants it";
/// Schedules of each test.
const CASES: u32 = 200;
const SHRINKS_MAX: u32 = 20_000;

/// Reads a number from the environment.
fn number<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    let value = std::env::var(name).ok();
    value.map_or(otherwise, |text| {
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number"))
    })
}

/// Runs the configured number of schedules.
fn hold(profile: Profile, last: Last) {
    panics::watch(PANIC);
    let mut seed = [0; 32];
    let number_of_seed: u64 = number("BOLIDE_MODEL_SEED", 0);
    seed[..8].copy_from_slice(&number_of_seed.to_le_bytes());
    let config = Config {
        cases: number("BOLIDE_MODEL_CASES", CASES),
        failure_persistence: None,
        max_shrink_iters: SHRINKS_MAX,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let held = TestRunner::new_with_rng(config, rng).run(&schedule::moves(profile), |moves| {
        world::run(&moves, profile.is_tls, last).map_err(TestCaseError::fail)
    });
    match held {
        Ok(()) => {}
        Err(TestError::Fail(reason, moves)) => {
            let steps: Vec<String> = moves.iter().map(|each| format!("  {each:?}\n")).collect();
            panic!("{reason}\n{}", steps.concat());
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_all_finish_is_whole_and_leaves_nothing() {
    hold(PLAIN, Last::Finish);
}

#[test]
fn what_nobody_finishes_ends_by_itself() {
    hold(PLAIN, Last::FallSilent);
}

#[test]
fn what_all_finish_over_tls_is_whole_and_leaves_nothing() {
    let profile = Profile {
        is_tls: true,
        ..PLAIN
    };
    hold(profile, Last::Finish);
}

#[test]
fn what_nobody_finishes_over_tls_ends_by_itself() {
    let profile = Profile {
        is_tls: true,
        ..PLAIN
    };
    hold(profile, Last::FallSilent);
}

#[test]
fn clients_that_end_leave_nothing() {
    for is_tls in [false, true] {
        let profile = Profile {
            ends: 2,
            is_tls,
            ..PLAIN
        };
        hold(profile, Last::FallSilent);
    }
}

#[test]
fn time_ends_what_is_late_and_nothing_else() {
    let profile = Profile { stalls: 4, ..PLAIN };
    hold(profile, Last::Finish);
}

#[test]
fn large_responses_share_the_windows() {
    let profile = Profile {
        large: 20,
        windows: 2,
        ..PLAIN
    };
    hold(profile, Last::Finish);
}

const SOCKETS: Profile = Profile {
    sockets: 16,
    ..PLAIN
};

#[test]
fn websockets_beside_requests_receive_everything() {
    for is_tls in [false, true] {
        hold(Profile { is_tls, ..SOCKETS }, Last::Finish);
    }
}

#[test]
fn websockets_whose_clients_fall_silent_end_by_themselves() {
    for is_tls in [false, true] {
        let profile = Profile {
            ends: 2,
            is_tls,
            ..SOCKETS
        };
        hold(profile, Last::FallSilent);
    }
}

#[test]
fn websockets_of_many_streams_share_the_windows() {
    let profile = Profile {
        sockets: 60,
        windows: 8,
        stalls: 1,
        ..SOCKETS
    };
    hold(profile, Last::Finish);
}

#[test]
fn whatever_is_urgent_all_is_sent() {
    for (is_tls, last) in [(false, Last::Finish), (true, Last::FallSilent)] {
        let profile = Profile {
            is_tls,
            large: 10,
            has_priorities: true,
            ..PLAIN
        };
        hold(profile, last);
    }
}

#[test]
fn time_ends_what_is_late_and_not_what_waits_for_urgent_streams() {
    let profile = Profile {
        stalls: 4,
        large: 4,
        has_priorities: true,
        ..PLAIN
    };
    hold(profile, Last::Finish);
}
